"""`extensions["network_stream"]`: upgrades and CONNECT, in threads, on asyncio and on trio.

What is read and written, httpcore's exceptions for what goes wrong, who hears of a close, and that
a connection once handed over serves no other request. httpx's own client is the oracle for what is
told of a connection. The last cases are real users: httpx2's WebSocket sessions.
"""

from __future__ import annotations

import socket
import ssl
import sys
from typing import Any

import h2.config
import h2.connection
import h2.events
import httpcore
import httpcore2
import httpx
import httpx2
import pytest
import wsproto
import wsproto.events

import outlast
import outlast.httpx2
from tests.guards import working_threads
from tests.http.cases.tls import client_context, server_context
from tests.http.servers import BOUND, Peer, Server, serve
from tests.http.streams import World, echo, settled, switching

GRANTED = b"HTTP/1.1 200 Go on\r\n\r\n"
BIG = b"x" * 3_000_000


@pytest.fixture(params=["threads", "asyncio", "trio"])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def places(client: Any) -> int:
    return int(client._transport._engine.pool.counts()["places"])


async def exactly(stream: Any, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = await settled(stream.read(size - len(data), timeout=BOUND))
        assert piece, "the peer has ended"
        data += piece
    return data


# -- upgrades and CONNECT ---------------------------------------------------------------------


def test_an_upgrade(world: World) -> None:
    async def case() -> None:
        async with world.client() as client, world.upgraded(client, server.url) as stream:
            assert await settled(stream.read(3)) == b"ear"
            assert await settled(stream.read(100, timeout=BOUND)) == b"ly"
            await settled(stream.write(b"ping", timeout=BOUND))
            assert await exactly(stream, 4) == b"ping"
            await settled(stream.write(b""))
            assert places(client) == 1
            await world.close(stream)
            await world.close(stream)
            assert places(client) == 0

    with Server(switching(early=b"early")) as server:
        world.run(case)


def test_both_ways_at_once(world: World) -> None:
    """More than the buffers hold, over plain TCP and over TLS."""

    async def case() -> None:
        async with world.client(verify=client_context()) as client:
            async with world.upgraded(client, server.url) as stream:
                sent = lambda: stream.write(BIG, timeout=BOUND)  # noqa: E731
                got: list[bytes] = []

                async def reading() -> None:
                    got.append(await exactly(stream, len(BIG)))

                def read() -> Any:
                    return reading() if world.waits else world.run(reading)

                assert await world.beside(sent, read) is None
                assert got == [BIG]

    for context in (None, server_context("127.0.0.1")):
        with Server(switching(), context=context) as server:
            world.run(case)


def granting(peer: Peer) -> None:
    """Grants a CONNECT and is the far side too: TLS, then an echo."""
    seen = peer.head()
    assert seen is not None
    assert (seen.method, seen.target) == ("CONNECT", "far:443")
    peer.send(GRANTED)
    peer.sock = server_context("far").wrap_socket(peer.sock, server_side=True)
    echo(peer)
    peer.sock.close()


def test_a_connect_and_tls_within(world: World) -> None:
    async def case() -> None:
        async with world.client() as client:
            target = {"target": b"far:443"}
            async with world.response(client, "CONNECT", server.url, extensions=target) as response:
                plain = response.extensions["network_stream"]
                assert plain.get_extra_info("ssl_object") is None
                started = plain.start_tls(client_context(), server_hostname="far", timeout=BOUND)
                stream = await settled(started)
                assert stream.get_extra_info("ssl_object").version().startswith("TLS")
                await settled(stream.write(b"ping", timeout=BOUND))
                assert await exactly(stream, 4) == b"ping"
                await world.close(stream)
            assert places(client) == 0

    with Server(granting) as server:
        world.run(case)


@pytest.mark.parametrize(("name", "early"), [("near", b""), ("far", b"220 hello\r\n")])
def test_tls_that_cannot_begin(world: World, name: str, early: bytes) -> None:
    """The wrong name, or a peer that spoke first: the connection is closed."""

    def shaking_hands(peer: Peer) -> None:
        server_context("far").wrap_socket(peer.sock, server_side=True)

    async def case() -> None:
        async with world.client() as client, world.upgraded(client, server.url) as stream:
            with pytest.raises(httpcore.ConnectError):
                await settled(stream.start_tls(client_context(), name, timeout=BOUND))
            assert places(client) == 0
            with pytest.raises(httpcore.ReadError):
                await settled(stream.read(1))

    with Server(switching(shaking_hands, early)) as server:
        world.run(case)


# -- what goes wrong --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("home", "core"), [(outlast, httpcore), (outlast.httpx2, httpcore2)], ids=["httpx", "httpx2"]
)
def test_timeouts_are_those_of_the_familys_core(world: World, home: Any, core: Any) -> None:
    def silent(peer: Peer) -> None:
        peer.wait(peer.server.gate)

    async def case() -> None:
        async with world.client(home) as client, world.upgraded(client, server.url) as stream:
            with pytest.raises(core.ReadTimeout, match=r"after 0\.02 s"):
                await settled(stream.read(1, timeout=0.02))
            with pytest.raises(core.WriteTimeout, match=r"after 0\.02 s"):
                await settled(stream.write(BIG * 5, timeout=0.02))
            with pytest.raises(core.ConnectTimeout):
                await settled(stream.start_tls(ssl.create_default_context(), "a", timeout=0.02))
            with pytest.raises(core.WriteError):
                await settled(stream.write(b"x"))

    with Server(switching(silent), receive_buffer=4096) as server:
        world.run(case)


