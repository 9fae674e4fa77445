"""What goes on until it is cancelled: by its `cancel`, or at the end of a `with` block.

A base for those that have nothing else to end. Refuses to swallow what the block has raised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

__all__ = ["Cancellable"]

C = TypeVar("C", bound="Cancellable")


class Cancellable(ABC):
    """A context manager: its end is `cancel`."""

    __slots__ = ()

    @abstractmethod
    def cancel(self) -> None:
        """End it. A second time does nothing."""

    def __enter__(self: C) -> C:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()
