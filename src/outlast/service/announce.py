"""What the endpoint table has decided, told as events; nothing is made where nobody listens."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from outlast import events
from outlast.core.call_steps import Repeat
from outlast.core.health import Ejected, Returned, Standing
from outlast.core.roster import Roster
from outlast.net.address import Address
from outlast.net.dial_news import DialEnded, DialNews, LookupEnded, Told

__all__ = [
    "Panic",
    "announce",
    "announce_members",
    "dial_teller",
    "exhausted",
    "held_back",
]

DIALS = (events.LookupFinished, events.DialFailed, events.BudgetExhausted)


def announce(target: str, address: Address, change: Ejected | Returned, now: float) -> None:
    """An endpoint has been put out, or is back. Not under a lock."""
    where = str(address)
    if isinstance(change, Returned):
        if events.wanted(events.EndpointReturned):
            events.emit(
                events.EndpointReturned(
                    at=now, target=target, address=where, why=change.why, after=change.after
                )
            )
    elif events.wanted(events.EndpointEjected):
        events.emit(
            events.EndpointEjected(
                at=now,
                target=target,
                address=where,
                rule=change.rule.value,
                evidence=change.evidence.value,
                why=change.why,
                until=change.until,
                times=change.times,
                enforced=change.enforced,
            )
        )


def announce_members(
    target: str, joined: Sequence[Address], left: Sequence[Address], now: float
) -> None:
    """Endpoints have come and gone. Not under a lock."""
    if events.wanted(events.EndpointJoined):
        for address in joined:
            events.emit(events.EndpointJoined(at=now, target=target, address=str(address)))
    if events.wanted(events.EndpointLeft):
        for address in left:
            events.emit(events.EndpointLeft(at=now, target=target, address=str(address)))


def exhausted(target: str, budget: str, now: float) -> None:
    """A budget has refused something: "retries" or "redials". Not under a lock."""
    if events.wanted(events.BudgetExhausted):
        events.emit(events.BudgetExhausted(at=now, target=target, budget=budget))


def held_back(target: str, rule: Repeat, now: float) -> None:
    """A dry run has only counted a repeat. Not under a lock."""
    if events.wanted(events.RepeatHeldBack):
        events.emit(events.RepeatHeldBack(at=now, target=target, rule=rule.value))


class Panic:
    """Whether a target panics, and since when. `look` is called under the target's lock whenever
    an endpoint's standing has changed; what it returns is told without it. An only endpoint is
    used in any case: nothing is told of it."""

    __slots__ = ("_since", "_target")

    def __init__(self, target: str) -> None:
        self._target = target
        self._since: float | None = None

    def look(
        self, roster: Roster[Address], now: float
    ) -> events.PanicBegan | events.PanicEnded | None:
        """What has changed, if anything."""
        since, panic = self._since, len(roster) > 1 and roster.panic
        if panic is (since is not None):
            return None
        if since is not None:
            self._since = None
            return events.PanicEnded(at=now, target=self._target, after=now - since)
        self._since = now
        out = sum(each.health.standing is not Standing.IN for each in roster)
        return events.PanicBegan(at=now, target=self._target, out=out, endpoints=len(roster))


def dial_teller(target: str) -> Told | None:
    """What a race of a target tells its news to; None where nobody listens."""
    if events.listening and any(map(events.wanted, DIALS)):
        return functools.partial(_dialled, target)
    return None


def _dialled(target: str, news: DialNews) -> None:
    if isinstance(news, DialEnded):
        if events.wanted(events.DialFailed):
            events.emit(
                events.DialFailed(
                    at=news.at,
                    target=target,
                    address=str(news.address),
                    phase=news.phase,
                    why=news.why,
                    seconds=news.seconds,
                    errno=news.errno,
                    local_port=news.local_port,
                )
            )
    elif isinstance(news, LookupEnded):
        if events.wanted(events.LookupFinished):
            events.emit(
                events.LookupFinished(
                    at=news.at,
                    target=target,
                    name=news.name,
                    seconds=news.seconds,
                    addresses=tuple(each.host for each in news.addresses),
                    error=news.error,
                )
            )
    else:
        exhausted(target, "redials", news.at)
