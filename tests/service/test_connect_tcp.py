"""`connect_tcp`: anyio's own signature and streams, over a race, on asyncio and trio."""

from __future__ import annotations

import errno
import inspect
import ipaddress
import select
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from pathlib import Path as File
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.tls import TLSAttribute, TLSStream

import outlast
from outlast.net.kernel import KernelStream
from tests.guards import open_sockets
from tests.net.drivers import run_in_loop
from tests.net.far_side import MOMENT, PATIENCE
from tests.net.kernel_world import KernelListener, KernelWorld
from tests.net.scripted import SILENT, Scripted, Told
from tests.net.tls_pair import NAME, authority, client_context, server_context
from tests.net.tls_server import GREETING, Behaviour, TlsServer, greeting, hanging_up, mute
from tests.service.test_connect import OPTIONS, report_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def world() -> Iterator[KernelWorld]:
    """The kernel network and a far side on loopback."""
    made = KernelWorld()
    yield made
    made.close()


@pytest.fixture
def live(world: KernelWorld) -> KernelListener:
    """A listener."""
    return world.listen()


@pytest.fixture
def serve(world: KernelWorld) -> Iterator[Callable[..., TlsServer]]:
    """Makes TLS servers that `NAME` leads to."""
    servers: list[TlsServer] = []

    def make(*behaviours: Behaviour, context: ssl.SSLContext | None = None) -> TlsServer:
        servers.append(TlsServer(behaviours, context))
        world.name(NAME, [servers[-1].address])
        return servers[-1]

    yield make
    for server in servers:
        server.close()


# --- the signature ----------------------------------------------------------------------------


def test_the_signature_is_anyios() -> None:
    theirs = inspect.signature(anyio.connect_tcp).parameters
    ours = inspect.signature(outlast.connect_tcp).parameters
    assert [name for name in ours if name in theirs] == list(theirs)
    assert set(ours) - set(theirs) <= {"local_port", "policy", "network"}  # anyio 4.11: no port
    for name, parameter in theirs.items():
        assert ours[name].kind is parameter.kind
        if name != "happy_eyeballs_delay":  # anyio: 0.25; here it adapts to the target
            assert ours[name].default == parameter.default


# --- plain ------------------------------------------------------------------------------------


async def test_a_plain_call(live: KernelListener) -> None:
    host, port = live.address.pair
    async with await outlast.connect_tcp(host, port) as stream:
        assert isinstance(stream, SocketStream)
        assert stream.extra(SocketAttribute.remote_address) == (host, port)
        accepted, _ = live.sock.accept()
        with accepted:
            await stream.send(b"hello")
            assert accepted.recv(10) == b"hello"
            accepted.sendall(b"world")
            assert await stream.receive() == b"world"
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_the_host_may_be_an_address_object(world: KernelWorld, host: str) -> None:
    listener = world.listen(socket.AF_INET6 if ":" in host else socket.AF_INET)
    remote = ipaddress.ip_address(host)
    async with await outlast.connect_tcp(remote, listener.address.port) as stream:
        assert stream.extra(SocketAttribute.remote_port) == listener.address.port


async def test_the_local_address(world: KernelWorld, live: KernelListener) -> None:
    host, port = live.address.pair
    free = world.refusing()
    for sock in world._kept[-1:]:
        sock.close()
    for local_host in ("127.0.0.2", ipaddress.IPv4Address("127.0.0.3")):
        async with await outlast.connect_tcp(
            host, port, local_host=local_host, local_port=free.port
        ) as stream:
            local = stream.extra(SocketAttribute.local_address)
            assert local == (str(local_host), free.port)
            stream.extra(SocketAttribute.raw_socket).setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
            )


@pytest.mark.skipif(sys.platform != "linux", reason="option numbers of Linux")
async def test_options_of_a_stream_that_is_handed_out(live: KernelListener) -> None:
    async with await outlast.connect_tcp(*live.address.pair) as stream:
        sock = stream.extra(SocketAttribute.raw_socket)
        options = {
            name: sock.getsockopt(socket.IPPROTO_TCP, number) for name, number in OPTIONS.items()
        }
        assert options == {
            "nodelay": 1,
            "idle": 5,
            "interval": 1,
            "count": 6,
            "user timeout": 11_000,
        }


async def test_the_callers_own_delay_holds() -> None:
    network = Scripted({"10.0.0.1": SILENT}, [Told(["10.0.0.1"])])
    policy = outlast.Policy(connect_timeout=0.35, attempt_delay=9.0)
    with pytest.raises(TimeoutError):
        await connect(network, happy_eyeballs_delay=0.1, policy=policy)
    assert [moment for moment, _ in network.dials] == pytest.approx([0.0, 0.1, 0.2, 0.3])


