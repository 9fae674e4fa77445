"""Somebody else's socket: found, followed, touched with care, and never kept open."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import socket
import sys
from typing import Any

import anyio
import pytest
import trio
from anyio.abc import SocketStream

from outlast.core.liveness import ESTABLISHED
from outlast.net.held import HeldSocket, HeldStream, descriptor_of
from outlast.net.options import NUMBERS, Keepalive
from tests.net.pairs import USER_TIMEOUT, keepalive, pair, user_timeout
from tests.net.tls_pair import MemoryStream

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO and option numbers")
TCP = socket.IPPROTO_TCP
HURRIED = Keepalive(1, 1, 6)


# --- finding it -------------------------------------------------------------------------------


def test_sockets_and_numbers() -> None:
    with pair() as (near, _):
        number = near.fileno()
        assert descriptor_of(near) == number
        assert descriptor_of(number) == number
        with near.makefile("rb") as file:
            assert descriptor_of(file) == number


@pytest.mark.anyio
async def test_anyio_streams() -> None:
    with pair() as (near, _):
        near.setblocking(False)
        number = near.fileno()
        async with await SocketStream.from_socket(near) as stream:
            assert descriptor_of(stream) == number
            held = HeldSocket(stream)
            assert held.state() is not None
        assert held.state() is None
        assert held.gone


def test_asyncio_and_trio_streams() -> None:
    async def by_asyncio() -> None:
        with pair() as (near, _):
            near.setblocking(False)
            number = near.fileno()
            _, writer = await asyncio.open_connection(sock=near)
            assert descriptor_of(writer) == number
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def by_trio() -> None:
        with pair() as (near, _):
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(near))
            assert descriptor_of(stream) == near.fileno()
            await stream.aclose()

    asyncio.run(by_asyncio())
    trio.run(by_trio)


def test_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed here")

    async def main() -> None:
        with pair() as (near, _):
            near.setblocking(False)
            async with await SocketStream.from_socket(near) as stream:
                held = HeldSocket(stream)
                held.limit(2.5)
                assert user_timeout(near) == 2500

    assert uvloop is not None
    anyio.run(main, backend="asyncio", backend_options={"use_uvloop": True})


@pytest.mark.parametrize("source", ["a name", None, object(), True, 3.5])
def test_what_has_no_socket(source: Any) -> None:
    with pytest.raises(ValueError, match="has no socket; give a socket"):
        HeldSocket(source)


def test_what_is_no_tcp_socket_or_not_connected() -> None:
    one, other = socket.socketpair()
    with one, other, pytest.raises(ValueError, match="is no TCP socket"):
        HeldSocket(one)
    with socket.socket(type=socket.SOCK_DGRAM) as udp, pytest.raises(ValueError, match="no TCP"):
        HeldSocket(udp)
    with socket.socket() as fresh, pytest.raises(OSError, match="not connected"):
        HeldSocket(fresh)
    with pytest.raises(OSError, match="Bad file descriptor"):
        HeldSocket(fresh)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_whom_it_is_connected_to(family: int) -> None:
    with pair(family) as (near, _):
        port = near.getpeername()[1]
        host = "127.0.0.1" if family == socket.AF_INET else "[::1]"
        assert HeldSocket(near).address == f"{host}:{port}"


# --- following it -----------------------------------------------------------------------------


def test_a_socket_that_is_closed_is_gone() -> None:
    with pair() as (near, _):
        held = HeldSocket(near)
        state = held.state()
        assert state is not None
        assert state.state == ESTABLISHED
        near.close()
        assert held.state() is None
        assert held.gone
        assert held.linked()
        assert held.keepalive is None
        held.set_keepalive(HURRIED)
        held.limit(11.0)
        held.end()


def test_a_socket_that_is_dropped_is_not_kept() -> None:
    with pair() as (near, far):
        dropped = [socket.socket(fileno=os.dup(near.fileno()))]
        near.close()
        held = HeldSocket(dropped[0])
        with pytest.warns(ResourceWarning):
            dropped.clear()
        assert far.recv(1) == b""
        assert held.state() is None


@pytest.mark.parametrize("by", ["object", "number"])
def test_a_descriptor_that_another_object_has_taken_over_is_followed(by: str) -> None:
    """As ssl does when it wraps a socket."""
    with pair() as (near, far):
        held = HeldSocket(near if by == "object" else near.fileno())
        key = held.key
        with socket.socket(fileno=near.detach()) as taken:
            assert held.state() is not None
            held.limit(11.0)
            assert user_timeout(taken) == 11_000
            assert HeldSocket(taken).key == key
        assert held.state() is None
        assert far.recv(1) == b"", "the follower held nothing open"


def test_a_number_that_has_become_another_socket_is_left_alone() -> None:
    with pair() as (near, _), pair() as (other, _):
        held = HeldSocket(near)
        number = near.fileno()
        near.close()
        os.dup2(other.fileno(), number)
        try:
            assert held.state() is None
            assert held.gone
            held.limit(11.0)
            assert user_timeout(other) == 0
        finally:
            os.close(number)
    with pair() as (near, _), open(os.devnull, "rb") as file:  # nor anything else
        held = HeldSocket(near)
        number = near.detach()
        os.dup2(file.fileno(), number)
        try:
            assert held.state() is None
        finally:
            os.close(number)


# --- touching it ------------------------------------------------------------------------------


def test_a_user_timeout_comes_and_goes() -> None:
    with pair() as (near, _):
        held = HeldSocket(near)
        for seconds in (11.0, 0.0, 0.5, 0.5, 0.0):
            held.limit(seconds)
            assert user_timeout(near) == seconds * 1000


def test_a_user_timeout_that_the_owner_has_set_stays() -> None:
    with pair() as (near, _):
        near.setsockopt(TCP, USER_TIMEOUT, 30_000)
        held = HeldSocket(near)
        for seconds in (11.0, 0.0):
            held.limit(seconds)
            assert user_timeout(near) == 30_000
    with pair() as (near, _):
        held = HeldSocket(near)
        held.limit(11.0)
        for theirs in (30_000, 0):
            near.setsockopt(TCP, USER_TIMEOUT, theirs)
            for seconds in (0.0, 11.0, 0.0):
                held.limit(seconds)
                assert user_timeout(near) == theirs


def test_keepalive_is_hurried_and_put_back() -> None:
    with pair() as (near, _):
        HeldSocket(near).set_keepalive(HURRIED)
        assert keepalive(near)[0] == 0, "it is off, and stays so"
        assert HeldSocket(near).keepalive is None
        held = HeldSocket(near)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for number, value in ((4, 9), (5, 3), (6, 4)):
            near.setsockopt(TCP, number, value)
        planned = Keepalive(9, 3, 4)
        for _ in range(2):
            assert held.keepalive == planned
            held.set_keepalive(Keepalive(1, 1, 4))
            assert keepalive(near) == (1, 1, 1, 4)
            assert held.keepalive == planned
            held.set_keepalive(planned)
            assert keepalive(near) == (1, 9, 3, 4)


def test_keepalive_that_the_owner_has_changed_meanwhile_stays() -> None:
    with pair() as (near, _):
        near.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        held = HeldSocket(near)
        before = held.keepalive or HURRIED
        held.set_keepalive(HURRIED)
        near.setsockopt(TCP, 4, 77)
        held.set_keepalive(before)
        assert keepalive(near)[1] == 77
        assert HeldSocket(near).keepalive == held.keepalive
        assert before.idle > 77


def test_it_lives_on_this_machine() -> None:
    with pair() as (near, _):
        assert HeldSocket(near).linked()


# --- a simulated network's ---------------------------------------------------------------------


def test_a_stream_of_a_simulated_network() -> None:
    stream = MemoryStream()
    stream.fileno = lambda: 40_000  # type: ignore[method-assign]  # a number of its own
    held = HeldStream(stream)
    assert (held.key, held.address) == (id(stream), "10.0.0.1:443")
    assert held.state() == stream.state()
    assert held.keepalive == Keepalive()
    held.set_keepalive(HURRIED)
    assert stream.keepalive == HURRIED
    held.limit(11.0)
    assert stream.user_timeout == 11.0
    for stream.link in (False, True):
        assert held.linked() is stream.link
    held.end()
    assert stream.trail == ["aborted"]
    assert not held.gone


@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_a_simulated_stream_that_is_gone(how: str) -> None:
    streams = [MemoryStream()]
    held = HeldStream(streams[0])
    if how == "closed":
        streams[0].fileno = lambda: -1  # type: ignore[method-assign]  # as streams say it
    else:
        streams.clear()
        gc.collect()
    assert held.state() is None
    assert held.gone
    assert held.linked()
    held.set_keepalive(HURRIED)
    held.limit(11.0)
    held.end()


def test_a_descriptor_that_fails_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    with pair() as (near, _):
        held = HeldSocket(near.fileno())
        with monkeypatch.context() as patch:
            patch.setitem(NUMBERS, "ut", None)
            held.limit(11.0)
        assert user_timeout(near) == 0, "a platform without the option"
        with monkeypatch.context() as patch:
            patch.setattr("outlast.net.held.os.fstat", _refuse)
            state = held.state()
        assert state is None


def _refuse(number: int) -> os.stat_result:
    raise OSError(errno.EBADF, "Bad file descriptor")
