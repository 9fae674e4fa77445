"""`outlast.tune`: options of an open socket, and what really holds."""

from __future__ import annotations

import errno
import socket
import ssl
import sys
from typing import Any

import pytest
from anyio.abc import SocketStream

import outlast
from outlast import Keepalive
from outlast.net import options
from tests.net.pairs import keepalive, pair, user_timeout

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="option numbers of Linux")
TCP = socket.IPPROTO_TCP
RTO_MAX = 44


def rto_max(sock: socket.socket) -> float | None:
    try:
        return sock.getsockopt(TCP, RTO_MAX) / 1000
    except OSError:  # the kernel has none
        return None


def test_without_arguments_a_dead_peer_is_noticed_and_a_live_one_never_killed() -> None:
    with pair() as (near, _):
        nodelay = bool(near.getsockopt(TCP, socket.TCP_NODELAY))
        held = outlast.tune(near)
        assert keepalive(near) == (1, 5, 1, 6)
        assert (held.keepalive, held.user_timeout) == (Keepalive(5, 1, 6), 0.0)
        assert user_timeout(near) == 0
        assert held.rto_max == rto_max(near)
        assert held.rto_max in (2.0, None)
        assert held.nodelay is nodelay
        assert bool(held.notes) is (held.rto_max is None)


@pytest.mark.parametrize("source", ["socket", "number"])
def test_everything_that_can_be_set(source: str) -> None:
    with pair() as (near, far):
        given = near if source == "socket" else near.fileno()
        held = outlast.tune(
            given, keepalive=(7, 2, 5), user_timeout=2.5, rto_max=None, nodelay=True
        )
        assert (held.keepalive, held.user_timeout, held.nodelay) == (Keepalive(7, 2, 5), 2.5, True)
        assert keepalive(near) == (1, 7, 2, 5)
        assert user_timeout(near) == 2500
        held = outlast.tune(given, keepalive=False, user_timeout=0, rto_max=None, nodelay=False)
        assert (held.keepalive, held.user_timeout, held.nodelay) == (None, 0.0, False)
        near.send(b"still open")
        assert far.recv(100) == b"still open"


def test_what_is_none_stays_as_it_is() -> None:
    with pair() as (near, _):
        before = outlast.tune(near, keepalive=Keepalive(9, 9, 9), user_timeout=9, nodelay=True)
        assert outlast.tune(near, keepalive=None, rto_max=None) == before


@pytest.mark.anyio
async def test_streams() -> None:
    with pair() as (near, _):
        near.setblocking(False)
        async with await SocketStream.from_socket(near) as stream:
            assert outlast.tune(stream, user_timeout=1.5).user_timeout == 1.5


def test_a_tls_socket() -> None:
    with pair() as (near, _):
        context = ssl.create_default_context()
        with context.wrap_socket(near, server_hostname="x", do_handshake_on_connect=False) as tls:
            assert outlast.tune(tls, user_timeout=1.5).user_timeout == 1.5


def test_what_does_not_take_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(options.NUMBERS, "rto_max", None)
    with pair() as (near, _):
        held = outlast.tune(near)
        assert (held.rto_max, held.notes) == (None, ("RTO cap: this platform has none",))
        monkeypatch.setitem(options.NUMBERS, "rto_max", 250)
        held = outlast.tune(near)
        assert held.rto_max is None
        assert held.notes == ("RTO cap 2000: refused (Protocol not available)",)
        monkeypatch.setitem(options.NUMBERS, "ut", None)
        held = outlast.tune(near, user_timeout=3, rto_max=None)
        assert (held.user_timeout, held.notes) == (0.0, ("user timeout: this platform has none",))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keepalive": 5}, "keepalive: 5 is not"),
        ({"keepalive": (5, 1)}, "keepalive: "),
        ({"keepalive": (0, 1, 6)}, "keepalive idle: 0"),
        ({"user_timeout": -1}, "user_timeout: -1"),
        ({"user_timeout": "11s"}, "user_timeout: '11s'"),
        ({"user_timeout": True}, "user_timeout: True"),
        ({"user_timeout": float("inf")}, "user_timeout: inf"),
        ({"rto_max": 0.5}, "rto_max: 0.5 is no number of seconds from 1 to 120"),
        ({"rto_max": 121}, "rto_max: 121"),
    ],
)
def test_what_is_malformed_is_named_and_nothing_is_set(
    arguments: dict[str, Any], message: str
) -> None:
    with pair() as (near, _):
        before = keepalive(near)
        with pytest.raises(ValueError, match="^" + message.replace("(", r"\(")):
            outlast.tune(near, **{"nodelay": True, **arguments})
        assert keepalive(near) == before


def test_what_is_no_tcp_socket() -> None:
    one, other = socket.socketpair()
    with one, other:
        with pytest.raises(ValueError, match="is no TCP socket"):
            outlast.tune(one)
        assert one.fileno() >= 0
    with pytest.raises(ValueError, match="has no socket"):
        outlast.tune("a name")  # type: ignore[arg-type]  # that is the test
    with pytest.raises(OSError) as failure:
        outlast.tune(one)
    assert failure.value.errno == errno.EBADF
