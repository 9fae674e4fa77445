"""The seam's conformance: the clock, waits and waiters."""

from __future__ import annotations

import math

import pytest

from outlast.net.run import Strands
from outlast.net.seam import READ, WAKE, WRITE, Interest, Ready, Wait, Waiter
from tests.net.drivers import Driver
from tests.net.far_side import MOMENT, PATIENCE, World, arrival, connection, read


class SeamTests:
    """What all parts of the suite share."""

    @pytest.fixture(params=["sync", "asyncio", "trio"])
    def drive(self, request: pytest.FixtureRequest, world: World) -> Driver:
        """Runs engine code on the network under test."""
        return world.driver(request.param)


class Waits(SeamTests):
    """Clock, time, several things at once, waiters."""

    # -- time ------------------------------------------------------------------------------

    def test_the_clock_only_goes_forward(self, world: World) -> None:
        times = [world.network.now() for _ in range(1000)]
        assert times == sorted(times)

    def test_a_sleep_ends_not_before_its_time(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> list[tuple[Ready, float]]:
            found = []
            for _ in range(5):
                until = net.now() + MOMENT / 5
                found.append((await Wait((), until), net.now() - until))
            return found

        for ready, late in drive(engine):
            assert not ready
            assert 0 <= late < PATIENCE

    def test_a_time_that_has_come_is_no_wait(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> Ready:
            return await Wait((), net.now() - 1)

        assert not drive(engine)

    def test_a_wait_without_an_event_ends_empty_at_its_time(
        self, world: World, drive: Driver
    ) -> None:
        net = world.network

        async def engine() -> None:
            stream, peer = await connection(world)
            waiter = net.waiter()
            kinds: list[list[Interest]] = [[(stream, READ)], [(waiter, WAKE)]]
            kinds.append([(stream, READ), (waiter, WAKE)])
            for interests in kinds:
                until = net.now() + MOMENT
                assert not await Wait(interests, until)
                assert 0 <= net.now() - until < PATIENCE
            stream.close()
            peer.close()

        drive(engine)

    @pytest.mark.parametrize("years", [1, 1000])
    def test_a_deadline_may_be_years_away(self, world: World, drive: Driver, years: int) -> None:
        net = world.network

        async def engine() -> None:
            stream, peer = await connection(world)
            waiter = net.waiter()
            until = net.now() + years * 365.25 * 86400
            assert list(await Wait(((stream, WRITE),), until)) == [stream]
            waiter.wake()
            assert list(await Wait(((waiter, WAKE),), until)) == [waiter]
            assert list(await Wait(((stream, READ), (waiter, WAKE)), until)) == [waiter]
            stream.close()
            peer.close()

        drive(engine)

    def test_generators_of_random_numbers_are_apart(self, world: World) -> None:
        assert world.network.rng("a") is not world.network.rng("b")

    # -- several at once -------------------------------------------------------------------

    def test_what_is_ready_is_returned_and_nothing_else(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> None:
            first, first_peer = await connection(world)
            second, second_peer = await connection(world)
            waiter = net.waiter()
            interests: list[Interest] = [(first, READ), (second, READ), (waiter, WAKE)]
            await second_peer.send(b"2")
            assert list(await Wait(interests, net.now() + PATIENCE)) == [second]
            await first_peer.send(b"1")
            await arrival(net, first)
            assert set(await Wait(interests, net.now() + PATIENCE)) == {first, second}
            waiter.wake()
            assert set(await Wait(interests, net.now() + PATIENCE)) >= {waiter}
            assert [await read(net, first), await read(net, second)] == [b"1", b"2"]
            assert list(await Wait(interests, net.now() + PATIENCE)) == [waiter]
            for end in (first, second, first_peer, second_peer):
                end.close()

        drive(engine)

    def test_nothing_is_returned_twice(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> None:
            stream, peer = await connection(world)
            await peer.send(b"x")
            await arrival(net, stream)
            assert list(await Wait(((stream, READ | WRITE),), net.now() + PATIENCE)) == [stream]
            stream.close()
            peer.close()

        drive(engine)

    def test_both_ways_are_waited_for_at_once(self, world: World, drive: Driver) -> None:
        """Ready for either; also when two parties of one owner each want one of them."""
        net = world.network

        async def engine() -> None:
            stream, peer = await connection(world)
            kinds: list[list[Interest]] = [
                [(stream, READ | WRITE)],
                [(stream, WRITE), (stream, READ)],
                [(stream, READ), (stream, WRITE)],
            ]
            for interests in kinds:
                assert list(await Wait(interests, net.now() + PATIENCE)) == [stream]
            while stream.send(bytes(65536)):
                pass
            assert not await Wait(((stream, READ | WRITE),), net.now() + MOMENT)
            await peer.send(b"x")
            assert list(await Wait(((stream, READ | WRITE),), net.now() + PATIENCE)) == [stream]
            stream.abort()
            peer.close()

        drive(engine)

    def test_what_is_named_twice_is_waited_for_once(self, world: World, drive: Driver) -> None:
        """As when two strands of one owner wait for the same thing."""
        net = world.network

        async def engine() -> None:
            stream, peer = await connection(world)
            waiter = net.waiter()

            async def happens() -> None:
                await Wait((), net.now() + MOMENT)
                await peer.send(b"x")
                await Wait((), net.now() + MOMENT)
                waiter.wake()

            world.beside(happens)
            twice: list[Interest] = [(stream, READ), (waiter, WAKE)] * 2
            assert list(await Wait(twice, net.now() + PATIENCE)) == [stream]
            assert await read(net, stream) == b"x"
            assert list(await Wait(twice, net.now() + PATIENCE)) == [waiter]
            stream.close()
            peer.close()

        drive(engine)

    # -- waiters ---------------------------------------------------------------------------

    def test_a_wake_before_the_wait_counts(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> None:
            waiter, other = net.waiter(), net.waiter()
            waiter.wake()
            assert list(await Wait(((waiter, WAKE),))) == [waiter]
            both = ((other, WAKE), (waiter, WAKE))
            assert list(await Wait(both)) == [waiter]
            assert list(await Wait(both, net.now())) == [waiter]

        drive(engine)

    def test_a_second_wake_does_nothing(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> None:
            waiter = net.waiter()
            waiter.wake()
            waiter.wake()
            assert list(await Wait(((waiter, WAKE),))) == [waiter]
            waiter.wake()

        drive(engine)

    @pytest.mark.parametrize("until", [math.inf, PATIENCE])
    def test_another_thread_wakes(self, world: World, drive: Driver, until: float) -> None:
        net = world.network
        waiter = net.waiter()

        async def engine() -> Ready:
            world.beside(lambda: wake_after(waiter))
            return await Wait(((waiter, WAKE),), net.now() + until)

        async def wake_after(waiter: Waiter) -> None:
            await Wait((), net.now() + MOMENT)
            waiter.wake()
            waiter.wake()

        assert list(drive(engine)) == [waiter]

    def test_another_thread_wakes_while_streams_are_waited_for(
        self, world: World, drive: Driver
    ) -> None:
        net = world.network
        waiter, other = net.waiter(), net.waiter()

        async def engine() -> None:
            stream, peer = await connection(world)
            world.beside(wake_after)
            interests = ((stream, READ), (other, WAKE), (waiter, WAKE))
            assert list(await Wait(interests, net.now() + PATIENCE)) == [waiter]
            assert not await Wait(((stream, READ), (other, WAKE)), net.now() + MOMENT)
            stream.close()
            peer.close()

        async def wake_after() -> None:
            await Wait((), net.now() + MOMENT)
            waiter.wake()

        drive(engine)

    def test_strands_of_one_owner_wake_each_other(self, world: World, drive: Driver) -> None:
        net = world.network
        waiter = net.waiter()

        async def sleeper() -> str:
            return "woken" if await Wait(((waiter, WAKE),), net.now() + PATIENCE) else "forgotten"

        async def waker() -> str:
            await Wait((), net.now() + MOMENT)
            waiter.wake()
            return "woke"

        async def engine() -> list[object]:
            strands: Strands[int, str] = Strands(net)
            strands.start(1, sleeper())
            strands.start(2, waker())
            return [await strands.next(), await strands.next()]

        assert drive(engine) == [(2, "woke"), (1, "woken")]
