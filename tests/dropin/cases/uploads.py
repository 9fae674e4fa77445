"""Servers that answer, or go, before they have read the request to its end."""

from __future__ import annotations

from typing import Any

import httpx

from tests.dropin.sides import Side, Upload
from tests.dropin.stage import BOUND, Handler, Peer, echo
from tests.dropin.table import add

MEGABYTE = 1_048_576
SMALL = {"receive_buffer": 16_384}  # bytes: a sender blocks soon
SHORT = httpx.Timeout(
    BOUND, write=0.3
)  # seconds: where httpx sees nothing but its own blocked write
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
    await side.post("/1", CONTENT)
    await side.post("/2")


async def post_stream(side: Side) -> None:
    await side.post("/1", Upload(*[CONTENT[:MEGABYTE]] * 8))
    await side.post("/2")


# What the first connection does; how much of the body it gets is luck.
ENDED: dict[str, Handler] = {"refused_and_read": refuses_and_reads, "reset": resets}
BLOCKED: dict[str, Handler] = {"refused_and_stopped": refuses_and_stops, "stopped": stops}

for _name, _handler in ENDED.items():
    add(f"uploads-{_name}_bytes", post_bytes, _handler, echo, cut=True, stage=SMALL)
    add(f"uploads-{_name}_stream", post_stream, _handler, echo, cut=True, stage=SMALL)
for _name, _handler in BLOCKED.items():
    _more: dict[str, Any] = {"cut": True, "stage": SMALL, "client": {"timeout": SHORT}}
    add(f"uploads-{_name}_bytes", post_bytes, _handler, echo, **_more)
    add(f"uploads-{_name}_stream", post_stream, _handler, echo, **_more)
