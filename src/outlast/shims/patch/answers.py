"""Which name an address came from: what a program was told by `socket.getaddrinfo`.

Most clients look a name up themselves and then connect to an address, where the name is not seen
any more. Scope and targets are written by name, so answers are remembered, the last 4,096 addresses
of them. Where a name has several addresses those that are known dead are told last; otherwise the
order is the resolver's. Refuses to leave an address out, and to change anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any, NamedTuple

from outlast.core.health import Standing
from outlast.core.roster import Roster
from outlast.net.address import Address, literal
from outlast.net.kernel import kernel
from outlast.service.table import Service, service_of
from outlast.target import target_of

__all__ = ["Answer", "Answers", "addresses_in", "named_service", "out_of_use"]

MOST = 4096  # addresses; a crawler meets them without end


class Answer(NamedTuple):
    """A name as it was asked for, and its addresses, in the resolver's order."""

    host: str
    port: int
    addresses: tuple[Address, ...]

    @property
    def service(self) -> Service:
        """What is known of the name's endpoints."""
        service = named_service(self.host, self.port)
        if set(service.addresses()) != set(self.addresses):
            service.resolved(self.addresses, kernel().now())
        return service


def named_service(host: str, port: int) -> Service:
    """The table of a name's endpoints."""
    return service_of(target_of(host, port), kernel())


class Answers:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_address: dict[tuple[str, int], Answer] = {}

    def name_of(self, host: str, port: int) -> Answer | None:
        """The name whose address this was, if one was looked up."""
        return self._by_address.get((host, port))

    def remember(self, host: str, port: int, found: Iterable[Address]) -> bool:
        """A name has these addresses now. Whether that is news."""
        answer = Answer(host, port, tuple(dict.fromkeys(found)))
        known = self._by_address
        if all(known.get(each.pair) == answer for each in answer.addresses):
            return False
        with self._lock:
            for each in answer.addresses:
                known.pop(each.pair, None)
                known[each.pair] = answer
            while len(known) > MOST:
                del known[next(iter(known))]
        return True

    def renew(self) -> None:
        """In the child of a fork: a lock that another thread held would never be let go."""
        self._lock = Lock()


def addresses_in(infos: Sequence[Any]) -> list[Address]:
    """The TCP addresses of what `getaddrinfo` returned."""
    found = []
    for _, kind, _, _, sockaddr in infos:
        if int(kind) in (0, 1):  # SOCK_STREAM is 1 wherever Python runs
            address = literal(sockaddr[0], sockaddr[1])
            if address is not None:
                found.append(address)
    return found


def out_of_use(service: Service) -> frozenset[Address]:
    """Endpoints that are known dead, and are to be tried last."""
    if not service.attentive:
        return frozenset()
    return service.look(_out)


def _out(roster: Roster[Address]) -> frozenset[Address]:
    return frozenset(each.key for each in roster if each.health.standing is Standing.OUT)
