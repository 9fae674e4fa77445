"""The in-process patch: sockets that any Python library opens outlast an endpoint's loss.

`install()` replaces connect where Python code passes on its way to the kernel; see docs/install.md.
"""

from __future__ import annotations

from outlast.shims.patch.installed import Installed, install, uninstall

__all__ = ["Installed", "install", "uninstall"]
