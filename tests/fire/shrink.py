"""Makes a failing incident small: whatever can go without the breach going with it, goes.

Workers, calls and blows are dropped, first many at once, then one by one; then what is left is made
plain. Everything is deterministic, so the same incident shrinks in the same way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from tests.fire.incident import Ask, Blow, Incident, Place

__all__ = ["MOST", "shrink"]

MOST = 400  # incidents that are played on the way


def shrink(incident: Incident, fails: Callable[[Incident], bool], most: int = MOST) -> Incident:
    """The smallest one found that still `fails`; `incident` itself if nothing smaller does."""
    left = most
    smaller = True
    while smaller and left > 0:
        smaller = False
        for candidate in _smaller(incident):
            left -= 1
            if fails(candidate):
                incident, smaller = candidate, True
                break
            if left <= 0:
                break
    return incident


def _smaller(incident: Incident) -> Iterator[Incident]:
    """Candidates, the boldest first."""
    yield from _shorter(incident)
    yield from _simpler(incident)
    for at, blow in enumerate(incident.blows):
        for plain in _plainer(blow, Blow(kind=blow.kind, node=blow.node)):
            blows = (*incident.blows[:at], plain, *incident.blows[at + 1 :])
            yield dataclasses.replace(incident, blows=blows)
    for number, asks in enumerate(incident.asks):
        for at, ask in enumerate(asks):
            for plain in _plainer(ask, Ask()):
                yield _with_asks(incident, number, (*asks[:at], plain, *asks[at + 1 :]))


def _shorter(incident: Incident) -> Iterator[Incident]:
    """With fewer blows, workers and calls."""
    for blows in _fewer(incident.blows):
        yield dataclasses.replace(incident, blows=blows)
    for asks in filter(None, _fewer(incident.asks)):
        yield dataclasses.replace(incident, asks=asks)
    for number, asks in enumerate(incident.asks):
        for kept in filter(None, _fewer(asks)):
            yield _with_asks(incident, number, kept)


def _simpler(incident: Incident) -> Iterator[Incident]:
    """In a plainer place, and in threads."""
    for place in _plainer(incident.place, Place()):
        if place.pods == incident.place.pods or _fits(incident, place):
            yield dataclasses.replace(incident, place=place)
    if incident.backend != "sync" and not any(ask.cancel for one in incident.asks for ask in one):
        yield dataclasses.replace(incident, backend="sync")


def _fits(incident: Incident, place: Place) -> bool:
    """Whether all nodes that are struck are there. A calm one's share of pods is left alone."""
    struck = {blow.node for blow in incident.blows}
    return not incident.calm and struck <= set("abcd"[: len(place.pods)])


def _with_asks(incident: Incident, worker: int, asks: tuple[Ask, ...]) -> Incident:
    every = (*incident.asks[:worker], asks, *incident.asks[worker + 1 :])
    return dataclasses.replace(incident, asks=every)


def _fewer(parts: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Without a half, a quarter, ... of them, and without each one."""
    size = len(parts)
    while size:
        for start in range(0, len(parts), size):
            yield (*parts[:start], *parts[start + size :])
        size //= 2


def _plainer(value: Any, usual: Any) -> Iterator[Any]:
    """With one of its fields as usual."""
    for each in dataclasses.fields(value):
        plain = getattr(usual, each.name)
        if getattr(value, each.name) != plain:
            yield dataclasses.replace(value, **{each.name: plain})
