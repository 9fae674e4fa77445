"""Timeouts, the pool's limits, names and addresses: what bounds a request, and where it goes."""

from __future__ import annotations

import errno
import select
import socket
from typing import Any

import httpx

from tests.dropin.authority import good
from tests.dropin.sides import Side, Upload
from tests.dropin.stage import BOUND, Handler, Line, Peer, Stage, echo
from tests.dropin.table import add, case

SHORT = 0.1  # seconds; a timeout that is to come
CONTENT = b"x" * 8_000_000
HERE = ("127.0.0.1",)

# -- timeouts --------------------------------------------------------------------------------


def mute(peer: Peer) -> None:
    """Takes requests and never answers."""
    peer.request()
    peer.wait()


def half(peer: Peer) -> None:
    """Answers with half a body, before the request's own body ends."""
    peer.head()
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
    peer.act.signal.set()
    peer.more()
    peer.wait()


def half_a_head(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-")
    peer.wait()


def deaf(peer: Peer) -> None:
    """Reads a head, and no more."""
    peer.head()
    peer.wait()


def silent(peer: Peer) -> None:
    """Reads nothing at all: a TLS handshake never ends."""
    peer.wait()


async def timed_get(side: Side) -> None:
    await side.get("/1")
    await side.pieces("POST", "/2", content=b"payload")


async def timed_body(side: Side) -> None:
    """What there is of the response has come before the client begins to wait for it."""
    for path in ("/1", "/2"):
        side.act.signal.clear()
        upload = Upload(b"payload", lambda: side.act.signal.wait(BOUND), b"more")
        await side.pieces("POST", path, content=upload)


async def timed_upload(side: Side) -> None:
    await side.post("/1", CONTENT)
    await side.post("/2", Upload(CONTENT))


TIMED: dict[str, tuple[Handler, Any, Any]] = {
    "read": (mute, timed_get, httpx.Timeout(BOUND, read=SHORT)),
    "read_in_the_head": (half_a_head, timed_get, httpx.Timeout(BOUND, read=SHORT)),
    "read_in_the_body": (half, timed_body, httpx.Timeout(BOUND, read=SHORT)),
    "write": (deaf, timed_upload, httpx.Timeout(BOUND, write=SHORT)),
}
for _name, (_handler, _script, _timeout) in TIMED.items():
    _more = {"cut": True, "stage": {"receive_buffer": 16_384}}
    add(f"limits-{_name}_timeout", _script, _handler, client={"timeout": _timeout}, **_more)


@case(mute)
async def timeouts_of_calls(side: Side) -> None:
    await side.get("/1", timeout=httpx.Timeout(BOUND, read=SHORT))
    await side.get("/2", timeout=httpx.Timeout(None, read=SHORT))
    await side.get("/3", timeout=(BOUND, SHORT, BOUND, BOUND))


@case(echo)
async def no_timeouts(side: Side) -> None:
    await side.get("/1", timeout=None)
    await side.get("/2", extensions={"timeout": {}})
    await side.get("/3", extensions={"timeout": {"read": 5.0}})


async def over_https(side: Side) -> None:
    await side.get(side.stage.url.replace("http:", "https:") + "/1")


add(
    "limits-handshake_timeout",
    over_https,
    silent,
    client={"timeout": httpx.Timeout(BOUND, connect=SHORT)},
)


class Full(Stage):
    """A listener whose queue is full: connects to it are never answered."""

    def __enter__(self) -> Stage:
        self._listener.listen(0)
        self._waiting = [self._begun() for _ in range(4)]
        return self

    def _begun(self) -> socket.socket:
        sock = socket.socket()
        sock.setblocking(False)
        assert sock.connect_ex((self._host, self.port)) in (0, errno.EINPROGRESS)
        select.select([], [sock], [], 0)
        return sock

    def __exit__(self, *_: object) -> None:
        for sock in (*self._waiting, self._listener, *self._kept_free):
            sock.close()

    def end(self) -> list[Line]:
        """Nobody has got through."""
        return []


@case(open=Full, client={"timeout": httpx.Timeout(BOUND, connect=SHORT)})
async def connect_timeout(side: Side) -> None:
    await side.get("/1")
    await side.post("/2")


# -- the pool --------------------------------------------------------------------------------


def in_hand(peer: Peer) -> None:
    """Answers with the head and half of the body; the rest comes when the gate opens."""
    while peer.request() is not None:
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf")
        peer.wait()
        peer.send(b"half")


@case(in_hand, client={"limits": httpx.Limits(max_connections=1)})
async def pool_timeout(side: Side) -> None:
    async with side.stream("GET", side.url("/held")):
        await side.get("/late", timeout=httpx.Timeout(BOUND, pool=SHORT))
        side.act.gate.set()
    await side.get("/next")


def side_by_side(count: int) -> Any:
    async def script(side: Side) -> None:
        def one(number: int) -> Any:
            return lambda: side.post(f"/{number}", b"x" * 1000)

        await side.together(*(one(number) for number in range(count)))
        side.note("connections", len(side.act.lines))

    return script


def all_at_once(count: int) -> Handler:
    """Answers when so many connections are there."""

    def handler(peer: Peer) -> None:
        while (seen := peer.request()) is not None:
            if sum(bool(line.requests) for line in peer.act.lines) >= count:
                peer.act.gate.set()
            peer.wait()
            peer.answer(200, seen[1])

    return handler


for _name, _limits, _wide in (
    ("all_kept", httpx.Limits(), 8),
    ("some_kept", httpx.Limits(max_keepalive_connections=3), 8),
    ("none_kept", httpx.Limits(max_keepalive_connections=0), 8),
    ("three_at_most", httpx.Limits(max_connections=3), 3),
    ("one_at_most", httpx.Limits(max_connections=1), 1),
):
    add(
        f"limits-{_name}",
        side_by_side(8),
        all_at_once(_wide),
        client={"limits": _limits},
        unordered=True,
        spread=True,
    )


async def three_gets(side: Side) -> None:
    for number in range(3):
        await side.get(f"/{number}")


for _name, _limits, _kept in (
    ("no_keepalive", httpx.Limits(max_keepalive_connections=0), True),
    ("expired_at_once", httpx.Limits(keepalive_expiry=0), False),
    ("never_expired", httpx.Limits(keepalive_expiry=None, max_connections=None), True),
):
    add(f"limits-{_name}", three_gets, echo, client={"limits": _limits}, kept=_kept)


async def origins(side: Side) -> None:
    """Three origins on one listener, in turn."""
    for path in ("/1", "/2"):
        for name in ("a.test", "b.test", "c.test"):
            await side.get(f"http://{name}:{side.stage.port}{path}")


NAMES = dict.fromkeys(("a.test", "b.test", "c.test"), HERE)
add("limits-origins_apart", origins, echo, names=NAMES)
for _count in (1, 2):
    add(
        f"limits-origins_beyond_{_count}",
        origins,
        echo,
        names=NAMES,
        client={"limits": httpx.Limits(max_connections=_count)},
    )


@case(all_at_once(2), spread=True)
async def the_one_that_is_used_next(side: Side) -> None:
    """Two idle connections: which one serves?"""

    async def get(path: str) -> None:
        await side.get(path)

    await side.together(lambda: get("/a"), lambda: get("/b"))
    await side.get("/c")
    await side.get("/d")
    side.note("connections", len(side.act.lines))


# -- names and addresses ---------------------------------------------------------------------


async def by_name(side: Side) -> None:
    await side.get(f"http://shop.test:{side.stage.port}/1")
    await side.post(f"http://shop.test:{side.stage.port}/2")


ADDRESSES = {
    "one_address": HERE,
    "no_address": (),
    "first_refuses": ("127.0.0.2", "127.0.0.1"),
    "last_refuses": ("127.0.0.1", "127.0.0.2"),
    "all_refuse": ("127.0.0.2", "127.0.0.3"),
    "version_6_refuses": ("::1", "127.0.0.1"),
}
for _name, _addresses in ADDRESSES.items():
    # Several addresses are several endpoints, and outlast goes to one after the other.
    one = len(_addresses) < 2
    names = {"shop.test": _addresses}
    add(f"limits-{_name}", by_name, echo, names=names, spread=not one, kept=one)


@case(echo, names={"xn--bcher-kva.test": HERE, "xn--fa-hia.test": HERE})
async def international_names(side: Side) -> None:
    port = side.stage.port
    for number, host in enumerate(("bücher.test", "BÜCHER.test", "xn--bcher-kva.test", "faß.test")):
        await side.get(f"http://{host}:{port}/{number}")


async def at_each(side: Side, *hosts: str) -> None:
    for host in hosts:
        await side.request("GET", f"http://{host}:{side.stage.port}/x", label=host)


@case(echo, names={"localhost": HERE})
async def odd_hosts(side: Side) -> None:
    await at_each(side, "-.test", "a_b.test", "a b.test", "%31.test", "0x7f.1", "2130706433")
    await at_each(side, "127.0.0.1.", "[::ffff:127.0.0.1]", "[::1%25lo]", "☃.test")
    await at_each(side, "xn--zzzzzz.test", "a\0b.test", "*", "localhost.")


@case(echo)
async def labels_that_cannot_be(side: Side) -> None:
    """The resolver's own encoding refuses them, before anything is asked."""
    await at_each(side, "a..test", "...", "a" * 64 + ".test")


def tells_where_from(peer: Peer) -> None:
    peer.line.said.append(str(peer.sock.getpeername()[0]))
    echo(peer)


@case(tells_where_from, client={"local_address": "127.0.0.7"})
async def local_address(side: Side) -> None:
    await side.get("/1")
    await side.get("/2")


@case(echo, client={"socket_options": [(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)]})
async def socket_options(side: Side) -> None:
    await side.post("/1", CONTENT[:200_000])


@case(echo, tls=good, client={"trust_env": False})
async def no_trust_in_the_environment(side: Side) -> None:
    await side.get("/1")
