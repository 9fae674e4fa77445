"""Servers that answer, or go, before they have read the request to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from tests.dropin.sides import Side, Upload
from tests.dropin.stage import BOUND, Handler, Peer, echo
from tests.dropin.table import add

MEGABYTE = 1_048_576
SMALL = {"receive_buffer": 16_384}  # bytes: a sender blocks soon
REFUSAL = b"HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 7\r\n\r\ntoo big"
CONTENT = b"x" * 8 * MEGABYTE


def some(peer: Peer) -> None:
    """Read some of a large body."""
    while len(peer.line.raw) < 100_000:
        if not peer.more():
            return


def refuses_and_reads(peer: Peer) -> None:
    """Answers by the head, and reads what else comes."""
    peer.head()
    peer.send(REFUSAL)
    peer.until_closed()


def refuses_and_stops(peer: Peer) -> None:
    """Answers by the head, and reads no more."""
    peer.head()
    peer.send(REFUSAL)
    peer.finish()
    peer.wait()


def goes_on(peer: Peer) -> None:
    """Begins its answer by the head, reads the body, and only then answers on."""
    while (head := peer.head()) is not None:
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf")
        if peer.body(head) is None:
            return
        peer.send(b"half")


def stops(peer: Peer) -> None:
    """Reads some, says that nothing comes, and reads no more."""
    some(peer)
    peer.finish()
    peer.wait()


def resets(peer: Peer) -> None:
    some(peer)
    peer.reset()


def posting(content: Callable[[], Any], *, write: float) -> Any:
    """A large POST and another one. `write`: how long httpx may wait to write, if it does so in
    vain: it sees nothing but its own blocked write."""

    async def script(side: Side) -> None:
        await side.post("/1", content(), timeout=httpx.Timeout(BOUND, write=side.vain(write)))
        await side.post("/2")

    return script


CONTENTS: dict[str, Callable[[], Any]] = {
    "bytes": lambda: CONTENT,
    "stream": lambda: Upload(*[CONTENT[:MEGABYTE]] * 8),
}
# What the first connection does; how much of the body it gets is luck.
FIRST: dict[str, tuple[Handler, float]] = {
    "refused_and_read": (refuses_and_reads, BOUND),
    "refused_and_stopped": (refuses_and_stops, 0.2),
    "answered_amid": (goes_on, BOUND),
    "reset": (resets, BOUND),
    "stopped": (stops, 0.2),
}
for _name, (_handler, _write) in FIRST.items():
    for _kind, _content in CONTENTS.items():
        _script = posting(_content, write=_write)
        add(f"uploads-{_name}_{_kind}", _script, _handler, echo, cut=True, stage=SMALL)