async def connect(network: Any, **more: Any) -> Any:
    return await outlast.connect_tcp("db.test", 80, network=network, **more)


async def test_no_delay_is_a_very_short_one() -> None:
    """anyio takes 0 for all at once; RFC 8305 section 5 asks for 10 ms at least."""
    network = Scripted({"10.0.0.1": SILENT}, [Told(["10.0.0.1"])])
    with pytest.raises(TimeoutError):
        await connect(network, happy_eyeballs_delay=0, policy=outlast.Policy(connect_timeout=0.025))
    assert [moment for moment, _ in network.dials] == pytest.approx([0.0, 0.01, 0.02])


async def test_the_loop_goes_on_meanwhile(world: KernelWorld) -> None:
    """A look-up that hangs blocks nobody but its caller."""
    release = world.name("hung.test", [world.refusing()], held=True)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.lowlevel.checkpoint()
            ticks += 1

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        with pytest.raises(TimeoutError) as caught:
            await outlast.connect_tcp(
                "hung.test",
                80,
                network=world.network,
                policy=outlast.Policy(connect_timeout=0.2),
            )
        group.cancel_scope.cancel()
    assert ticks > 10
    assert "hung.test" in str(caught.value)
    release()


# --- TLS --------------------------------------------------------------------------------------


async def test_tls_with_the_systems_own_trust(
    world: KernelWorld,
    serve: Callable[..., TlsServer],
    tmp_path: File,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`tls=True` alone verifies the name that the user wrote."""
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(authority().cert_pem.bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    server = serve(greeting)
    stream = await outlast.connect_tcp(NAME, server.address.port, tls=True, network=world.network)
    assert isinstance(stream, TLSStream)
    assert await stream.receive() == GREETING
    await stream.send(b"echo")
    assert await stream.receive() == b"echo"
    session = stream.extra(TLSAttribute.ssl_object)
    assert session.server_hostname == NAME
    assert session.context.verify_mode is ssl.CERT_REQUIRED
    await stream.aclose()


async def secure(world: KernelWorld, server: TlsServer, **more: Any) -> Any:
    """A TLS connection to `NAME`, trusting our authority."""
    more.setdefault("ssl_context", client_context())
    return await outlast.connect_tcp(NAME, server.address.port, network=world.network, **more)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_what_comes_right_after_the_handshake_is_not_lost(
    world: KernelWorld, serve: Callable[..., TlsServer], version: ssl.TLSVersion
) -> None:
    context = server_context()
    context.maximum_version = version
    stream = await secure(world, serve(greeting, context=context))
    with anyio.fail_after(PATIENCE):
        assert await stream.receive() == GREETING
        await stream.aclose()


async def test_an_own_context_or_an_own_name_asks_for_tls(
    world: KernelWorld, serve: Callable[..., TlsServer]
) -> None:
    server = serve(greeting, greeting, context=server_context("other.test", NAME))
    for more in ({}, {"tls_hostname": "other.test"}):
        stream = await secure(world, server, **more)
        name = more.get("tls_hostname", NAME)
        assert stream.extra(TLSAttribute.ssl_object).server_hostname == name
        assert await stream.receive() == GREETING
        await stream.aclose()


@pytest.mark.parametrize("name", ["other.test", None])
async def test_a_wrong_name_is_refused(
    world: KernelWorld, serve: Callable[..., TlsServer], name: str | None
) -> None:
    context = None if name else server_context("other.test")
    server = serve(greeting, context=context)
    with pytest.raises(ssl.SSLCertVerificationError) as caught:
        await secure(world, server, tls_hostname=name)
    assert caught.value.__cause__ is not caught.value
    assert report_of(caught.value).of_phase("handshake")
    assert server.accepted == 1


@pytest.mark.parametrize("compatible", [True, False])
async def test_an_end_without_goodbye(
    world: KernelWorld,
    serve: Callable[..., TlsServer],
    compatible: bool,
    tmp_path: File,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with anyio: broken if the standard is asked for, else an end."""
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(authority().cert_pem.bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    server = serve(hanging_up)
    stream = await secure(
        world, server, ssl_context=None, tls=True, tls_standard_compatible=compatible
    )
    assert stream.extra(TLSAttribute.standard_compatible) is compatible
    assert await stream.receive() == GREETING
    await stream.send(b"go on")
    with pytest.raises(anyio.BrokenResourceError if compatible else anyio.EndOfStream):
        await stream.receive()
    await anyio.aclose_forcefully(stream.transport_stream)


async def test_a_handshake_is_within_the_budget(
    world: KernelWorld, serve: Callable[..., TlsServer]
) -> None:
    server = serve(mute)
    with pytest.raises(TimeoutError):
        await secure(world, server, policy=outlast.Policy(connect_timeout=0.3))


# --- ends and errors --------------------------------------------------------------------------


async def test_errors_are_those_of_a_plain_connect(world: KernelWorld) -> None:
    with pytest.raises(ConnectionRefusedError) as refused:
        await outlast.connect_tcp(*world.refusing().pair)
    assert report_of(refused.value)
    world.name("gone.test", socket.gaierror(socket.EAI_NONAME, "unknown"))
    with pytest.raises(socket.gaierror) as unknown:
        await outlast.connect_tcp("gone.test", 80, network=world.network)
    assert report_of(unknown.value)
    policy = outlast.Policy(connect_timeout=0.1)
    with pytest.raises(TimeoutError) as late:
        await outlast.connect_tcp(*world.silent().pair, policy=policy)
    assert late.value.errno == errno.ETIMEDOUT
    assert report_of(late.value)


async def test_a_cancellation_ends_every_dial(world: KernelWorld) -> None:
    host, port = world.silent().pair
    before = len(open_sockets())
    with anyio.move_on_after(3 * MOMENT) as scope:
        await outlast.connect_tcp(host, port, happy_eyeballs_delay=MOMENT)
    assert scope.cancelled_caught
    assert len(open_sockets()) == before


@pytest.mark.parametrize("tls", [False, True])
async def test_a_cancellation_at_the_last_step_leaves_no_socket(
    world: KernelWorld,
    live: KernelListener,
    serve: Callable[..., TlsServer],
    monkeypatch: pytest.MonkeyPatch,
    tls: bool,
) -> None:
    """The connection stands, and is being made a stream of the loop's."""
    handed: list[socket.socket] = []

    async def interrupted(sock: socket.socket) -> Any:
        handed.append(sock)
        await anyio.sleep_forever()

    server = serve(greeting if tls else mute)
    monkeypatch.setattr(SocketStream, "from_socket", interrupted)
    with anyio.move_on_after(PATIENCE) as scope:
        async with anyio.create_task_group() as group:

            async def job() -> None:
                if tls:
                    await secure(world, server)
                else:
                    await outlast.connect_tcp(*server.address.pair)

            group.start_soon(job)
            while not handed:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert not scope.cancelled_caught
    assert [sock.fileno() for sock in handed] == [-1]


async def test_a_connection_that_was_reset_at_once_is_an_error_of_the_connection(
    live: KernelListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the ValueError that anyio has for a socket that is not connected."""
    real = KernelStream.detach

    def after_a_reset(stream: KernelStream) -> socket.socket:
        accepted, _ = live.sock.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        accepted.close()
        sock = real(stream)
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        assert poll.poll(PATIENCE * 1000)
        return sock

    monkeypatch.setattr(KernelStream, "detach", after_a_reset)
    with pytest.raises(ConnectionResetError) as caught:
        await outlast.connect_tcp(*live.address.pair)
    assert str(live.address) in str(caught.value)
    assert report_of(caught.value)


def test_on_uvloop(world: KernelWorld, serve: Callable[..., TlsServer]) -> None:
    server = serve(greeting)

    async def main() -> bytes:
        stream = await secure(world, server)
        data: bytes = await stream.receive()
        await stream.aclose()
        return data

    assert run_in_loop("uvloop", main) == GREETING


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "more", "part"),
    [
        (("", 80), {}, "remote_host: ''"),
        ((None, 80), {}, "remote_host: None"),
        (("db.test", "80"), {}, "remote_port: '80'"),
        (("db.test", 0), {}, "remote_port: 0"),
        (("db.test", 80), {"happy_eyeballs_delay": -1}, "happy_eyeballs_delay: -1"),
        (("db.test", 80), {"happy_eyeballs_delay": float("nan")}, "happy_eyeballs_delay: nan"),
        (("db.test", 80), {"local_host": "localhost"}, "local_host: 'localhost'"),
        (("db.test", 80), {"local_host": "127.0.0.1", "local_port": -1}, "local_port: -1"),
        (("db.test", 80), {"policy": 5}, "policy: 5"),
    ],
)
async def test_what_is_malformed_is_named(
    arguments: tuple[Any, Any], more: dict[str, Any], part: str
) -> None:
    with pytest.raises(ValueError) as caught:
        await outlast.connect_tcp(*arguments, **more)
    assert str(caught.value).startswith(part)
