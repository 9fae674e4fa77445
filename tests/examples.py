"""How many examples hypothesis draws of a state machine: a part in every run, other ones each time;
all with `OUTLAST_FULL=1` (make machines)."""

from __future__ import annotations

import os

__all__ = ["examples"]

PART = 4  # of so many one is drawn


def examples(whole: int) -> int:
    """Of `whole` examples those of this run."""
    return whole if os.environ.get("OUTLAST_FULL") else whole // PART
