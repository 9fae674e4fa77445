"""Thin bridges to other clients, one module per library, imported only on use.

`from outlast.shims.adapters.requests import OutlastAdapter`: a module needs its library, which is
an extra of the same name (`pip install outlast[requests]`), and nothing else does. Each hands
sockets that this library has dialled to a hook of that library; see docs/adapters.md.
"""

from __future__ import annotations

__all__: list[str] = []
