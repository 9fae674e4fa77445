"""Networks to test an application against: nodes that die, pods that freeze, Services that lag.

`KernelLab` is the real thing: this machine's own kernel, in network namespaces of its own.
Names are resolved on first use, so that importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outlast.testing.kernel_lab import KernelLab

__all__ = ["KernelLab"]


def __getattr__(name: str) -> object:
    if name == "KernelLab":
        from outlast.testing.kernel_lab import KernelLab

        return KernelLab
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
