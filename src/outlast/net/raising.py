"""Errors that more than one raises, each its own.

Raising adds the raiser's frames to an error's traceback. One that stays where others find it (what
a shared connection failed with, the outcome of a look-up that many wait for) would keep the frames
of all of them, and with these whatever their calls held: responses, and their places in the pool.
"""

from __future__ import annotations

import copy
from typing import TypeVar

__all__ = ["anew"]

E = TypeVar("E", bound=BaseException)


def anew(error: E) -> E:
    """An error of the same kind, words and number, that nobody has raised yet."""
    try:
        return copy.copy(error)
    except TypeError:  # it cannot be made of its arguments; then at least without frames
        return error.with_traceback(None)
