"""The seam's conformance: what a stream tells of its peer, and keepalive in use."""

from __future__ import annotations

from collections.abc import Callable

from outlast.core.liveness import CLOSED, ESTABLISHED, Sample
from outlast.net.options import Keepalive, SocketPlan
from outlast.net.seam import WRITE, Network, Stream, Wait
from tests.net.conformance_waits import SeamTests
from tests.net.drivers import Driver
from tests.net.far_side import PATIENCE, World, arrival, connection, read, write

LOOK = 0.004  # seconds between two looks: a tick of the kernel's clock
IDLE = 1.05  # seconds; keepalive counts in whole ones
CLOSE_WAIT = 8  # linux/tcp_states.h
HURRIED = Keepalive(idle=1, interval=1, count=6)


async def until(network: Network, stream: Stream, holds: Callable[[Sample], bool]) -> Sample:
    """The first state of which `holds` is true, within a bound."""
    end = network.now() + PATIENCE
    while (state := stream.state()) is not None and not holds(state):
        assert network.now() < end, state
        await Wait((), network.now() + LOOK)
    assert state is not None
    return state


class Liveness(SeamTests):
    """What `state`, `linked` and `set_keepalive` promise."""

    def test_the_state_is_known_or_nothing_is(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> None:
            stream, peer = await connection(world)
            for size in (10, 100_000):
                await write(net, stream, bytes(size))
                left = size
                while left:
                    left -= len(await peer.recv(left))
                await peer.send(b"got it")  # carries the acknowledgement of all that came before
                await read(net, stream)
                state = stream.state()
                assert (state is not None) is net.tells
                if state is not None:
                    assert (state.unacked, state.acked, state.backoff) == (0, stream.written, 0)
                    assert (state.state, state.unsent, state.probes) == (ESTABLISHED, 0, 0)
                    assert state.window > 0
                    assert 0 < state.rtt < PATIENCE
                    assert 0 <= state.silence < PATIENCE
                    assert 0 <= state.sent < PATIENCE
            stream.close()
            peer.close()

        drive(engine)

    def test_segments_are_counted(self, world: World, drive: Driver) -> None:
        """Both ways, data and acknowledgements alike: what is missing was lost."""
        net = world.network

        async def engine() -> None:
            stream, peer = await connection(world)
            before = stream.state()
            for _ in range(3):
                await write(net, stream, b"ping")
                assert await peer.recv(10) == b"ping"
                await peer.send(b"pong")
                assert await read(net, stream) == b"pong"
            after = stream.state()
            if before is not None and after is not None:
                assert after.segments_out - before.segments_out >= 3
                assert after.segments_in - before.segments_in >= 3
                assert (before.resent, after.resent) == (0, 0)
            stream.close()
            peer.close()

        drive(engine)

    def test_looking_takes_nothing_away(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> None:
            stream, peer = await connection(world)
            await peer.send(b"news")
            await arrival(net, stream)
            assert stream.state() == stream.state() or net.tells
            assert await read(net, stream) == b"news"
            stream.close()
            peer.close()

        drive(engine)

    def test_a_reader_that_stops_closes_its_window(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> None:
            if not net.tells:
                return
            stream, peer = await connection(world)
            while stream.send(bytes(1 << 16)):
                pass
            state = await until(net, stream, lambda state: state.window == 0)
            assert state.unsent > 0
            assert state.acked < stream.written
            left = stream.written
            while left:
                left -= len(await peer.recv(1 << 20))
            state = await until(net, stream, lambda state: state.acked == stream.written)
            assert state.window > 0
            assert (state.unsent, state.unacked) == (0, 0)
            stream.close()
            peer.close()

        drive(engine)

    def test_an_end_is_seen(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> None:
            if not net.tells:
                return
            stream, peer = await connection(world)
            peer.close()
            await until(net, stream, lambda state: state.state == CLOSE_WAIT)
            stream.close()
            stream, peer = await connection(world)
            peer.reset()
            await until(net, stream, lambda state: state.state == CLOSED)
            stream.close()

        drive(engine)

    def test_a_closed_stream_tells_nothing(self, world: World, drive: Driver) -> None:
        async def engine() -> None:
            stream, peer = await connection(world)
            stream.close()
            assert stream.state() is None
            stream.set_keepalive(HURRIED)
            peer.close()

        drive(engine)

    def test_a_sound_link_is_up(self, world: World, drive: Driver) -> None:
        async def engine() -> None:
            stream, peer = await connection(world)
            assert stream.linked()
            stream.close()
            peer.close()

        drive(engine)

    def test_keepalive_is_the_plans(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> None:
            listener = world.listen()
            for planned in (None, Keepalive(7, 2, 5)):
                stream = net.dial(listener.address, SocketPlan(keepalive=planned))
                await arrival(net, stream, WRITE)
                assert stream.keepalive == planned
                stream.set_keepalive(HURRIED)
                assert stream.keepalive == planned
                stream.close()

        drive(engine)

    def test_an_idle_connection_is_probed_at_once(self, world: World, drive: Driver) -> None:
        """And nobody's program on the other side has to do anything for the answer."""
        net = world.network

        async def engine() -> None:
            stream, peer = await connection(world)
            await Wait((), net.now() + IDLE)
            before, start = stream.state(), net.now()
            stream.set_keepalive(HURRIED)
            if before is not None:
                assert before.silence > 1.0
                after = await until(net, stream, lambda state: state.silence < 1.0)
                assert net.now() - start < 0.5
                assert after.received > IDLE, "no data has come"
            assert stream.keepalive is not None
            stream.set_keepalive(stream.keepalive)
            assert stream.quiet()
            stream.close()
            peer.close()

        drive(engine)
