"""`extensions["trace"]`: what a listener hears, beside httpx's own client, and when nobody listens.

httpx is the oracle for names, order and information wherever both do the same; what is told of
races and repeated requests has cases of its own. In threads, on asyncio and on trio.
"""

from __future__ import annotations

import errno
import math
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

import outlast
from tests.http.cases.tls import client_context, server_context
from tests.http.fake_network import FakeNetwork, Line, answers
from tests.http.servers import BOUND, Server, answering, hang_up, mute, raw, serve
from tests.http.streams import World, settled
from tests.http.test_network_stream import over_http2
from tests.http.virtual_calls import URL, client

DIALLED = ["connection.connect_tcp.started", "connection.connect_tcp.complete"]
SENT = [
    "http11.send_request_headers.started",
    "http11.send_request_headers.complete",
    "http11.send_request_body.started",
    "http11.send_request_body.complete",
    "http11.receive_response_headers.started",
]
CLOSED = ["http11.response_closed.started", "http11.response_closed.complete"]
LOST = ["http11.receive_response_headers.failed", *CLOSED]
ANSWERED = [
    "http11.receive_response_headers.complete",
    "http11.receive_response_body.started",
    "http11.receive_response_body.complete",
    *CLOSED,
]
ONCE = {"attempts": 1}
SHORT = {"connect": BOUND, "read": 0.05, "write": BOUND, "pool": BOUND}


@pytest.fixture(params=["threads", "asyncio", "trio"])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


class Listener:
    """Keeps what it is told. `raise_at`: the event at which it raises."""

    def __init__(self, world: World | None = None, raise_at: str = "") -> None:
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self.comparable: list[tuple[str, dict[str, Any]]] = []  # objects by their kind
        self.threads: set[int] = set()
        self._waits = world is not None and world.waits
        self._raise_at = raise_at

    @property
    def extension(self) -> Any:
        return self._hear_async if self._waits else self._hear

    def _hear(self, name: str, info: Mapping[str, Any]) -> None:
        self.threads.add(threading.get_ident())
        self.events.append((name, info))
        self.comparable.append((name, {key: _plain(info[key]) for key in info}))
        if name == self._raise_at:
            raise Heard(name)

    async def _hear_async(self, name: str, info: Mapping[str, Any]) -> None:
        await anyio.lowlevel.checkpoint()
        self._hear(name, info)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def info(self, name: str) -> Mapping[str, Any]:
        return next(info for heard, info in self.events if heard == name)


class Heard(Exception):
    """What a listener raises."""


def _plain(value: Any) -> Any:
    if isinstance(value, BaseException):
        return type(value).__name__
    if hasattr(value, "get_extra_info"):
        return "stream", value.get_extra_info("server_addr")
    return value if isinstance(value, (str, int, float, tuple, type(None))) else "object"


# -- beside httpx -----------------------------------------------------------------------------

CUT = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"
CASES: dict[str, dict[str, Any]] = {
    "two requests": {"handler": serve, "count": 2},
    "TLS": {"handler": serve, "count": 2, "tls": True},
    "an upload in pieces": {"handler": serve, "upload": (b"a", b"b")},
    "no body": {"handler": answering(204)},
    "no answer": {"handler": hang_up},
    "garbage": {"handler": raw(b"nonsense\r\n\r\n")},
    "a body cut off": {"handler": raw(CUT)},
    "no answer in time": {"handler": mute, "timeout": SHORT},
    "nobody listens": {"handler": serve, "refuses": True},
    "the wrong certificate": {"handler": serve, "tls": True, "trusts": False},
    "HTTP/2": {"handler": over_http2, "count": 2, "http1": False, "http2": True},
}


class Play:
    """One case, for any client. `post` gives what the client's own `send` gives."""

    def __init__(self, name: str) -> None:
        self.case = CASES[name]
        self.count = self.case.get("count", 1)
        self.given: dict[str, Any] = {
            name: self.case[name] for name in ("http1", "http2") if name in self.case
        }
        self.given["verify"] = client_context() if self.case.get("trusts", True) else True

    @contextmanager
    def server(self) -> Iterator[Server]:
        context = server_context("127.0.0.1") if self.case.get("tls") else None
        with Server(self.case["handler"], context=context) as server:
            if self.case.get("refuses"):
                server.stop_listening()
            yield server

    def request(self, client: Any, url: str, listener: Listener, *, waits: bool) -> Any:
        chunks = self.case.get("upload")

        async def pieces() -> AsyncIterator[bytes]:
            for chunk in chunks or ():
                yield chunk

        content = pieces() if chunks and waits else iter(chunks) if chunks else b"body"
        extensions = {"trace": listener.extension, "outlast": ONCE}
        extensions["timeout"] = self.case.get("timeout", dict.fromkeys(SHORT, BOUND))
        return client.build_request("POST", url, content=content, extensions=extensions)


def by_httpx(play: Play, url: str) -> Listener:
    listener = Listener()
    with httpx.Client(**play.given) as client:
        for _ in range(play.count):
            with suppress(httpx.TransportError):
                client.send(play.request(client, url, listener, waits=False))
    return listener


def without_what_we_do_not_tell(events: list[Any]) -> list[Any]:
    """HTTP/2: the server's settings come to whoever reads."""
    return [event for event in events if "receive_remote_settings" not in event[0]]


