"""The seam's conformance: name look-up."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import pytest

from outlast.net.address import Address, literal
from outlast.net.seam import WAKE, Lookup, Network, Wait
from tests.net.conformance_waits import SeamTests
from tests.net.drivers import Driver
from tests.net.far_side import MOMENT, PATIENCE, World


def at(host: str, port: int = 80) -> Address:
    """The address that `host` spells out."""
    address = literal(host, port)
    assert address is not None
    return address


async def look_up(network: Network, host: str, port: int = 80) -> Lookup:
    """The finished look-up."""
    waiter = network.waiter()
    lookup = network.lookup(host, port, waiter)
    assert list(await Wait(((waiter, WAKE),), network.now() + PATIENCE)) == [waiter]
    return lookup


class Lookups(SeamTests):
    """Names and literals, errors, sharing, and a resolver that hangs."""

    def test_a_name_gives_its_addresses_in_order(self, world: World, drive: Driver) -> None:
        addresses = [at("10.9.8.7"), at("fd00::7"), at("10.9.8.6")]
        world.name("db.test", addresses)

        async def engine() -> Sequence[Address] | None:
            return (await look_up(world.network, "db.test")).addresses

        assert drive(engine) == addresses

    @pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
    def test_a_literal_is_its_own_answer(self, world: World, drive: Driver, host: str) -> None:
        async def engine() -> Sequence[Address] | None:
            return (await look_up(world.network, host, 4711)).addresses

        assert drive(engine) == [at(host, 4711)]
        assert world.asked(host) == 0

    def test_an_error_is_told(self, world: World, drive: Driver) -> None:
        world.name("gone.test", socket.gaierror(socket.EAI_NONAME, "no such name"))

        async def engine() -> Lookup:
            return await look_up(world.network, "gone.test")

        lookup = drive(engine)
        assert lookup.addresses is None
        assert isinstance(lookup.error, socket.gaierror)
        assert lookup.error.errno == socket.EAI_NONAME

    def test_look_ups_of_one_name_share(self, world: World, drive: Driver) -> None:
        net = world.network
        release = world.name("slow.test", [at("10.0.0.1")], held=True)

        async def engine() -> list[Lookup]:
            waiters = [net.waiter() for _ in range(3)]
            lookups = [net.lookup("slow.test", 80, waiter) for waiter in waiters]
            release()
            for waiter in waiters:
                assert await Wait(((waiter, WAKE),), net.now() + PATIENCE)
            return lookups

        assert [lookup.addresses for lookup in drive(engine)] == [[at("10.0.0.1")]] * 3
        assert world.asked("slow.test") == 1

    def test_the_next_look_up_asks_again(self, world: World, drive: Driver) -> None:
        world.name("db.test", [at("10.0.0.1")])

        async def engine() -> Sequence[Address] | None:
            await look_up(world.network, "db.test")
            world.name("db.test", [at("10.0.0.2")])
            return (await look_up(world.network, "db.test")).addresses

        assert drive(engine) == [at("10.0.0.2")]
        assert world.asked("db.test") == 2

    def test_a_hung_resolver_holds_nobody(self, world: World, drive: Driver) -> None:
        """The wait ends at its own time, and other names are answered meanwhile."""
        net = world.network
        release = world.name("hung.test", [at("10.0.0.1")], held=True)
        world.name("db.test", [at("10.0.0.2")])

        async def engine() -> Lookup:
            waiter = net.waiter()
            lookup = net.lookup("hung.test", 80, waiter)
            until = net.now() + MOMENT
            assert not await Wait(((waiter, WAKE),), until)
            assert 0 <= net.now() - until < PATIENCE
            assert lookup.addresses is None
            assert lookup.error is None
            return await look_up(net, "db.test")

        assert drive(engine).addresses == [at("10.0.0.2")]
        release()
