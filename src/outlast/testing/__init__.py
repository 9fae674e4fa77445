"""Networks to test an application against: nodes that die, pods that freeze, Services that lag.

`KernelLab` is the real thing: this machine's own kernel, in network namespaces of its own.
`SimNet` is a model of it in virtual time, in the same words: a minute of outage in milliseconds,
and the same again whenever the seed is the same. Names are resolved on first use, so that
importing this package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outlast.testing.kernel_lab import KernelLab
    from outlast.testing.simnet.faults import draw_faults
    from outlast.testing.simnet.faults import schedule as schedule_faults
    from outlast.testing.simnet.handlers import Request, Response
    from outlast.testing.simnet.net import SimNet
    from outlast.testing.simnet.service import NodePort
    from outlast.testing.simnet.stall import SimStalled

_HOME = {
    "KernelLab": "outlast.testing.kernel_lab",
    "NodePort": "outlast.testing.simnet.service",
    "Request": "outlast.testing.simnet.handlers",
    "Response": "outlast.testing.simnet.handlers",
    "SimNet": "outlast.testing.simnet.net",
    "SimStalled": "outlast.testing.simnet.stall",
    "draw_faults": "outlast.testing.simnet.faults",
    "schedule_faults": "outlast.testing.simnet.faults",
}

__all__ = [
    "KernelLab",
    "NodePort",
    "Request",
    "Response",
    "SimNet",
    "SimStalled",
    "draw_faults",
    "schedule_faults",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    inside = "schedule" if name == "schedule_faults" else name
    value: object = getattr(importlib.import_module(home), inside)
    globals()[name] = value
    return value
