"""Unix sockets: the URL says what is asked for, the path where."""

from __future__ import annotations

import contextlib
import math
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from outlast.net.address import Address
from outlast.net.kernel import KernelNetwork, KernelStream
from outlast.net.options import SocketPlan
from tests.http.callers import Upload, report_of
from tests.http.cases.table import Open, case
from tests.http.cases.tls import client_context, server_context
from tests.http.servers import BOUND, Peer, Server, hang_up, serve

SHORT = 0.1  # seconds


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """A short path: the kernel takes 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="outlast-") as made:
        yield made


@case
async def requests_over_a_unix_socket(open_caller: Open) -> None:
    with folder() as path, Server(serve, path=f"{path}/s") as server:
        async with open_caller(uds=server.address) as caller:
            response = await caller.get("http://orders.shop.svc:8080/x")
            assert response.content == b"/x"
            assert (await caller.post("http://orders.shop.svc:8080")).content == b"payload"
            body = Upload(b"one", b"two")
            assert (await caller.post("http://orders.shop.svc:8080", body)).content == b"onetwo"
            assert caller.counts()["idle"] == 1
    assert server.connections == 1
    assert server.requests[0].headers["host"] == "orders.shop.svc:8080"
    assert report_of(response).events[0].address == f"unix:{server.address}"
    assert not report_of(response).notes  # no option was tried that such a socket does not have


@case
async def hosts_do_not_share_connections(open_caller: Open) -> None:
    """As in httpx: what is behind the socket may tell them apart by connection."""
    with folder() as path, Server(serve, path=f"{path}/s") as server:
        async with open_caller(uds=server.address) as caller:
            for host in ("a", "b", "a", "b"):
                await caller.get(f"http://{host}")
    assert server.connections == 2
    assert [seen.headers["host"] for seen in server.requests] == ["a", "b", "a", "b"]


@case
async def tls_over_a_unix_socket(open_caller: Open) -> None:
    context = server_context("orders.shop.svc")
    with folder() as path, Server(serve, path=f"{path}/s", context=context) as server:
        async with open_caller(uds=server.address, verify=client_context()) as caller:
            assert (await caller.get("https://orders.shop.svc/x")).content == b"/x"
            with pytest.raises(httpx.ConnectError, match="nothing was sent"):
                await caller.get("https://elsewhere")


@case
async def a_name_without_a_file(open_caller: Open) -> None:
    """Linux's abstract sockets."""
    with folder() as path, Server(serve, path=f"\0{path}") as server:
        async with open_caller(uds=server.address) as caller:
            response = await caller.get("http://orders")
    assert report_of(response).events[0].address == f"unix:@{path}"


@case
async def no_socket_there(open_caller: Open) -> None:
    with folder() as path:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{path}/left")
        listener.close()
        long = f"{path}/{'x' * 200}"
        cases = {"none": "No such file", "left": "Connection refused", long: "path too long"}
        for name, text in cases.items():
            async with open_caller(uds=str(Path(path, name))) as caller:
                with pytest.raises(httpx.ConnectError, match=f"unix:.*{text}"):
                    await caller.post("http://orders")
                assert caller.counts()["places"] == 0


@case
async def a_peer_that_hangs_up_is_tried_again(open_caller: Open) -> None:
    with folder() as path, Server(hang_up, serve, path=f"{path}/s") as server:
        async with open_caller(uds=server.address) as caller:
            assert (await caller.get("http://orders")).status_code == 200
            server.requests.clear()
    with folder() as path, Server(hang_up, path=f"{path}/s") as server:
        async with open_caller(uds=server.address) as caller:
            with pytest.raises(httpx.RemoteProtocolError):
                await caller.post("http://orders")
    assert server.methods == ["POST"]


