"""Whether an HTTP/2 peer may be mute: exchanges are given up, and nothing comes for anybody.

Such a connection's kernel acknowledges and its program does not answer, so that TCP is blind; and
where the kernel is gone a short timeout of the caller's comes first. Either way it takes no new
exchange, else each would meet the same silence. Those under way may still be answered.

Source: DESIGN section 6 (quiet after a second). Refuses to judge by one quick cancellation.
"""

from __future__ import annotations

__all__ = ["Silence"]

MUTE = 0.9  # seconds without a byte while an answer is awaited: a timeout of 1 s is to count
QUICK = 2  # exchanges in a row that are given up sooner


class Silence:
    """What one connection hears. Under its session's lock, or where only one thread moves bytes."""

    __slots__ = ("_given_up", "heard")

    def __init__(self) -> None:
        self.heard = 0  # how often something has come
        self._given_up = 0  # exchanges since, that were given up unanswered

    def broken(self) -> None:
        """Something has come, for whomever."""
        self.heard += 1
        self._given_up = 0

    def lasts(self, seconds: float, heard: int) -> bool:
        """An exchange is given up, `seconds` after its last sign of life, when `heard` stood.

        Whether the peer is to be taken for mute.
        """
        if heard != self.heard:
            return False
        self._given_up += 1
        return seconds >= MUTE or self._given_up >= QUICK
