"""Non-blocking sockets under the patch: whoever polls meets the winner under the same number."""

from __future__ import annotations

import errno
import functools
import select
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterator

import pytest
import trio

import outlast
from outlast.net.kernel import kernel
from outlast.net.seam import Wait
from outlast.shims.patch import Installed, install
from tests.net.pairs import PATIENCE, at, keepalive, user_timeout
from tests.shims.patch.conftest import LOOPBACK, POLICY, Silent, settle, watched

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets' cookies are Linux's")

SOL = socket.SOL_SOCKET
SHORT = 0.3  # seconds; a limit that is meant to be reached
MS = PATIENCE * 1000


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    """A non-blocking one."""
    with socket.socket() as made:
        made.setblocking(False)
        yield made


def begin(sock: socket.socket, address: object) -> None:
    """Connect, as a program does that polls."""
    assert sock.connect_ex(address) == errno.EINPROGRESS  # type: ignore[arg-type]  # an address


def talk(sock: socket.socket, far: socket.socket) -> None:
    """A word in either direction."""
    sock.setblocking(True)
    sock.settimeout(PATIENCE)
    sock.sendall(b"hello")
    assert far.recv(10) == b"hello"
    far.sendall(b"world")
    assert sock.recv(10) == b"world"


def by_poll(number: int) -> None:
    poller = select.poll()
    poller.register(number, select.POLLOUT)
    assert poller.poll(MS)


def by_select(number: int) -> None:
    assert select.select([], [number], [number], PATIENCE)[1:] != ([], [])


def by_epoll(number: int) -> None:
    with select.epoll() as poller:
        poller.register(number, select.EPOLLOUT)
        assert [found for found, _ in poller.poll(PATIENCE)] == [number]
        poller.unregister(number)


def by_edge(number: int) -> None:
    with select.epoll() as poller:
        poller.register(number, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        assert [found for found, _ in poller.poll(PATIENCE)] == [number]
        poller.modify(number, select.EPOLLIN)


def by_one_shot(number: int) -> None:
    with select.epoll() as poller:
        poller.register(number, select.EPOLLOUT | select.EPOLLONESHOT)
        assert [found for found, _ in poller.poll(PATIENCE)] == [number]
        assert poller.poll(0) == []
        poller.modify(number, select.EPOLLOUT | select.EPOLLONESHOT)
        assert poller.poll(PATIENCE)


def by_selectors(number: int) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(number, selectors.EVENT_WRITE, "data")
        ((key, mask),) = selector.select(PATIENCE)
        assert (key.fd, key.data, mask) == (number, "data", selectors.EVENT_WRITE)
        selector.unregister(number)


WAYS = [by_poll, by_select, by_epoll, by_edge, by_one_shot, by_selectors]


@pytest.mark.parametrize("wait", WAYS)
def test_whoever_polls_meets_the_winner(
    installed: Installed, late: Silent, sock: socket.socket, wait: Callable[[int], None]
) -> None:
    number = sock.fileno()
    begin(sock, late.address)
    wait(number)
    assert sock.fileno() == number
    assert sock.getsockopt(SOL, socket.SO_ERROR) == 0
    assert sock.getpeername() == late.address
    assert sock.gettimeout() == 0
    assert keepalive(sock) == (1, 5, 1, 6)
    assert user_timeout(sock) in (0, 11_000)
    with late.accept() as far:
        talk(sock, far)
    settle(lambda: "lost the race" in str(outlast.report_of(sock)))


@pytest.mark.parametrize("wait", WAYS)
def test_an_answer_at_once_is_the_programs_own(
    installed: Installed, live: socket.socket, sock: socket.socket, wait: Callable[[int], None]
) -> None:
    begin(sock, live.getsockname())
    wait(sock.fileno())
    assert sock.getsockopt(SOL, socket.SO_ERROR) == 0
    far, _ = live.accept()
    with far:
        talk(sock, far)
    assert outlast.report_of(sock) is None


def test_connect_says_under_way(installed: Installed, late: Silent, sock: socket.socket) -> None:
    with pytest.raises(BlockingIOError) as caught:
        sock.connect(late.address)
    assert caught.value.errno == errno.EINPROGRESS
    assert sock.connect_ex(late.address) == errno.EALREADY
    by_poll(sock.fileno())
    assert sock.connect_ex(late.address) == 0
    assert sock.connect_ex(late.address) == errno.EISCONN
    late.accept().close()


def test_a_refusal_is_heard_by_the_programs_poll(
    installed: Installed, refusing: tuple[str, int], sock: socket.socket
) -> None:
    begin(sock, refusing)
    by_poll(sock.fileno())
    assert sock.getsockopt(SOL, socket.SO_ERROR) == errno.ECONNREFUSED


def test_silence_ends_at_the_policys_limit(silent: Silent, sock: socket.socket) -> None:
    install(only=LOOPBACK, policy=POLICY.merged({"connect_timeout": SHORT}))
    begun = time.monotonic()
    begin(sock, silent.address)
    by_poll(sock.fileno())
    assert sock.getsockopt(SOL, socket.SO_ERROR) == errno.ETIMEDOUT
    assert SHORT <= time.monotonic() - begun < PATIENCE


def test_an_answer_that_comes_late_lifts_the_expiry(silent: Silent, sock: socket.socket) -> None:
    install(only=LOOPBACK, policy=POLICY.merged({"open_attempts": 1}))  # its own dial alone
    begin(sock, silent.address)
    settle(lambda: user_timeout(sock) == 10_000)
    silent.open()  # for the kernel's own repeat of the SYN, after a second
    by_poll(sock.fileno())
    assert sock.getsockopt(SOL, socket.SO_ERROR) == 0
    settle(lambda: user_timeout(sock) != 10_000)
    assert outlast.report_of(sock) is None, "it is the program's own"
    silent.accept().close()


def test_it_is_watched_whoever_has_won(
    installed: Installed, late: Silent, live: socket.socket
) -> None:
    for address, accept in ((live.getsockname(), live.accept), (late.address, late.accept)):
        with socket.socket() as sock:
            sock.setblocking(False)
            begin(sock, address)
            by_poll(sock.fileno())
            settle(functools.partial(watched, sock))
        far = accept()
        (far[0] if isinstance(far, tuple) else far).close()


def test_a_socket_that_is_closed_meanwhile_is_no_more_dialled_for(
    installed: Installed, late: Silent, live: socket.socket
) -> None:
    with socket.socket() as sock:
        sock.setblocking(False)
        begin(sock, late.address)
        number = sock.fileno()
    with at(number) as other:  # the number is somebody else's now
        rest()
        with pytest.raises(OSError, match="not connected"):
            other.getpeername()


def rest() -> None:
    """Let the attempt delay go by, and some."""
    kernel().wait(Wait((), kernel().now() + 0.15))


def test_trio(installed: Installed, late: Silent) -> None:
    async def main() -> None:
        sock = trio.socket.socket()
        with sock, trio.fail_after(PATIENCE):
            await sock.connect(late.address)
            assert sock.getpeername() == late.address
            await sock.send(b"hello")
            with late.accept() as far:
                assert far.recv(10) == b"hello"
                far.sendall(b"world")
                assert await sock.recv(10) == b"world"

    trio.run(main)
