"""Where a client over outlast differs from a plain one, case by case, and why that is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["BETTER", "Better"]


@dataclass(frozen=True)
class Better:
    """A difference. `why`: its key in `REASONS`. `plain`: what httpx does, in the words of
    `Record.words`; `ours`: what outlast does. `worlds`: where; elsewhere both do the same."""

    why: str
    plain: str
    ours: str
    worlds: frozenset[str] = frozenset({"threads", "asyncio", "trio"})


THREADS = frozenset({"threads"})
LOOPS = frozenset({"asyncio", "trio"})

# The headings of docs/drop-in.md's table of differences, where each is explained.
REASONS: Mapping[str, str] = {
    "own_errors": "An error of a library below",
    "ws": "`ws://` beside `http://`",
}

BETTER: Mapping[str, Better] = {
    "requests-too_little_for_the_declared_length": Better(
        "own_errors",
        "h11.LocalProtocolError, 200 | POST /1 | POST /2",
        "LocalProtocolError, 200 | POST /1 | POST /2",
        THREADS,
    ),
    "requests-too_much_for_the_declared_length": Better(
        "own_errors",
        "h11.LocalProtocolError, 200 | POST /1 | POST /2",
        "LocalProtocolError, 200 | POST /1 | POST /2",
        THREADS,
    ),
    "requests-a_port_that_cannot_be": Better(
        "own_errors", "ExceptionGroup", "ConnectError", frozenset({"asyncio"})
    ),
    "requests-websocket_schemes": Better(
        "ws", "200, 200 | GET /1 | GET /2", "200, 200 | GET /1, GET /2"
    ),
}
