"""The balancing strategies, as users write them down.

| strategy | who gets the request |
|---|---|
| `P2C()` | the less loaded of two drawn by weight: peak EWMA times requests in flight (default) |
| `LeastRequest()` | the same by requests in flight alone |
| `RoundRobin()` | each in turn, by weight |
| `PickFirst()` | the heaviest; of equals the one that the resolver named first (RFC 6724) |
| `ConsistentHash(...)` | the same endpoint for the same header, cookie or key |

All of them honour weights and slow start, and none looks at an endpoint that is out; who is out,
and when that no longer counts, is `core.roster`'s. A request without the header or cookie is
balanced as by `P2C()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Union

from outlast.core.choice import Choice, InTurn, Ordered, TwoChoices
from outlast.core.endpoint import Endpoint, K
from outlast.core.hashing import Maglev, Ring, Table
from outlast.core.load import Load, in_flight_odds, in_flight_score, odds

__all__ = [
    "P2C",
    "Balance",
    "ConsistentHash",
    "LeastRequest",
    "PickFirst",
    "RoundRobin",
    "choice_of",
    "table_of",
]


@dataclass(frozen=True, slots=True)
class P2C:
    """The less loaded of two, by peak EWMA of response times and requests in flight."""


@dataclass(frozen=True, slots=True)
class LeastRequest:
    """The one of two with fewer requests in flight: for answers whose cost differs widely."""


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Each endpoint in turn. Load is not looked at: the slow get as much as the fast."""


@dataclass(frozen=True, slots=True)
class PickFirst:
    """Always the same endpoint, and the next one only while that is out.

    The heaviest comes first; among equals the order of the resolver. For a primary and its
    stand-by: a trial is made only of what comes before the one in use.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistentHash:
    """The same endpoint for the same key.

    Exactly one of `header` (a request header's name), `cookie` (a cookie's name) and `key` (called
    with the request, returns the key, or None where it has none). `table`: "ring", or "maglev" for
    shares that differ less and a change of the endpoints that costs more. ValueError otherwise.
    """

    header: str | None = None
    cookie: str | None = None
    key: Callable[[Any], str | bytes | None] | None = None
    table: Literal["ring", "maglev"] = "ring"

    def __post_init__(self) -> None:
        given = [each for each in (self.header, self.cookie, self.key) if each is not None]
        if len(given) != 1 or given[0] == "":
            raise ValueError(
                "ConsistentHash: name one of header, cookie and key, such as "
                'ConsistentHash(header="x-user")'
            )
        if self.key is not None and not callable(self.key):
            raise ValueError(
                f"ConsistentHash: key {self.key!r} cannot be called; give a function of the "
                "request, such as key=lambda request: request.url.path"
            )
        if self.table not in ("ring", "maglev"):
            raise ValueError(f'ConsistentHash: table {self.table!r} is neither "ring" nor "maglev"')


Balance = Union[P2C, LeastRequest, RoundRobin, PickFirst, ConsistentHash]  # noqa: UP007  3.10


def choice_of(balance: Balance) -> Choice[K]:
    """`balance` at work on one target."""
    if isinstance(balance, RoundRobin):
        return InTurn()
    if isinstance(balance, PickFirst):
        return Ordered()
    if isinstance(balance, LeastRequest):
        return TwoChoices(in_flight_odds, in_flight_score)
    if isinstance(balance, (P2C, ConsistentHash)):
        return TwoChoices(odds, Load.score)
    raise ValueError(f"balance {balance!r}: give a strategy, such as P2C() or RoundRobin()")


def table_of(balance: ConsistentHash, endpoints: Iterable[Endpoint[K]]) -> Table[K]:
    """The table of a consistent hash over `endpoints`."""
    return Ring(endpoints) if balance.table == "ring" else Maglev(endpoints)
