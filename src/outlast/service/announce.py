"""What the endpoint table has decided, told as events; nothing is made where nobody listens."""

from __future__ import annotations

from collections.abc import Sequence

from outlast import events
from outlast.core.health import Ejected, Returned
from outlast.net.address import Address

__all__ = ["announce", "announce_members"]


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
