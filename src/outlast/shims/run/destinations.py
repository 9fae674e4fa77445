"""Which connects are the supervisor's business, by address: programs look names up themselves.

Names in the scope are looked up at the start and every 30 s. A name under `targets` maps its
addresses; a name under `only` or `skip` stands for its addresses, each by itself, since a program
that picks one of several may mean that one. Mapped goes before skipped, skipped before wanted.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterable

from outlast.net.address import Address, literal
from outlast.net.kernel import KernelNetwork
from outlast.service.service import Service
from outlast.service.table import service_of
from outlast.shims.run.aim import Aimed
from outlast.shims.run.sockaddr import Wanted, fitted, packed
from outlast.shims.scope import Pattern, Scope
from outlast.target import Target, target_of

__all__ = ["AGAIN", "Destinations"]

AGAIN = 30.0  # seconds between two look-ups of the scope's names
FIRST = 2.0  # seconds that the program waits for the first one
MOST = 4096  # addresses that are remembered


class Destinations:
    """The scope, as addresses see it. One owner."""

    def __init__(self, scope: Scope, world: KernelNetwork) -> None:
        self._scope = scope
        self._world = world
        self._mapped: dict[tuple[str, int], Target] = {}
        self._skipped: set[tuple[str, int]] = set()
        self._wanted: set[tuple[str, int]] = set()
        self._known: dict[tuple[str, int], tuple[Target, Service] | None] = {}
        targets = _exact(pattern for pattern, _ in scope.targets)
        self._names = {*targets, *_exact(scope.only), *_exact(scope.skip)}

    def aim(self, wanted: Wanted) -> Aimed | None:
        """Where a connect is to lead; None: it is none of ours."""
        pair = wanted.host, wanted.port
        try:
            found = self._known[pair]
        except KeyError:
            if len(self._known) >= MOST:
                self._known.clear()
            target = self._target(pair)
            found = None if target is None else (target, service_of(target, self._world))
            self._known[pair] = found
        if found is None or wanted.scoped:
            return None
        target, service = found
        plain = literal(*pair)
        assert plain is not None
        words = str(plain)
        if target.name is None and target.addresses == (plain,):
            return Aimed(words, target, service, plain, wanted.raw)
        address, raw = _first(service, wanted.family, self._world.now())
        return Aimed(words, target, service, address, raw)

    def _target(self, pair: tuple[str, int]) -> Target | None:
        if pair in self._mapped:
            return self._mapped[pair]
        if pair in self._skipped:
            return None
        return target_of(*pair) if pair in self._wanted else self._scope.target_for(*pair)

    # -- names -----------------------------------------------------------------------------

    async def keep_up(self) -> None:
        """Look the scope's names up, again and again. Returns at once if there are none."""
        while self._names:
            await asyncio.sleep(AGAIN)
            await self.look_up()

    async def look_up(self) -> None:
        """Look the scope's names up once. A name that cannot be looked up keeps its addresses."""
        loop = asyncio.get_running_loop()
        for host, port in self._names:
            with contextlib.suppress(OSError):
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                self._learn(host, port, {str(each[4][0]) for each in found})
        self._known.clear()

    async def first_look_up(self) -> bool:
        """See `look_up`; but not for longer than a moment. False: not all is known yet."""
        try:
            await asyncio.wait_for(self.look_up(), FIRST)
        except asyncio.TimeoutError:
            return False
        return True

    def _learn(self, host: str, port: int, addresses: Iterable[str]) -> None:
        for pattern, target in self._scope.targets:
            if pattern.meets(host, None, port):
                self._mapped.update({(each, port): target for each in addresses})
                return
        skipped = any(each.meets(host, None, port) for each in self._scope.skip)
        (self._skipped if skipped else self._wanted).update((each, port) for each in addresses)


def _exact(patterns: Iterable[Pattern]) -> list[tuple[str, int]]:
    return [found for each in patterns if (found := each.exact) is not None]


def _first(service: Service, family: int, now: float) -> tuple[Address | None, bytes | None]:
    """The endpoint to dial first by a socket of this family, and how connect(2) takes it."""
    for each in service.arrange(service.addresses(), now):
        fit = fitted(each, family)
        if fit is not None:
            return each, packed(fit)
    return None, None
