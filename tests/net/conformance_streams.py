"""The seam's conformance: dials, streams and how they end."""

from __future__ import annotations

import errno

import pytest

from outlast.net.options import SocketPlan
from outlast.net.seam import READ, WAKE, WRITE, Interest, Network, Stream, Wait
from tests.net.conformance_waits import SeamTests
from tests.net.drivers import Driver
from tests.net.far_side import (
    MOMENT,
    PATIENCE,
    Peer,
    World,
    arrival,
    connection,
    read,
    write,
)


async def refused(network: Network, stream: Stream) -> int | None:
    """The errno with which a dial ends."""
    await arrival(network, stream, WRITE)
    with pytest.raises(OSError) as failure:
        stream.connected()
    stream.close()
    return failure.value.errno


async def after_news(network: Network, stream: Stream) -> bool:
    """What `quiet` says once something has arrived."""
    await arrival(network, stream)
    return stream.quiet()


class Streams(SeamTests):
    """Connections, from the dial to the end."""

    # -- the dial --------------------------------------------------------------------------

    def test_a_dial_is_writable_when_it_stands(self, world: World, drive: Driver) -> None:
        async def engine() -> None:
            listener = world.listen()
            stream = world.network.dial(listener.address, SocketPlan())
            await arrival(world.network, stream, WRITE)
            stream.connected()
            assert stream.address == listener.address
            assert 0 < stream.local_port < 65536
            assert stream.written == 0
            assert stream.fileno() >= 0
            (await listener.accept()).close()
            stream.close()

        drive(engine)

    def test_two_dials_have_their_own_local_ports(self, world: World, drive: Driver) -> None:
        async def engine() -> None:
            listener = world.listen()
            dials = [world.network.dial(listener.address, SocketPlan()) for _ in range(2)]
            for stream in dials:
                await arrival(world.network, stream, WRITE)
            assert dials[0].local_port != dials[1].local_port
            for stream in dials:
                stream.close()

        drive(engine)

    def test_nobody_listens(self, world: World, drive: Driver) -> None:
        """Told by the dial itself, or when it is writable."""

        async def engine() -> int | None:
            try:
                stream = world.network.dial(world.refusing(), SocketPlan())
            except OSError as error:
                return error.errno
            return await refused(world.network, stream)

        assert drive(engine) == errno.ECONNREFUSED

    def test_nobody_answers(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> None:
            stream = net.dial(world.silent(), SocketPlan())
            assert not await Wait(((stream, WRITE),), net.now() + MOMENT)
            stream.abort()

        drive(engine)

    # -- bytes -----------------------------------------------------------------------------

    def test_bytes_go_both_ways_and_come_to_an_end(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> None:
            stream, peer = await connection(world)
            assert stream.recv(10) is None
            assert stream.flush()
            assert stream.send(b"hello") == 5
            assert stream.written == 5
            assert await peer.recv(100) == b"hello"
            await peer.send(b"world")
            assert await read(net, stream, 3) == b"wor"
            assert await read(net, stream, 100) == b"ld"
            assert stream.recv(10) is None
            peer.close()
            assert await read(net, stream) == b""
            assert await read(net, stream) == b""
            stream.close()

        drive(engine)

    def test_what_does_not_fit_is_not_taken(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> None:
            stream, peer = await connection(world)
            taken = 0
            while count := stream.send(bytes(1 << 16)):
                taken += count
            assert stream.written == taken
            assert not await Wait(((stream, WRITE),), net.now() + MOMENT)
            while taken:
                taken -= len(await peer.recv(1 << 20))
            await arrival(net, stream, WRITE)
            assert stream.send(b"more") == 4
            assert await peer.recv(10) == b"more"
            stream.close()
            peer.close()

        drive(engine)

    def test_a_user_timeout_can_be_set_and_lifted(self, world: World, drive: Driver) -> None:
        async def engine() -> None:
            stream, peer = await connection(world)
            for seconds in (11.0, 0.25, 0.0):
                stream.set_user_timeout(seconds)
            await peer.send(b"still here")
            assert await read(world.network, stream) == b"still here"
            stream.close()
            stream.set_user_timeout(1.0)
            peer.close()

        drive(engine)

    # -- liveness --------------------------------------------------------------------------

    def test_an_idle_connection_is_quiet(self, world: World, drive: Driver) -> None:
        async def engine() -> None:
            stream, peer = await connection(world)
            assert stream.quiet()
            await write(world.network, stream, b"x")
            assert await peer.recv(1) == b"x"
            assert stream.quiet()
            stream.close()
            peer.close()

        drive(engine)

    @pytest.mark.parametrize("news", ["data", "fin", "rst"])
    def test_news_is_not_quiet(self, world: World, drive: Driver, news: str) -> None:
        async def happens(peer: Peer) -> None:
            if news == "data":
                await peer.send(b"x")
            elif news == "fin":
                peer.close()
            else:
                peer.reset()

        async def engine() -> tuple[bool, bool]:
            stream, peer = await connection(world)
            await happens(peer)
            found = await after_news(world.network, stream), stream.quiet()
            if news == "data":
                assert stream.recv(10) == b"x"  # looking has taken nothing away
                assert stream.quiet()
            stream.close()
            peer.close()
            return found

        assert drive(engine) == (False, False)

    # -- the end ---------------------------------------------------------------------------

    def test_a_close_is_an_end_in_good_order(self, world: World, drive: Driver) -> None:
        async def engine() -> None:
            stream, peer = await connection(world)
            await write(world.network, stream, b"last words")
            stream.close()
            stream.close()
            stream.abort()
            stream.shut()
            assert not stream.quiet()
            assert await peer.recv(100) == b"last words"
            assert await peer.recv(100) == b""
            peer.close()

        drive(engine)

    def test_an_abort_is_a_reset(self, world: World, drive: Driver) -> None:
        async def engine() -> int | None:
            stream, peer = await connection(world)
            stream.abort()
            stream.abort()
            stream.close()
            with pytest.raises(OSError) as failure:
                await peer.recv(100)
            peer.close()
            return failure.value.errno

        assert drive(engine) == errno.ECONNRESET

    def test_a_reset_is_told(self, world: World, drive: Driver) -> None:
        async def engine() -> int | None:
            stream, peer = await connection(world)
            peer.reset()
            await arrival(world.network, stream)
            with pytest.raises(OSError) as failure:
                stream.recv(100)
            stream.close()
            return failure.value.errno

        assert drive(engine) == errno.ECONNRESET

    def test_a_shut_wakes_the_owner(self, world: World, drive: Driver) -> None:
        """Another thread ends both directions of a connection that somebody waits on."""
        net = world.network

        async def engine() -> bytes | None:
            stream, peer = await connection(world)

            async def shut_after() -> None:
                await Wait((), net.now() + MOMENT)
                stream.shut()
                stream.shut()

            world.beside(shut_after)
            assert await Wait(((stream, READ),), net.now() + PATIENCE)
            end = stream.recv(10)
            assert await peer.recv(10) == b""
            stream.close()
            peer.close()
            return end

        assert drive(engine) == b""

    @pytest.mark.parametrize("mask", [READ, WRITE, READ | WRITE])
    def test_a_closed_stream_is_ready_so_that_whoever_waits_hears_of_it(
        self, world: World, drive: Driver, mask: int
    ) -> None:
        net = world.network

        async def engine() -> None:
            stream, peer = await connection(world)
            other, other_peer = await connection(world)
            waiter = net.waiter()
            stream.close()
            until = net.now() + PATIENCE
            assert list(await Wait(((stream, mask),), until)) == [stream]
            interests: list[Interest] = [(other, READ), (stream, mask), (waiter, WAKE)]
            assert list(await Wait(interests, until)) == [stream]
            with pytest.raises(OSError):
                stream.recv(10)
            for end in (peer, other, other_peer):
                end.close()

        drive(engine)