def test_an_end_and_a_reset(world: World) -> None:
    async def case() -> None:
        async with world.client() as client:
            async with world.upgraded(client, server.url) as stream:
                assert await settled(stream.read(1, timeout=BOUND)) == b""
            async with world.upgraded(client, server.url) as stream:
                with pytest.raises(httpcore.ReadError):
                    await settled(stream.read(1, timeout=BOUND))

    with Server(switching(Peer.close), switching(Peer.reset)) as server:
        world.run(case)


def test_a_close_is_heard_by_who_reads(world: World) -> None:
    async def case() -> None:
        async with world.client(verify=client_context()) as client:
            async with world.upgraded(client, server.url) as stream:
                heard = await world.beside(lambda: stream.read(1), lambda: world.close_now(stream))
                assert heard == b"" or isinstance(heard, httpcore.ReadError)
                assert places(client) == 0

    for context in (None, server_context("127.0.0.1")):
        with Server(switching(), context=context) as server:
            world.run(case)


def test_after_the_response(world: World) -> None:
    """The connection may be another request's by now."""

    async def case() -> None:
        async with world.client() as client:
            stream = (await settled(client.get(server.url))).extensions["network_stream"]
            with pytest.raises(httpcore.WriteError, match="response is over"):
                await settled(stream.write(b"x"))
            await world.close(stream)
            await settled(client.get(server.url))
            assert server.connections == 1

    with Server(serve) as server:
        world.run(case)


