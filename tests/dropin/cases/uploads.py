"""Servers that answer, or go, before they have read the request to its end."""

from __future__ import annotations

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


def stops(peer: Peer) -> None:
    """Reads some, says that nothing comes, and reads no more."""
    some(peer)
    peer.finish()
    peer.wait()


def resets(peer: Peer) -> None:
    some(peer)
    peer.reset()


async def post_bytes(side: Side) -> None:
    await side.post("/1", CONTENT, timeout=patience(side))
    await side.post("/2")


async def post_stream(side: Side) -> None:
    await side.post("/1", Upload(*[CONTENT[:MEGABYTE]] * 8), timeout=patience(side))
    await side.post("/2")


def patience(side: Side) -> httpx.Timeout:
    """httpx sees nothing but its own blocked write."""
    return httpx.Timeout(BOUND, write=side.vain(0.2))


# What the first connection does; how much of the body it gets is luck.
FIRST: dict[str, Handler] = {
    "refused_and_read": refuses_and_reads,
    "refused_and_stopped": refuses_and_stops,
    "reset": resets,
    "stopped": stops,
}
for _name, _handler in FIRST.items():
    add(f"uploads-{_name}_bytes", post_bytes, _handler, echo, cut=True, stage=SMALL)
    add(f"uploads-{_name}_stream", post_stream, _handler, echo, cut=True, stage=SMALL)
