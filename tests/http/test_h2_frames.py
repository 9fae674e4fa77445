"""Farewells are taken out of what arrives, however it is cut into pieces; nothing else changes."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from outlast.http.h2_frames import Farewell, Frames


def frame(kind: int, payload: bytes, stream: int = 1) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes((kind, 0)) + stream.to_bytes(4, "big")
    return head + payload


def farewell(last: int, code: int, why: bytes = b"") -> bytes:
    return frame(7, last.to_bytes(4, "big") + code.to_bytes(4, "big") + why, 0)


ordinary = st.builds(frame, st.integers(0, 255).filter(lambda n: n != 7), st.binary(max_size=40))
farewells = st.builds(Farewell, st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1))


@given(st.lists(st.one_of(ordinary, farewells), max_size=8), st.lists(st.integers(0, 400)))
def test_farewells_come_out_and_the_rest_goes_on(
    said: list[bytes | Farewell], cuts: list[int]
) -> None:
    wire = b"".join(
        part if isinstance(part, bytes) else farewell(part.last, part.code, b"why") for part in said
    )
    edges = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})
    frames, heard = Frames(), list[bytes | Farewell]()
    for start, end in itertools.pairwise(edges):
        heard += frames.split(wire[start:end])
    assert joined(heard) == joined(said)


def joined(parts: list[bytes | Farewell]) -> list[bytes | Farewell]:
    """The same with neighbouring bytes as one."""
    found: list[bytes | Farewell] = []
    for part in parts:
        if isinstance(part, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += part
        else:
            found.append(part)
    return found


def test_the_reserved_bit_means_nothing() -> None:
    (heard,) = Frames().split(farewell(0x80000003, 0))
    assert heard == Farewell(3, 0)


def test_what_is_no_farewell_is_for_others_to_judge() -> None:
    for wrong in (frame(7, b"short", 0), frame(7, b"x" * 20_000, 0)):
        assert b"".join(part for part in Frames().split(wrong) if isinstance(part, bytes)) == wrong


def test_nothing_is_held_back_but_heads_and_farewells() -> None:
    """The half of a large frame is passed on: its bytes may be all that comes for a while."""
    frames, whole = Frames(), frame(0, b"x" * 100)
    assert list(frames.split(whole[:50])) == [whole[:50]]
    assert list(frames.split(whole[50:])) == [whole[50:]]
