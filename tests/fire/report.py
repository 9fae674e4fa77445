"""Plays an incident, judges it, and tells of a breach: what it is, and the shortest way to it."""

from __future__ import annotations

import dataclasses

from tests.fire.incident import Incident
from tests.fire.invariants import judge
from tests.fire.players import Played, play
from tests.fire.shrink import shrink

__all__ = ["BACKENDS", "account", "breaches", "differences", "everywhere", "number_of"]

BACKENDS = ("sync", "asyncio", "trio")


def breaches(incident: Incident) -> tuple[list[str], int]:
    """Every breach of an invariant, and how many calls were made."""
    played = play(incident)
    return judge(played), len(played.calls)


def number_of(breach: str) -> str:
    """Which invariant it breaks."""
    return breach.partition(":")[0]


def account(incident: Incident, found: list[str]) -> str:
    """What is printed of a failure."""
    wanted = number_of(found[0])
    judges = differences if wanted == "6" else lambda one: breaches(one)[0]
    small = shrink(incident, lambda one: wanted in map(number_of, judges(one)))
    again = judges(small)
    lines = [
        f"seed {incident.seed} breaks invariants {sorted(set(map(number_of, found)))}",
        f"all of it: python -m tests.fire --seed {incident.seed}",
        f'the least: python -m tests.fire "{small!r}"',
        *(again or found),
    ]
    return "\n".join(lines)


# -- the same on every backend -------------------------------------------------------------------


def everywhere(incident: Incident) -> dict[str, Incident]:
    """The incident on each backend, without cancellations: threads cannot be cancelled."""
    asks = tuple(
        tuple(dataclasses.replace(ask, cancel=None) for ask in worker) for worker in incident.asks
    )
    return {name: dataclasses.replace(incident, asks=asks, backend=name) for name in BACKENDS}


def differences(incident: Incident) -> list[str]:
    """What threads, asyncio and trio have decided differently, worker by worker."""
    every = {name: play(one) for name, one in everywhere(incident).items()}
    found = [breach for played in every.values() for breach in judge(played)]
    usual = _decisions(every["sync"])
    for name in BACKENDS[1:]:
        for worker, theirs in _decisions(every[name]).items():
            mine = usual.get(worker, [])
            for left, right in zip(mine, theirs, strict=False):
                if left != right:
                    found.append(f"6: {worker} on {name}: {right}\n  in threads: {left}")
                    break
            else:
                if len(mine) != len(theirs):
                    found.append(f"6: {worker} made {len(theirs)} calls on {name}, not {len(mine)}")
    return found


def _decisions(played: Played) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for call in played.calls:
        found.setdefault(call.worker, []).append(call.decisions())
    return found
