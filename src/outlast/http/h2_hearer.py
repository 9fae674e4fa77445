"""What an HTTP/2 connection knows of the exchanges on it: they hear of what has come for them."""

from __future__ import annotations

from typing import Protocol

import h2.events

__all__ = ["Hearer"]


class Hearer(Protocol):
    """What a session knows of an exchange."""

    blocked: bool  # its owner waits to send

    @property
    def parked(self) -> bool:
        """Whether its owner waits at all."""

    def hear(self, event: h2.events.Event | Exception) -> None:
        """Something has come for it."""

    def wake(self) -> None:
        """Let its owner look."""
