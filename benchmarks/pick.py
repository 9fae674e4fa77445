"""What a pick costs, and what an endpoint weighs, at 10, 1,000 and 10,000 endpoints.

For every strategy: microseconds per `Roster.pick` (CPU time in the best of several rounds; answers
of all endpoints are known, and a third of them has requests in flight), and bytes per endpoint by
`tracemalloc`, all included: key, health, load, places in the lists, what the roster itself needs,
and the table of a consistent hash, which the promise of 2 KiB leaves out (a ring has ten bytes per
point, 128 points per endpoint up to 65,536; Maglev's has two bytes for each of 65,537 places). And
milliseconds for a change of the endpoints. The promise for a pick: 3 µs.

Run: python benchmarks/pick.py [rounds] [picks]
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from random import Random

from outlast.core.balance import (
    P2C,
    Balance,
    ConsistentHash,
    LeastRequest,
    PickFirst,
    RoundRobin,
)
from outlast.core.health import HealthPlan
from outlast.core.roster import Member, Roster

SIZES = (10, 1_000, 10_000)


def equal(_: int) -> float:
    """All weights the same."""
    return 1.0


def unequal(at: int) -> float:
    """Weights from 1 to 7."""
    return 1.0 + at % 7


STRATEGIES: dict[str, tuple[Balance, Callable[[int], float], bool]] = {
    "P2C": (P2C(), equal, False),
    "P2C, weights": (P2C(), unequal, False),
    "LeastRequest": (LeastRequest(), equal, False),
    "RoundRobin": (RoundRobin(), equal, False),
    "RoundRobin, weights": (RoundRobin(), unequal, False),
    "PickFirst": (PickFirst(), equal, False),
    "ring": (ConsistentHash(header="x-user"), equal, True),
    "maglev": (ConsistentHash(header="x-user", table="maglev"), equal, True),
}


def key(at: int) -> str:
    """An address, as long as they are."""
    return f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}:8080"


def made(balance: Balance, size: int, weight: Callable[[int], float]) -> Roster[str]:
    """A roster in use: every endpoint has answered, and some have failed and come back."""
    rng = Random(1)
    roster: Roster[str] = Roster(balance, HealthPlan(), rng)
    roster.resolved([Member(key(at), weight(at)) for at in range(size)], 0.0)
    for endpoint in roster:
        endpoint.load.begin(0.0)
        endpoint.load.end(0.01, rng.uniform(0.005, 0.015))
        if not endpoint.position % 3:
            endpoint.load.begin(0.995)
        endpoint.health.succeeded(0.01)
        roster.changed(endpoint)
    return roster


def microseconds(roster: Roster[str], rounds: int, picks: int, *, hashing: bool) -> float:
    """Of one pick, in the best round."""
    rng = Random(2)
    keys = [str(at).encode() for at in range(picks)] if hashing else [None] * picks
    roster.pick(1.0, rng, hashed=keys[0])  # builds the table
    best = float("inf")
    for _ in range(rounds):
        pick = roster.pick
        began = time.process_time()
        for hashed in keys:
            pick(1.0, rng, hashed=hashed)
        best = min(best, (time.process_time() - began) / picks)
    return best * 1e6


def weighed(balance: Balance, size: int, weight: Callable[[int], float], *, hashing: bool) -> float:
    """Bytes per endpoint."""
    rng = Random(3)  # the caller's, 2.5 kB
    gc.collect()
    tracemalloc.start()
    roster = made(balance, size, weight)
    for at in range(100):
        roster.pick(1.0, rng, hashed=str(at).encode() if hashing else None)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held / size


def table(balance: Balance, size: int) -> float:
    """Milliseconds that a change of the endpoints costs: `resolved`, and the next pick."""
    roster = made(balance, size, equal)
    roster.pick(1.0, Random(4), hashed=b"any")
    began = time.process_time()
    roster.resolved([Member(key(at)) for at in range(1, size + 1)], 1.0)
    roster.pick(1.0, Random(4), hashed=b"any")
    return (time.process_time() - began) * 1e3


def main(rounds: int, picks: int) -> None:
    """All rows."""
    sizes = "".join(f"{size:>10,}" for size in SIZES)
    print(f"{'':<21}{'µs per pick':>30}{'bytes per endpoint':>32}{'ms per change':>32}")
    print(f"{'endpoints':<21}{sizes}  {sizes}  {sizes}")
    for name, (balance, weight, hashing) in STRATEGIES.items():
        costs = [
            microseconds(made(balance, n, weight), rounds, picks, hashing=hashing) for n in SIZES
        ]
        bytes_each = [weighed(balance, n, weight, hashing=hashing) for n in SIZES]
        changes = [table(balance, n) for n in SIZES]
        print(
            f"{name:<21}"
            + "".join(f"{cost:>10.2f}" for cost in costs)
            + "  "
            + "".join(f"{size:>10,.0f}" for size in bytes_each)
            + "  "
            + "".join(f"{change:>10.1f}" for change in changes),
            flush=True,
        )


if __name__ == "__main__":
    arguments = [int(text) for text in sys.argv[1:]]
    main(*(arguments + [7, 20_000][len(arguments) :]))
