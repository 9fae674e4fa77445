"""What stands at a moment, once for all exporters: a table from snapshots to metrics.

Standing, requests under way and what is left of budgets can change back. They are read when the
exporter asks, not counted from events: two events that happen together may be told in either
order, and whoever subscribes late has missed some. An endpoint that has left is in no snapshot,
so its series end by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from outlast.service.snapshot import EndpointSnapshot, TargetSnapshot

__all__ = ["STATES", "Reading", "State"]

Reading = tuple[tuple[str, ...], float]  # values of the labels, and the value

STANDINGS = ("in", "out", "trial")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One metric: its labels beyond "target", and its readings. `additive`: their sum means
    something too."""

    name: str
    text: str
    unit: str
    labels: tuple[str, ...]
    read: Callable[[TargetSnapshot], Iterable[Reading]]
    additive: bool = False


def _each(
    value: Callable[[EndpointSnapshot], float | None],
) -> Callable[[TargetSnapshot], Iterable[Reading]]:
    """A value of every endpoint that has one, with its address."""

    def read(target: TargetSnapshot) -> Iterable[Reading]:
        for each in target.endpoints:
            if (number := value(each)) is not None:
                yield (each.address,), number

    return read


def _standings(target: TargetSnapshot) -> Iterable[Reading]:
    for each in target.endpoints:
        for word in STANDINGS:
            yield (each.address, word), float(each.standing == word)


def _connections(target: TargetSnapshot) -> Iterable[Reading]:
    for each in target.endpoints:
        if each.connections is not None and each.idle is not None:
            yield (each.address, "active"), each.connections - each.idle
            yield (each.address, "idle"), each.idle


def _whole(
    value: Callable[[TargetSnapshot], float | None],
) -> Callable[[TargetSnapshot], Iterable[Reading]]:
    """A value of the target itself, if it has one."""

    def read(target: TargetSnapshot) -> Iterable[Reading]:
        number = value(target)
        return [] if number is None else [((), number)]

    return read


ENDPOINT = ("address",)

STATES: tuple[State, ...] = (
    State(
        name="endpoint.standing",
        text="1 for the standing that an endpoint has, 0 for the others.",
        unit="1",
        labels=("address", "standing"),
        read=_standings,
    ),
    State(
        name="endpoint.active_requests",
        text="Requests under way.",
        unit="{request}",
        labels=ENDPOINT,
        read=_each(lambda each: each.pending),
        additive=True,
    ),
    State(
        name="endpoint.latency",
        text="What a request is expected to take (peak EWMA).",
        unit="s",
        labels=ENDPOINT,
        read=_each(lambda each: each.latency),
    ),
    State(
        name="endpoint.weight",
        text="Weight in the balance, slow start included.",
        unit="1",
        labels=ENDPOINT,
        read=_each(lambda each: each.weight),
    ),
    State(
        name="endpoint.suspect",
        text="1 while the kernel has evidence against an endpoint.",
        unit="1",
        labels=ENDPOINT,
        read=_each(lambda each: float(each.suspect)),
    ),
    State(
        name="endpoint.check.up",
        text="What the active check found: 1 up, 0 down.",
        unit="1",
        labels=ENDPOINT,
        read=_each(lambda each: float(each.check == "up") if each.check else None),
    ),
    State(
        name="endpoint.connections",
        text="Open connections, active or idle.",
        unit="{connection}",
        labels=("address", "state"),
        read=_connections,
        additive=True,
    ),
    State(
        name="endpoint.in_flight",
        text="Requests that count against circuit limits.",
        unit="{request}",
        labels=ENDPOINT,
        read=_each(lambda each: each.in_flight),
        additive=True,
    ),
    State(
        name="endpoint.in_flight_limit",
        text="The most that may be in flight, as set or as found by response times.",
        unit="{request}",
        labels=ENDPOINT,
        read=_each(lambda each: each.limit),
    ),
    State(
        name="endpoint.waiting",
        text="Requests in line for an endpoint that is at a circuit limit.",
        unit="{request}",
        labels=ENDPOINT,
        read=_each(lambda each: each.waiting),
        additive=True,
    ),
    State(
        name="endpoint.full",
        text="1 while an endpoint is at a circuit limit.",
        unit="1",
        labels=ENDPOINT,
        read=_each(lambda each: None if each.in_flight is None else float(bool(each.full))),
    ),
    State(
        name="target.panic",
        text="1 while a target is in panic.",
        unit="1",
        labels=(),
        read=_whole(lambda target: float(target.panic)),
    ),
    State(
        name="target.retry_budget",
        text="Repeats and hedges that could start now.",
        unit="{request}",
        labels=(),
        read=_whole(lambda target: target.retry_budget_left),
    ),
    State(
        name="target.redial_budget",
        text="Extra dials that could start now.",
        unit="{dial}",
        labels=(),
        read=_whole(lambda target: target.redials_left),
    ),
)
