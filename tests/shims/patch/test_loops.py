"""asyncio under the patch: `sock_connect`, `create_connection`, and streams over them."""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

import outlast
from outlast.shims.patch import Installed, install
from tests.net.pairs import PATIENCE, keepalive
from tests.shims.patch.conftest import LOOPBACK, POLICY, Silent, settle, watched

T = TypeVar("T")

SHORT = 0.25  # seconds; a limit that is meant to be reached
SOL = socket.SOL_SOCKET


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """In a loop of its own, with a bound."""

    async def bounded() -> T:
        return await asyncio.wait_for(main(), PATIENCE)

    return asyncio.run(bounded(), debug=True)


async def connected(address: Any) -> socket.socket:
    """A socket that the loop has connected."""
    sock = socket.socket()
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def test_a_dial_that_is_answered_at_once(installed: Installed, live: socket.socket) -> None:
    with run(lambda: connected(live.getsockname())) as sock:
        assert sock.getpeername() == live.getsockname()
        assert keepalive(sock)[0] == 1
        settle(functools.partial(watched, sock))
        assert outlast.report_of(sock) is None
        live.accept()[0].close()


def test_a_silent_dial_is_overtaken(installed: Installed, late: Silent) -> None:
    with run(lambda: connected(late.address)) as sock:
        assert sock.getpeername() == late.address
        assert sock.gettimeout() == 0
        assert "lost the race" in str(outlast.report_of(sock))
        late.accept().close()


def test_streams_over_what_took_its_place(installed: Installed, late: Silent) -> None:
    async def main() -> bytes:
        reader, writer = await asyncio.open_connection(*late.address)
        far = late.accept()
        with far:
            writer.write(b"hello")
            await writer.drain()
            assert far.recv(10) == b"hello"
            far.sendall(b"world")
            found = await reader.readexactly(5)
        writer.close()
        await writer.wait_closed()
        return found

    assert run(main) == b"world"


def test_a_refusal_is_followed_and_then_told(
    installed: Installed, refusing: tuple[str, int]
) -> None:
    with pytest.raises(ConnectionRefusedError) as caught:
        run(lambda: connected(refusing))
    assert caught.value.errno == errno.ECONNREFUSED
    report = outlast.report_of(caught.value)
    assert report is not None
    assert len([event for event in report if event.errno == errno.ECONNREFUSED]) > 1


def test_silence_ends_at_the_policys_limit(silent: Silent) -> None:
    install(only=LOOPBACK, policy=POLICY.merged({"connect_timeout": SHORT}))
    begun = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        run(lambda: connected(silent.address))
    assert caught.value.errno == errno.ETIMEDOUT
    assert SHORT <= time.monotonic() - begun < PATIENCE / 2


def test_a_cancellation_ends_it_at_once(installed: Installed, silent: Silent) -> None:
    async def main() -> float:
        begun = time.monotonic()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(connected(silent.address), SHORT)
        return time.monotonic() - begun

    assert SHORT <= run(main) < PATIENCE / 2


def test_what_is_out_of_scope_is_the_loops_own(live: socket.socket) -> None:
    install(only=["10.0.0.0/8"], policy=POLICY)
    with run(lambda: connected(live.getsockname())) as sock:
        assert keepalive(sock)[0] == 0
        live.accept()[0].close()


def test_a_blocking_socket_is_refused_as_before(installed: Installed, live: socket.socket) -> None:
    async def main() -> None:
        with socket.socket() as sock:
            await asyncio.get_running_loop().sock_connect(sock, live.getsockname())

    with pytest.raises(ValueError, match="non-blocking"):
        run(main)


def test_the_hook_is_put_and_taken_back(installed: Installed) -> None:
    from asyncio.selector_events import BaseSelectorEventLoop as Loop

    ours = Loop.sock_connect
    installed.__exit__(None, None, None)
    assert Loop.sock_connect is not ours
    assert Loop.sock_connect is ours.__wrapped__  # type: ignore[attr-defined]  # functools.wraps