@pytest.mark.parametrize("name", CASES)
def test_what_is_told_is_what_httpx_tells(world: World, name: str) -> None:
    play = Play(name)
    listener = Listener(world)

    async def case() -> None:
        async with world.client(**play.given) as client:
            for _ in range(play.count):
                request = play.request(client, server.url, listener, waits=world.waits)
                with suppress(httpx.TransportError):
                    await settled(client.send(request))

    with play.server() as server:
        theirs = by_httpx(play, server.url)
        world.run(case)
    assert listener.comparable == without_what_we_do_not_tell(theirs.comparable)


# -- what is this library's own ---------------------------------------------------------------


def test_every_attempt_is_told() -> None:
    """The first endpoint hangs up; the request is repeated at the other."""
    listener = Listener()
    network = FakeNetwork(a=Line(lambda stream: stream.ends(0.01)), b=Line(answers()))
    with client(network, "a", "b") as made:
        made.get(URL, extensions={"trace": listener.extension})
    assert listener.names == [*DIALLED, *SENT, *LOST, *DIALLED, *SENT, *ANSWERED]
    error = listener.info("http11.receive_response_headers.failed")["exception"]
    assert type(error) is httpx.RemoteProtocolError


def test_an_attempt_beside_another() -> None:
    """The first is never acknowledged and is given company, which is answered."""
    listener = Listener()
    lost = Line(lambda _: None, acked=math.inf)
    network = FakeNetwork(a=lost, b=Line(answers()))
    with client(network, "a", "b") as made:
        made.get(URL, extensions={"trace": listener.extension})
    assert Counter(listener.names) == Counter([*DIALLED, *SENT] * 2 + [*LOST, *ANSWERED])
    error = listener.info("http11.receive_response_headers.failed")["exception"]
    assert "another attempt" in str(error)


def test_a_race_is_one_connect() -> None:
    """Two dials that are refused and one that stands."""
    listener = Listener()
    refused = Line(lambda _: None, code=errno.ECONNREFUSED)
    network = FakeNetwork(a=refused, b=refused, c=Line(answers()))
    with client(network, "a", "b", "c") as made:
        made.get(URL, extensions={"trace": listener.extension})
    assert listener.names == [*DIALLED, *SENT, *ANSWERED]


def test_a_unix_socket_and_a_proxy(world: World, tmp_path: Path) -> None:
    listener = Listener(world)
    extensions = {"trace": listener.extension}
    path = str(tmp_path / "none")

    async def case() -> None:
        home: Any = httpx.AsyncClient if world.waits else httpx.Client
        kind = outlast.AsyncTransport if world.waits else outlast.Transport
        made = home(transport=kind(uds=path))
        with pytest.raises(httpx.ConnectError):
            await settled(made.get("http://a/", extensions=extensions))
        await world.close(made)
        async with world.client(proxy=proxy.url) as through:
            await settled(through.get("http://far/x", extensions=extensions))

    with Server(serve) as proxy:
        world.run(case)
    assert listener.info("connection.connect_unix_socket.started")["path"] == path
    assert "connection.connect_unix_socket.failed" in listener.names
    told = listener.info("connection.connect_tcp.started")
    assert (told["host"], told["port"]) == ("127.0.0.1", proxy.port)


# -- who listens ------------------------------------------------------------------------------


def test_the_listener_is_called_where_the_request_was_made(world: World) -> None:
    listener = Listener(world)

    async def case() -> None:
        async with world.client() as made:
            await settled(made.get(server.url, extensions={"trace": listener.extension}))

    with Server(serve) as server:
        world.run(case)
    assert listener.threads == {threading.get_ident()}
    assert listener.names == [*DIALLED, *SENT, *ANSWERED]


@pytest.mark.parametrize("name", [*DIALLED, *SENT, *ANSWERED])
def test_what_a_listener_raises_ends_the_request(world: World, name: str) -> None:
    listener = Listener(world, raise_at=name)

    async def case() -> None:
        async with world.client() as made:
            with pytest.raises(Heard):
                await settled(made.get(server.url, extensions={"trace": listener.extension}))
            assert listener.names[-1] == name
            counts = made._transport._engine.pool.counts()
            assert counts["busy"] == 0
            assert (await settled(made.get(server.url))).status_code == 200

    with Server(serve) as server:
        world.run(case)


def test_the_wrong_kind_of_function(world: World) -> None:
    wrong = Listener(None if world.waits else World("asyncio"))

    async def case() -> None:
        async with world.client() as made:
            with pytest.raises(TypeError, match="trace"):
                await settled(made.get(server.url, extensions={"trace": wrong.extension}))

    with Server(serve) as server:
        world.run(case)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancellation_is_told(backend: str) -> None:
    names: list[str] = []

    async def case() -> None:
        with anyio.CancelScope() as scope:

            async def listener(name: str, info: Mapping[str, Any]) -> None:
                names.append(name)
                if name == "http11.receive_response_headers.started":
                    scope.cancel()

            async with outlast.async_client(timeout=BOUND) as made:
                await made.get(server.url, extensions={"trace": listener})
        assert scope.cancelled_caught

    with Server(mute) as server:
        World(backend).run(case)
    assert names == [*DIALLED, *SENT, *LOST]


def test_nobody_listens(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: Any, **__: Any) -> None:
        raise AssertionError("there is nobody to tell")

    for name in ("Trace", "Telling", "run_traced"):
        monkeypatch.setattr(f"outlast.http.shell.{name}", made)

    async def case() -> None:
        async with world.client() as client:
            await settled(client.get(server.url))
            await settled(client.get(server.url, extensions={"trace": None}))

    with Server(serve) as server:
        world.run(case)
