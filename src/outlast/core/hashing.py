"""Consistent hashing: the same key to the same endpoint, for every client, as endpoints change.

Two tables. `Ring` (Karger's, as in ketama): 128 points per endpoint of mean weight, at most
65,536 in all, so from 512 endpoints on the points per endpoint halve, step by step; shares differ
by about 1 / sqrt(points), 9 %. Walking on from a point gives the next choice. `Maglev` (Eisenbud
and others, NSDI 2016, section 3.4): 65,537 places, filled in turns by weight as Envoy does; shares
differ by 1 % up to hundreds of endpoints. Building it takes tens of milliseconds, once per change
of the endpoints; a ring of ten is built in two.

Both hold all endpoints of a level, whatever their health. A key whose endpoint is out, to be
avoided, or in slow start and not yet back at this key, goes on to the next place: so an ejection
moves the keys of that endpoint and no others, and the return moves exactly them back.

Keys and names are hashed with BLAKE2b, never with `hash()`, which differs from process to process.
An endpoint's name is `str(key)`. Refuses to bound load (a hot key stays where it belongs).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from math import ceil, log2
from struct import unpack
from typing import Generic, Protocol

from outlast.core.endpoint import Endpoint, K

__all__ = ["MAGLEV_SIZE", "Maglev", "Ring", "Table", "digest", "find", "fraction"]

MAGLEV_SIZE = 65_537  # the paper's small table; a prime
RING_POINTS = 128  # per endpoint of mean weight; ketama has 160, in blocks of 4
RING_LIMIT = 65_536  # points of a ring; the lightest have one each, beyond it
STEPS = 32  # places looked at for one key, before those that are open are compared themselves
WORD = (1 << 64) - 1
OWNER = (1 << 32) - 1
ODD = 0x9E37_79B9_7F4A_7C15  # 2^64 / golden ratio: spreads what differs in few bits


def digest(key: bytes) -> int:
    """64 bits that stand for a key, the same in every process."""
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little")


def fraction(number: int, salt: int) -> float:
    """From 0.0 to 1.0, the same for the same two numbers, and unlike either."""
    return ((number ^ salt) * ODD & WORD) / (1 << 64)


class Table(Protocol[K]):
    """Which endpoint a key belongs to."""

    def at(self, number: int, step: int) -> Endpoint[K]:
        """The endpoint that is `step` places after the one `number` belongs to."""
        ...


def _named(endpoints: Iterable[Endpoint[K]]) -> list[tuple[bytes, Endpoint[K]]]:
    """By name, so that every client comes to the same table."""
    named = [
        (str(endpoint.key).encode("utf-8", "surrogateescape"), endpoint) for endpoint in endpoints
    ]
    for name, endpoint in named:
        endpoint.spot = digest(name)
    return sorted(named, key=lambda pair: pair[0])


def _narrow(owners: list[int]) -> array[int]:
    """Two bytes each, where they are enough."""
    return array("H" if max(owners) < 1 << 16 else "I", owners)


class Ring(Generic[K]):
    """Points on a circle; a key belongs to the next one."""

    __slots__ = ("_endpoints", "_owners", "_points")

    def __init__(self, endpoints: Iterable[Endpoint[K]]) -> None:
        named = _named(endpoints)
        self._endpoints = [endpoint for _, endpoint in named]
        scale = _scale([endpoint.member.weight for endpoint in self._endpoints])
        placed: list[int] = []  # point and owner in one number, which sorts faster than a pair
        for owner, (name, endpoint) in enumerate(named):
            count = max(1, round(endpoint.member.weight * scale))
            placed += [point << 32 | owner for point in _points(name, count)]
        placed.sort()
        self._points = array("Q", [each >> 32 for each in placed])
        self._owners = _narrow([each & OWNER for each in placed])

    def __len__(self) -> int:
        return len(self._points)

    def at(self, number: int, step: int) -> Endpoint[K]:
        """See `Table`."""
        place = bisect_left(self._points, number) + step
        return self._endpoints[self._owners[place % len(self._owners)]]


def _scale(weights: Sequence[float]) -> float:
    """Points per weight: a power of two, lest every change of the endpoints moves all points."""
    points = min(RING_POINTS * len(weights), RING_LIMIT // 2)
    return float(2.0 ** ceil(log2(points / sum(weights))))


def _points(name: bytes, count: int) -> list[int]:
    """The first `count` points of a name; those of a smaller count are among them."""
    points: list[int] = []
    for block in range(-(-count // 8)):
        drawn = blake2b(name, digest_size=64, salt=block.to_bytes(8, "little")).digest()
        points.extend(unpack("<8Q", drawn))
    return points[:count]


class Maglev(Generic[K]):
    """A table of places, each endpoint having its own order of preference among them."""

    __slots__ = ("_endpoints", "_owners")

    def __init__(self, endpoints: Iterable[Endpoint[K]], size: int = MAGLEV_SIZE) -> None:
        named = _named(endpoints)
        self._endpoints = [endpoint for _, endpoint in named]
        self._owners = _narrow(_filled(named, size))

    def __len__(self) -> int:
        return len(self._owners)

    def at(self, number: int, step: int) -> Endpoint[K]:
        """See `Table`. Whoever has a place, its neighbours belong to all others alike."""
        return self._endpoints[self._owners[(number + step) % len(self._owners)]]


def _filled(named: Sequence[tuple[bytes, Endpoint[K]]], size: int) -> list[int]:
    """The places' owners: in turns, each takes the place that it likes best of those left."""
    heaviest = max(endpoint.member.weight for _, endpoint in named)
    likes: list[list[int]] = []  # next place, skip
    for name, _ in named:
        words = blake2b(name, digest_size=16).digest()
        first = int.from_bytes(words[:8], "little") % size
        likes.append([first, int.from_bytes(words[8:], "little") % (size - 1) + 1])
    parts = [endpoint.member.weight / heaviest for _, endpoint in named]
    credit = [0.0] * len(named)
    owners = [0] * size
    taken = bytearray(size)
    left = size
    while True:
        for owner, like in enumerate(likes):
            credit[owner] += parts[owner]
            if credit[owner] < 1.0:  # the heaviest take every turn, the others their part of them
                continue
            credit[owner] -= 1.0
            place, skip = like
            while taken[place]:
                place += skip
                if place >= size:
                    place -= size
            owners[place] = owner
            taken[place] = 1
            like[0] = place
            left -= 1
            if not left:
                return owners


def find(
    table: Table[K],
    number: int,
    cells: Sequence[Iterable[Endpoint[K]]],
    now: float,
    avoid: Collection[K],
) -> Endpoint[K] | None:
    """The endpoint of `table` that a key belongs to, of those that are open.

    `cells`: the lists that are open, which are gone through when almost none of the table is:
    then the key goes to the endpoint for which both together hash highest (rendezvous).
    """
    for step in range(STEPS):
        endpoint = table.at(number, step)
        cell = endpoint.cell
        if cell is None or not cell.open or endpoint.key in avoid:
            continue
        # In slow start keys come back one by one: those of the lowest fraction first.
        if not endpoint.warming or fraction(number, endpoint.spot) < endpoint.part(now):
            return endpoint
    allowed = [each for cell in cells for each in cell if each.key not in avoid]
    if not allowed:
        return None
    return max(allowed, key=lambda each: fraction(number, each.spot))
