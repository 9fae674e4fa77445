"""`--explain`: one line on stderr for each connection, of what was done with it and why.

Written in one piece, so that lines of several programs do not run into each other. Refuses to fail:
a stderr that is closed or full costs the line and nothing else.
"""

from __future__ import annotations

import os
from collections import Counter

from outlast.core.report import Report

__all__ = ["Explainer"]


class Explainer:
    """Tells, or does not, if `wanted` is False. `number`: of the descriptor to write to."""

    def __init__(self, *, wanted: bool, number: int = 2) -> None:
        self.wanted = wanted
        self._number = number

    def tell(self, text: str) -> None:
        """Anything, as one line."""
        if self.wanted:
            self.warn(text)

    def warn(self, text: str) -> None:
        """What is told in any case."""
        line = f"outlast run: {text}\n".encode(errors="replace")
        try:
            os.write(self._number, line)
        except OSError:  # nobody reads it any more
            return

    def connect(self, pid: int, number: int, wanted: str, what: str) -> None:
        """How a connect has gone."""
        if self.wanted:
            self.warn(f"pid {pid} fd {number} {wanted}: {what}")


def dials(report: Report) -> str:
    """What became of the dials beside the program's own, in few words."""
    told = Counter(
        f"{event.address} {event.what}" for event in report.of_phase("connect") if event.address
    )
    return "; ".join(each if count == 1 else f"{each} ({count}x)" for each, count in told.items())
