"""Takes the server's farewells (GOAWAY) out of what arrives on an HTTP/2 connection.

h2 closes its whole state when it sees one, and refuses what comes after; but a farewell leaves
the streams up to its last one to be finished (RFC 9113 section 6.8), in the same packet even. So
h2 is not shown any: here frames are only counted off, everything else is h2's to judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Farewell", "Frames"]

HEAD = 9  # bytes of a frame's head: length, type, flags, stream (RFC 9113 section 4.1)
GOAWAY = 0x7
LEAST, MOST = 8, 16_384  # bytes of a farewell: stream and code; what any peer must take


@dataclass(frozen=True, slots=True)
class Farewell:
    """The highest stream that the server may have acted on, and why it leaves: an error code of
    RFC 9113 section 7, 0 for none."""

    last: int
    code: int


class Frames:
    """What arrives, in order: bytes for h2, and farewells. Not thread-safe."""

    __slots__ = ("_kept", "_left")

    def __init__(self) -> None:
        self._kept = b""  # of a frame's head, or of a farewell, that is not whole yet
        self._left = 0  # bytes until the frame under way ends

    def split(self, data: bytes) -> Iterator[bytes | Farewell]:
        """The parts of `data`."""
        if self._kept:
            data, self._kept = self._kept + data, b""
        start = 0  # of what is h2's
        at = self._left
        while at + HEAD <= len(data):
            size = int.from_bytes(data[at : at + 3], "big")
            after = at + HEAD + size
            if data[at + 3] != GOAWAY or not LEAST <= size <= MOST:
                at = after
                continue
            if at > start:
                yield data[start:at]
            start = at
            if after > len(data):
                break
            yield _farewell(data[at + HEAD :])
            start = at = after
        self._left = max(0, at - len(data))
        whole = min(at, len(data))
        self._kept = data[whole:]
        if whole > start:
            yield data[start:whole]


def _farewell(payload: bytes) -> Farewell:
    last = int.from_bytes(payload[:4], "big") & 0x7FFFFFFF
    return Farewell(last, int.from_bytes(payload[4:8], "big"))
