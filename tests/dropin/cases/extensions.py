"""What callers and libraries reach beside HTTP: trace, network_stream, Unix sockets, retries."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.dropin.authority import good, speaking, trusting
from tests.dropin.h2_talk import echo_h2
from tests.dropin.nginx import NginxStage
from tests.dropin.proxies import ProxiedStage, http_proxy, proxy_url
from tests.dropin.sides import AsyncSide, Side, Upload
from tests.dropin.stage import BOUND, Handler, Peer, Stage, closing, echo, raw
from tests.dropin.table import add, case

H = b"HTTP/1.1 200 OK\r\n"


async def settled(value: Any) -> Any:
    """What a function of either world returns."""
    return await value if inspect.isawaitable(value) else value


# -- trace -----------------------------------------------------------------------------------


def listener(side: Side, heard: list[str], fails_at: str = "") -> Any:
    """Notes every event and the names of what it is told."""

    def hear(event: str, info: dict[str, Any]) -> None:
        if event.startswith("http2.receive_remote_settings"):
            return  # see `trace_of_settings`
        exception = info.get("exception")
        known = type(exception).__name__ if exception else ",".join(sorted(info))
        heard.append(f"{event} ({known})")
        if event == fails_at:
            raise LookupError("mine")

    async def later(event: str, info: dict[str, Any]) -> None:
        hear(event, info)

    return later if isinstance(side, AsyncSide) else hear


async def traced(side: Side, method: str, path: str, fails_at: str = "", **more: Any) -> None:
    heard: list[str] = []
    extensions = {"trace": listener(side, heard, fails_at)}
    await side.request(method, path, label=path, extensions=extensions, **more)
    side.note(f"{path} heard", heard, "heard")


async def trace(side: Side) -> None:
    await traced(side, "GET", "/1")
    await traced(side, "POST", "/2", content=b"payload")
    await traced(side, "POST", "/3", content=Upload(b"one", b"two"))


async def trace_once(side: Side) -> None:
    await traced(side, "POST", "/1", content=b"payload")


TRACED: dict[str, tuple[Handler, Any, dict[str, Any]]] = {
    "http": (echo, None, {}),
    "https": (echo, good, {}),
    "http2": (echo_h2, None, {"http1": False, "http2": True}),
    "http2_over_tls": (echo_h2, lambda: speaking("h2"), {"http2": True}),
    "closing": (raw(H + b"connection: close\r\ncontent-length: 2\r\n\r\nok"), None, {}),
}
for _name, (_handler, _tls, _client) in TRACED.items():
    add(f"extensions-trace_{_name}", trace, _handler, tls=_tls, client=_client)


async def trace_of_settings(side: Side) -> None:
    """Whether the server's first word over HTTP/2 is told."""
    heard: list[str] = []

    def hear(event: str, _: object) -> None:
        heard.append(event)

    async def later(event: str, _: object) -> None:
        heard.append(event)

    told = later if isinstance(side, AsyncSide) else hear
    await side.request("GET", "/1", extensions={"trace": told})
    side.note("told", "http2.receive_remote_settings.complete" in heard)


add(
    "extensions-trace_of_settings",
    trace_of_settings,
    echo_h2,
    client={"http1": False, "http2": True},
)


@contextmanager
def beyond_a_proxy() -> Iterator[Stage]:
    with ProxiedStage(http_proxy(), echo, context=good()) as stage:
        yield stage


@case(open=beyond_a_proxy, client=lambda stage: {"proxy": proxy_url(stage)})
async def trace_through_a_tunnel(side: Side) -> None:
    await traced(side, "GET", "/1")


BROKEN: dict[str, Handler] = {
    "nothing": closing(b""),
    "garbage": closing(b"garbage\r\n\r\n"),
    "half": closing(H + b"content-length: 10\r\n\r\nhalf"),
}
for _name, _handler in BROKEN.items():
    add(f"extensions-trace_of_{_name}", trace_once, _handler)


@case(echo)
async def trace_of_nobody(side: Side) -> None:
    await traced(side, "GET", "http://127.0.0.9:1/")


@case(echo, tls=good, client={"verify": True})
async def trace_of_distrust(side: Side) -> None:
    await traced(side, "GET", "/1")


@case(raw(H + b"content-length: 10\r\n\r\nhalf"))
async def trace_of_a_timeout(side: Side) -> None:
    await traced(side, "POST", "/1", content=b"x", timeout=httpx.Timeout(BOUND, read=0.1))


@case(echo)
async def a_listener_that_fails(side: Side) -> None:
    for number, event in enumerate(
        ("connection.connect_tcp.started", "http11.send_request_headers.complete")
    ):
        await traced(side, "GET", f"/{number}", fails_at=event)
    await side.get("/next")


# -- the stream below ------------------------------------------------------------------------

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: echo\r\nconnection: upgrade\r\n\r\n"


def switches(peer: Peer) -> None:
    """Becomes a server that sends bytes back."""
    peer.request()
    peer.send(SWITCH + b"first ")
    while peer.more():
        peer.send(peer.buffer)
        peer.buffer = b""