@case
async def a_mute_peer(open_caller: Open) -> None:
    def deaf(peer: Peer) -> None:
        peer.wait(peer.server.gate)

    with folder() as path, Server(deaf, path=f"{path}/s") as server:
        async with open_caller(uds=server.address) as caller:
            limit = httpx.Timeout(BOUND, read=SHORT)
            with pytest.raises(httpx.ReadTimeout, match=f"unix:{server.address}"):
                await caller.get("http://orders", timeout=limit)
            limit = httpx.Timeout(BOUND, write=SHORT)
            with pytest.raises(httpx.WriteTimeout):
                await caller.post("http://orders", bytes(1 << 24), timeout=limit)


class Queue(KernelNetwork):
    """A Unix socket whose queue of connections is full, until it has been dialled `busy` times."""

    def __init__(self, path: str, busy: float) -> None:
        super().__init__()
        self.dials = 0
        self._busy = busy
        self._stack = contextlib.ExitStack()
        self._listener = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        self._listener.bind(path)
        self._listener.listen(0)
        self._stack.enter_context(socket.socket(socket.AF_UNIX)).connect(path)

    def dial(self, address: Address, plan: SocketPlan) -> KernelStream:
        self.dials += 1
        if self.dials > self._busy:
            self._busy = math.inf
            self._listener.accept()[0].close()  # the one that filled it
            thread = threading.Thread(target=self._serve)
            self._stack.callback(thread.join, BOUND)
            thread.start()
        return super().dial(address, plan)

    def _serve(self) -> None:
        self._listener.settimeout(BOUND)
        with self._listener.accept()[0] as sock:
            sock.settimeout(BOUND)
            sock.recv(65_536)
            sock.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __enter__(self) -> Queue:
        return self


@case
async def a_full_queue_is_asked_again(open_caller: Open) -> None:
    """connect(2) says EAGAIN at once: there is nothing to wait for."""
    with folder() as path, Queue(f"{path}/s", busy=3) as network:
        async with open_caller(uds=f"{path}/s", network=network) as caller:
            response = await caller.post("http://orders")
    assert response.status_code == 204
    assert network.dials == 4


@case
async def a_queue_that_stays_full(open_caller: Open) -> None:
    with folder() as path, Queue(f"{path}/s", busy=math.inf) as network:
        async with open_caller(uds=f"{path}/s", network=network) as caller:
            limit = httpx.Timeout(BOUND, connect=SHORT)
            with pytest.raises(httpx.ConnectTimeout, match=r"queue was full.*nothing was sent"):
                await caller.get("http://orders", timeout=limit)
            late = {"outlast": {"deadline": SHORT}}
            with pytest.raises(httpx.ConnectTimeout, match=r"queue was full.*nothing was sent"):
                await caller.get("http://orders", extensions=late)
            assert caller.counts()["places"] == 0


@case
async def what_makes_no_sense_with_uds_is_refused(open_caller: Open) -> None:
    targets = {"http://orders": "static://10.0.0.1:80"}
    for more, text in (
        ({"proxy": "http://p:1"}, "proxy and uds"),
        ({"targets": targets}, "uds and targets"),
        ({"local_address": "127.0.0.1"}, "uds and local_address"),
    ):
        with pytest.raises(ValueError, match=text):
            async with open_caller(uds="/run/x.sock", **more):
                pass
    for wrong in ("", 7, b"/run/x", "/run/\0x", Path("/run/x")):
        with pytest.raises(ValueError, match=r"uds: .* is no path of a Unix socket"):
            async with open_caller(uds=wrong):
                pass


@case
async def socket_options_are_set_on_unix_sockets_too(open_caller: Open) -> None:
    option = (socket.SOL_SOCKET, socket.SO_SNDBUF)
    with folder() as path, Server(serve, path=f"{path}/s") as server:
        async with open_caller(uds=server.address, socket_options=[(*option, 8192)]) as caller:
            await caller.get("http://orders")
            (connection,) = caller.transport._engine.pool._idle
            held = connection.stream.detach().getsockopt(*option)
        wrong = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
        async with open_caller(uds=server.address, socket_options=wrong) as caller:
            with pytest.raises(httpx.ConnectError, match="socket option"):
                await caller.get("http://orders")
    assert held == 2 * 8192  # the kernel doubles it, socket(7)
