"""Libraries that know nothing of the patch, against an endpoint that answers the second dial only.

Their sockets are found as the system has them, so that no library is asked how it keeps them.
"""

from __future__ import annotations

import asyncio
import http.client
import smtplib
import socket
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

import pytest

from outlast.shims.patch import install
from tests.guards import open_sockets
from tests.net.pairs import PATIENCE, keepalive
from tests.shims.patch.conftest import LOOPBACK, POLICY, Silent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="keepalive figures of Linux")

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Held = AbstractContextManager[Any]


class Server(threading.Thread):
    """Answers every line or head of the one connection with the same words, once it is dialled."""

    def __init__(self, silent: Silent, answer: bytes, greeting: bytes = b"") -> None:
        super().__init__()
        self.silent, self.answer, self.greeting = silent, answer, greeting
        self.opened = threading.Event()
        self.seen: list[bytes] = []

    def open(self) -> None:
        """Before the second dial."""
        self.silent.open()
        self.opened.set()

    def run(self) -> None:
        """Until the client hangs up."""
        if not self.opened.wait(PATIENCE):
            return
        with self.silent.accept() as far:
            far.settimeout(PATIENCE)
            far.sendall(self.greeting)
            while data := far.recv(1 << 16):
                self.seen.append(data)
                far.sendall(self.answer)


def by_http_client(port: int) -> Held:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/")
    assert connection.getresponse().read() == b"ok"
    return closing(connection)


def by_urllib(port: int) -> Held:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return closing(opener.open(f"http://127.0.0.1:{port}/"))


def by_urllib3(port: int) -> Held:
    urllib3 = pytest.importorskip("urllib3")
    pools = urllib3.PoolManager()
    assert pools.request("GET", f"http://127.0.0.1:{port}/").data == b"ok"
    pools.close = pools.clear
    return closing(pools)


def by_requests(port: int) -> Held:
    requests = pytest.importorskip("requests")
    session: Held = requests.Session()
    assert session.get(f"http://127.0.0.1:{port}/").content == b"ok"  # type: ignore[attr-defined]  # a session
    return session


def by_redis(port: int) -> Held:
    redis = pytest.importorskip("redis")
    connection = redis.Connection(host="127.0.0.1", port=port, protocol=2)
    connection.connect()
    connection.close = connection.disconnect
    return closing(connection)


def by_smtplib(port: int) -> Held:
    return closing(smtplib.SMTP("127.0.0.1", port))


def by_create_connection(port: int) -> Held:
    return socket.create_connection(("127.0.0.1", port))


HTTP = (ANSWER, b"")
LIBRARIES: dict[str, tuple[Callable[[int], Held], tuple[bytes, bytes]]] = {
    "http.client": (by_http_client, HTTP),
    "urllib": (by_urllib, HTTP),
    "urllib3": (by_urllib3, HTTP),
    "requests": (by_requests, HTTP),
    "redis-py": (by_redis, (b"+OK\r\n" * 2, b"")),
    "smtplib": (by_smtplib, (b"250 ok\r\n", b"220 here\r\n")),
    "socket": (by_create_connection, HTTP),
}


def found(port: int) -> list[tuple[int, int, int, int]]:
    """Keepalive of this process's sockets that are connected to a port."""
    held = []
    for number in open_sockets().values():
        sock = socket.socket(fileno=number)
        try:
            if sock.family == socket.AF_INET and sock.getpeername()[1] == port:
                held.append(keepalive(sock))
        except OSError:  # not connected
            continue
        finally:
            sock.detach()
    return held


@pytest.fixture
def served(
    silent: Silent, on_redial: Callable[[Callable[[], object]], None], request: Any
) -> Iterator[Server]:
    """The server of a library, before the patch is put."""
    answer, greeting = request.param
    server = Server(silent, answer, greeting)
    on_redial(server.open)
    install(only=LOOPBACK, policy=POLICY)
    server.start()
    yield server
    server.opened.set()
    server.join(PATIENCE)
    assert not server.is_alive()


@pytest.mark.incident("FR-79")
@pytest.mark.incident("FR-80")
@pytest.mark.parametrize(
    ("library", "served"), LIBRARIES.values(), ids=LIBRARIES, indirect=["served"]
)
def test_fr79_fr80_a_library_outlives_its_first_dial_and_keepalive_is_on(
    library: Callable[[int], Held], served: Server
) -> None:
    with library(served.silent.port):
        ((on, *figures),) = found(served.silent.port)
        assert on
        if library is not by_redis:  # which may have figures of its own; they stand
            assert figures == [5, 1, 6]


@pytest.mark.incident("FR-79")
@pytest.mark.parametrize("served", [HTTP], indirect=True)
def test_fr79_options_of_the_callers_stand_on_what_takes_its_place(served: Server) -> None:
    urllib3 = pytest.importorskip("urllib3")
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, 4, 77)]
    port = served.silent.port
    with urllib3.HTTPConnectionPool("127.0.0.1", port, socket_options=options) as pool:
        assert pool.request("GET", "/").status == 200
        assert [figures[:2] for figures in found(port)] == [(1, 77)]


@pytest.mark.parametrize("served", [HTTP], indirect=True)
def test_aiohttp(served: Server) -> None:
    aiohttp = pytest.importorskip("aiohttp")

    async def main() -> tuple[str, Any]:
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{served.silent.port}/") as response:
                return await response.text(), found(served.silent.port)

    assert asyncio.run(main()) == ("ok", [(1, 5, 1, 6)])


@pytest.mark.parametrize("served", [HTTP], indirect=True)
def test_a_loop_in_c_that_is_given_a_socket(served: Server) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as sock:
            sock.setblocking(False)
            await asyncio.wait_for(loop.sock_connect(sock, served.silent.address), PATIENCE)
            await loop.sock_sendall(sock, b"GET / HTTP/1.1\r\n\r\n")
            assert await loop.sock_recv(sock, 1 << 16) == ANSWER

    loop = uvloop.new_event_loop()
    with closing(loop):
        loop.run_until_complete(main())


@pytest.mark.parametrize("served", [HTTP], indirect=True)
def test_a_connection_whose_maker_was_bound_before_the_patch(served: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.silent.port)
    vars(connection)["_create_connection"] = socket.create_connection.__wrapped__  # type: ignore[attr-defined]  # functools.wraps
    with closing(connection), nullcontext():
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"ok"
        assert found(served.silent.port) == [(1, 5, 1, 6)]