def tunnels(peer: Peer) -> None:
    """Grants a CONNECT, and is what lies behind it, too."""
    peer.request()
    peer.send(H + b"\r\n")
    while peer.more():
        peer.send(peer.buffer)
        peer.buffer = b""


def secures(peer: Peer) -> None:
    """Speaks TLS when it has granted an upgrade."""
    peer.request()
    peer.send(SWITCH)
    peer.sock = peer.act.socks[peer.number] = good().wrap_socket(peer.sock, server_side=True)
    while peer.more():
        peer.send(peer.buffer)
        peer.buffer = b""


async def all_of(stream: Any, size: int) -> bytes:
    """So many bytes, in whatever pieces they come."""
    got = b""
    while len(got) < size and (more := await settled(stream.read(1000, timeout=BOUND))):
        got += more
    return got


async def ended(stream: Any) -> None:
    await settled(stream.aclose() if hasattr(stream, "aclose") else stream.close())


async def talk(side: Side, method: str, first: bytes, **more: Any) -> None:
    async with side.stream(method, side.url("/1"), **more) as response:
        side.note("status", (response.status_code, response.http_version))
        stream = response.extensions["network_stream"]
        side.note("greeting", await all_of(stream, len(first)))
        await settled(stream.write(b"hello", timeout=BOUND))
        side.note("echo", await all_of(stream, 5))
        await ended(stream)
    await side.post("/2")


UPGRADE = {"Upgrade": "echo", "Connection": "upgrade"}


@case(switches, echo)
async def upgraded(side: Side) -> None:
    await talk(side, "GET", b"first ", headers=UPGRADE)


@case(switches, echo, tls=good)
async def upgraded_over_tls(side: Side) -> None:
    await talk(side, "GET", b"first ", headers=UPGRADE)


@case(tunnels, echo)
async def connect_granted(side: Side) -> None:
    await talk(side, "CONNECT", b"", extensions={"target": b"shop.test:80"})


@case(secures, echo)
async def upgraded_to_tls(side: Side) -> None:
    async with side.stream("GET", side.url("/1"), headers=UPGRADE) as response:
        stream = response.extensions["network_stream"]
        secure = await settled(stream.start_tls(trusting(), "127.0.0.1", timeout=BOUND))
        side.note("secure", secure.get_extra_info("ssl_object") is not None)
        await settled(secure.write(b"hello", timeout=BOUND))
        side.note("echo", await all_of(secure, 5))
        await ended(secure)


@case(switches, echo)
async def upgraded_and_left(side: Side) -> None:
    """The response is closed; nobody has used the stream."""
    await side.unread("GET", "/1", headers=UPGRADE)
    await side.post("/2")


async def told(side: Side) -> None:
    """What can be asked of the connection below any response."""
    async with side.stream("GET", side.url("/1")) as response:
        stream = response.extensions["network_stream"]
        addresses = [stream.get_extra_info(name) for name in ("client_addr", "server_addr")]
        side.note("addresses", [address[0] for address in addresses])
        side.note("server", addresses[1][1] == side.stage.port)
        side.note("tls", stream.get_extra_info("ssl_object") is not None)
        side.note("socket", stream.get_extra_info("socket").fileno() > 0)
        side.note("unknown", stream.get_extra_info("unknown"))
        side.note("body", b"".join([piece async for piece in side.iterate(response)]))
    await side.get("/2")


add("extensions-told", told, echo)
add("extensions-told_over_tls", told, echo, tls=good)

# -- Unix sockets and retries ----------------------------------------------------------------


def on_a_path(*handlers: Handler, tls: Any = None) -> Any:
    @contextmanager
    def opened() -> Iterator[Stage]:
        with tempfile.TemporaryDirectory() as home:
            path = str(Path(home) / "s")
            with Stage(*handlers, host=path, context=tls() if tls else None) as stage:
                yield stage

    return opened


def by_path(stage: Stage) -> dict[str, Any]:
    return {"uds": stage.path}


async def get_and_post(side: Side) -> None:
    await side.get("/1")
    await side.post("/2", Upload(b"one", b"two"))
    await side.request("GET", f"{side.stage.scheme}://shop.test/3", headers={"Host": "other.test"})


add("extensions-unix_socket", get_and_post, open=on_a_path(echo), client=by_path)
add(
    "extensions-unix_socket_and_tls",
    get_and_post,
    open=on_a_path(echo, tls=lambda: speaking("http/1.1")),
    client=lambda stage: {**by_path(stage), "verify": False},
)
add(
    "extensions-unix_socket_missing",
    get_and_post,
    echo,
    client={"uds": "/nowhere/at/all"},
    leaks=True,
)


def by_path_of_nginx(stage: Stage) -> dict[str, Any]:
    assert isinstance(stage, NginxStage)
    return {"uds": str(stage.nginx.home / "plain.sock")}


async def files(side: Side) -> None:
    await side.get("/hello.txt")
    await side.post("/up/2")
    await side.get("/large.txt")


add("extensions-unix_socket_of_nginx", files, echo, nginx="plain", client=by_path_of_nginx)


async def nobody(side: Side) -> None:
    await side.get("http://127.0.0.9:1/")
    await side.get("/1")


for _count in (0, 1):
    add(f"extensions-retries_{_count}", nobody, echo, client={"retries": _count})
