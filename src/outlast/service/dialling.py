"""A target as one dial of `create_connection` or `connect_tcp` sees it.

It is picked for once. What a dial meets is the endpoint's dial news; it says nothing of answers, so
that the trial of an endpoint which is out for bad ones is given back when the race is over.
"""

from __future__ import annotations

from collections.abc import Sequence

from outlast.net.address import Address
from outlast.service.service import Service

__all__ = ["Dialling"]


class Dialling:
    """See `net.dial.DialWatcher`. One owner; not thread-safe."""

    __slots__ = ("_order", "_service", "connected", "failed", "refused", "resolved", "silent")

    def __init__(self, service: Service) -> None:
        self._service = service
        self._order: Sequence[Address] = ()
        self.connected, self.failed = service.connected, service.failed
        self.refused, self.silent = service.refused, service.silent
        self.resolved = service.resolved

    def order(self, now: float) -> Sequence[Address]:
        """The endpoints known now, the one that is picked first."""
        self._order = self._service.order(now)
        return self._order

    def arrange(self, addresses: Sequence[Address], now: float) -> Sequence[Address]:
        """See `DialWatcher.arrange`."""
        place = {address: number for number, address in enumerate(self._order or self.order(now))}
        return sorted(addresses, key=lambda each: place.get(each, len(place)))

    def over(self, now: float) -> None:
        """The race has ended, however."""
        self._service.untried(self._order, now)
