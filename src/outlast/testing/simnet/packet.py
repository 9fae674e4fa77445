"""What travels: TCP segments, and the ICMP errors that tell of segments lost.

A segment may carry many packets' worth of bytes, as with segmentation offload. Sequence numbers
are plain integers that never wrap, and every connection has a range of its own, so that an old
connection's packets are never taken for a new one's.

Source: RFC 9293 section 3.1, RFC 2018 (SACK), RFC 792. Leaves out checksums, options and IP.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ACK", "FIN", "RST", "SYN", "Endpoint", "Segment", "Unreachable", "flag_names"]

Endpoint = tuple[str, int]

FIN = 1
SYN = 2
RST = 4
ACK = 16

_NAMES = ((SYN, "SYN"), (FIN, "FIN"), (RST, "RST"), (ACK, "ACK"))


class Segment:
    """One TCP segment. Address translation makes a copy with other ends (`between`)."""

    __slots__ = (
        *("ack", "data", "dst", "echo", "flags", "held", "label", "sacks", "seq", "src", "ts"),
        "wnd",
    )

    def __init__(
        self,
        src: Endpoint,
        dst: Endpoint,
        flags: int,
        seq: int,
        ack: int = 0,
        wnd: int = 0,
        data: bytes = b"",
        sacks: tuple[tuple[int, int], ...] = (),
        label: str = "",
    ) -> None:
        self.src = src
        self.dst = dst
        self.flags = flags
        self.seq = seq
        self.ack = ack
        self.wnd = wnd
        self.data = data
        self.sacks = sacks
        self.label = label  # the sending connection's name: what its packets' chance is keyed by
        self.held = False  # still on its host, waiting for a neighbour's link address
        self.ts = 0  # RFC 7323: when it was sent, and
        self.echo = 0  # when that was sent which it answers

    @property
    def end(self) -> int:
        """The sequence number after it; SYN and FIN count as one each."""
        return self.seq + len(self.data) + (1 if self.flags & (SYN | FIN) else 0)

    def between(self, src: Endpoint, dst: Endpoint) -> Segment:
        """The same from `src` to `dst`."""
        copy = Segment(
            src, dst, self.flags, self.seq, self.ack, self.wnd, self.data, self.sacks, self.label
        )
        copy.ts, copy.echo = self.ts, self.echo
        return copy

    def __repr__(self) -> str:
        ends = f"{self.src[0]}:{self.src[1]} > {self.dst[0]}:{self.dst[1]}"
        return f"<{ends} {flag_names(self.flags)} {len(self.data)} bytes>"


class Unreachable(NamedTuple):
    """An ICMP destination unreachable: what it means to a program, and the segment it is about."""

    errno: int
    segment: Segment


def flag_names(flags: int) -> str:
    """The flags as people write them; a bare ACK is the usual case."""
    return "+".join(name for bit, name in _NAMES if flags & bit)