def test_once_handed_over_it_serves_no_other_request(world: World) -> None:
    """Raw bytes in the middle of an ordinary response, as Docker's attach has them."""

    def attached(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n")
        peer.send(peer.sock.recv(4))
        serve(peer)

    async def case() -> None:
        async with world.client() as client:
            async with world.response(client, "GET", server.url) as response:
                await settled(response.extensions["network_stream"].write(b"body"))
                assert (
                    await settled(response.aread() if world.waits else response.read()) == b"body"
                )
            await settled(client.get(server.url))
        assert server.connections == 2

    with Server(attached, serve) as server:
        world.run(case)


@pytest.mark.parametrize("watched", [True, False])
def test_a_user_timeout_stands_on_it_only_while_it_is_watched(world: World, watched: bool) -> None:
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is None:
        pytest.skip("this platform has no TCP user timeout")

    async def case() -> None:
        with outlast.override(watch=watched):
            async with world.client() as client, world.upgraded(client, server.url) as stream:
                sock = stream.get_extra_info("socket")
                assert sock.getsockopt(socket.IPPROTO_TCP, option) == 11_000
                await settled(stream.write(b"x", timeout=BOUND))
                expected = 11_000 if watched and sys.platform == "linux" else 0
                assert sock.getsockopt(socket.IPPROTO_TCP, option) == expected

    with Server(switching()) as server:
        world.run(case)


def over_http2(peer: Peer) -> None:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    connection.initiate_connection()
    peer.send(connection.data_to_send())
    while data := peer.sock.recv(65_536):
        for event in connection.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                connection.send_headers(event.stream_id, [(":status", "200")], end_stream=True)
        peer.send(connection.data_to_send())


def test_an_http2_connection_is_shared(world: World) -> None:
    async def case() -> None:
        async with world.client(http1=False, http2=True) as client:
            async with world.response(client, "GET", server.url) as response:
                stream = response.extensions["network_stream"]
                assert stream.get_extra_info("server_addr") == ("127.0.0.1", server.port)
                with pytest.raises(RuntimeError, match="shared"):
                    await settled(stream.read(1))
                await world.close(stream)
            await settled(client.get(server.url))
        assert server.connections == 1

    with Server(over_http2) as server:
        world.run(case)


# -- what is told -----------------------------------------------------------------------------


def told(stream: Any) -> dict[str, Any]:
    names = ("server_addr", "is_readable", "no_such_thing")
    known = {name: stream.get_extra_info(name) for name in names}
    session = stream.get_extra_info("ssl_object")
    sock = stream.get_extra_info("socket")
    assert sock.getsockname() == stream.get_extra_info("client_addr")
    return {**known, "tls": session and session.version()}


def test_what_is_told_of_a_connection(world: World) -> None:
    """What httpx's own client tells; looking changes nothing."""

    async def case() -> None:
        async with world.client(verify=client_context()) as client:
            async with world.response(client, "GET", server.url) as response:
                stream = response.extensions["network_stream"]
                assert told(stream) == oracle
                await world.body(response)
            await settled(client.get(server.url))
            assert server.connections == 2
        assert stream.get_extra_info("server_addr") is None
        assert stream.get_extra_info("is_readable") is True

    for context in (None, server_context("127.0.0.1")):
        with Server(serve, context=context) as server:
            with httpx.Client(verify=client_context()) as plain:
                with plain.stream("GET", server.url) as theirs:
                    oracle = told(theirs.extensions["network_stream"])
            world.run(case)


# -- real users -------------------------------------------------------------------------------


def websocket(peer: Peer) -> None:
    """Greets, answers every text reversed, closes when asked to."""
    connection = wsproto.WSConnection(wsproto.ConnectionType.SERVER)
    while data := peer.sock.recv(65_536):
        connection.receive_data(data)
        for event in connection.events():
            if isinstance(event, wsproto.events.Request):
                peer.send(connection.send(wsproto.events.AcceptConnection()))
                peer.send(connection.send(wsproto.events.TextMessage("hello")))
            elif isinstance(event, wsproto.events.TextMessage):
                answer = wsproto.events.TextMessage(event.data[::-1])
                peer.send(connection.send(answer))
            elif isinstance(event, wsproto.events.CloseConnection):
                peer.send(connection.send(event.response()))
                return


@pytest.mark.skipif(not hasattr(httpx2.Client, "websocket"), reason="an httpx2 without WebSockets")
@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_a_websocket(world: World, scheme: str) -> None:
    async def case() -> None:
        async with world.client(outlast.httpx2, verify=client_context()) as client:
            session: Any
            if world.waits:
                async with client.websocket(url) as session:
                    assert await session.receive_text() == "hello"
                    await session.send_text("abc")
                    assert await session.receive_text() == "cba"
            else:
                with client.websocket(url) as session:
                    assert session.receive_text() == "hello"
                    session.send_text("abc")
                    assert session.receive_text() == "cba"
            assert places(client) == 0

    before = working_threads()
    context = server_context("127.0.0.1") if scheme == "wss" else None
    with Server(websocket, context=context) as server:
        url = f"{scheme}://{server.address}/chat"
        world.run(case)
    assert working_threads() <= before + 1
