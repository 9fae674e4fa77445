"""Blocking sockets, and those with a time-out, under the patch: on loopback, in real time."""

from __future__ import annotations

import errno
import functools
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

import outlast
from outlast.shims.patch import Installed, install
from tests.net.pairs import PATIENCE, keepalive
from tests.shims.patch.conftest import DELAY, LOOPBACK, POLICY, Silent, service_at, settle, watched

SOL, TCP = socket.SOL_SOCKET, socket.IPPROTO_TCP
SHORT = 0.25  # seconds; a limit that is meant to be reached
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="keepalive figures of Linux")

Setup = Callable[[socket.socket], object]


def reported(source: object) -> str:
    """The report that an exception or a socket carries, as a text."""
    report = outlast.report_of(source)
    assert report is not None
    return str(report)


# --- the healthy case -------------------------------------------------------------------------


@LINUX
@pytest.mark.incident("FR-80")
def test_keepalive_is_on_and_the_rest_is_as_it_was(
    installed: Installed, live: socket.socket
) -> None:
    with socket.socket() as sock:
        sock.connect(live.getsockname())
        assert keepalive(sock) == (1, 5, 1, 6)
        assert sock.getsockopt(TCP, socket.TCP_NODELAY) == 0, "that is the program's business"
        assert sock.gettimeout() is None
        assert sock.getpeername() == live.getsockname()
        live.accept()[0].close()


@LINUX
@pytest.mark.parametrize(
    ("level", "option", "value"),
    [(SOL, socket.SO_KEEPALIVE, 1), (TCP, 4, 77), (TCP, 6, 2)],
)
def test_a_socket_that_the_program_has_tuned_is_left_alone(
    installed: Installed, live: socket.socket, level: int, option: int, value: int
) -> None:
    with socket.socket() as sock, socket.socket() as plain:
        for each in (sock, plain):
            each.setsockopt(level, option, value)
        sock.connect(live.getsockname())
        assert keepalive(sock) == keepalive(plain)
        live.accept()[0].close()


def test_what_the_first_dial_took_is_learnt(installed: Installed, live: socket.socket) -> None:
    before = service_at(live.getsockname()).memory
    with socket.socket() as sock:
        sock.connect(live.getsockname())
    assert before.figures()[0] < 0.25
    assert before.lately(time.monotonic())
    live.accept()[0].close()


@pytest.mark.parametrize("timeout", [None, 0.0])
def test_the_delay_is_that_of_the_last_connects(late: Silent, timeout: float | None) -> None:
    installed = install(only=LOOPBACK, policy={"connect_timeout": PATIENCE})
    with socket.socket() as sock:
        sock.settimeout(timeout)
        sock.connect_ex(late.address)
        settle(lambda: outlast.report_of(sock) is not None)
        late.accept().close()
    course = installed._places._courses.kept[late.address]
    assert course is not None
    assert course.delay < 0.25, "a race has taught it"


# --- a first dial that is silent --------------------------------------------------------------


@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_a_silent_dial_is_overtaken_behind_the_same_socket(
    installed: Installed, late: Silent, timeout: float | None
) -> None:
    with socket.socket() as sock:
        sock.settimeout(timeout)
        number = sock.fileno()
        sock.connect(late.address)
        assert sock.fileno() == number
        assert sock.gettimeout() == timeout
        assert os.get_blocking(number) is (timeout is None)
        assert not sock.get_inheritable()
        assert sock.getpeername() == late.address
        assert sock.getsockopt(SOL, socket.SO_ERROR) == 0
        with late.accept() as far:
            assert far.getpeername() == sock.getsockname()
            sock.sendall(b"hello")
            assert far.recv(10) == b"hello"
            far.sendall(b"world")
            assert sock.recv(10) == b"world"
        assert "first dial" not in reported(sock)
        assert "lost the race" in reported(sock)


SETUPS: dict[str, tuple[Setup, Callable[[socket.socket], Any]]] = {
    "nodelay": (
        lambda s: s.setsockopt(TCP, socket.TCP_NODELAY, 1),
        lambda s: s.getsockopt(TCP, socket.TCP_NODELAY),
    ),
    "linger": (
        lambda s: s.setsockopt(SOL, socket.SO_LINGER, struct.pack("ii", 1, 7)),
        lambda s: s.getsockopt(SOL, socket.SO_LINGER, 8),
    ),
    "buffer": (
        lambda s: s.setsockopt(SOL, socket.SO_RCVBUF, 30_000),
        lambda s: s.getsockopt(SOL, socket.SO_RCVBUF),
    ),
    "keepalive": (lambda s: s.setsockopt(TCP, 4, 77), lambda s: s.getsockopt(TCP, 4)),
    "inheritable": (lambda s: s.set_inheritable(True), lambda s: s.get_inheritable()),
    "source": (lambda s: s.bind(("127.0.0.9", 0)), lambda s: s.getsockname()[0]),
}


@LINUX
@pytest.mark.parametrize("name", SETUPS)
def test_what_the_program_has_set_is_set_on_what_takes_its_place(
    installed: Installed, late: Silent, name: str
) -> None:
    setup, look = SETUPS[name]
    with socket.socket() as sock, socket.socket() as fresh:
        setup(sock)
        wanted = look(sock)
        assert wanted != look(fresh), "the test would show nothing"
        sock.connect(late.address)
        assert look(sock) == wanted
        assert "lost the race" in reported(sock)
        late.accept().close()


@LINUX
def test_keepalive_of_ours_stands_on_what_takes_its_place(
    installed: Installed, late: Silent
) -> None:
    with socket.socket() as sock:
        sock.connect(late.address)
        assert keepalive(sock) == (1, 5, 1, 6)
        late.accept().close()


def test_a_port_that_the_program_has_bound_is_not_raced_from(
    installed: Installed, live: socket.socket, silent: Silent
) -> None:
    for address, port in ((live.getsockname(), 20_021), (silent.address, 20_022)):
        with socket.socket() as sock:
            sock.setsockopt(SOL, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
            sock.settimeout(SHORT)
            code = sock.connect_ex(address)
            assert code == (0 if address == live.getsockname() else errno.EAGAIN)
            assert sock.getsockname()[1] == port
    live.accept()[0].close()


def test_ipv6(on_redial: Callable[[Callable[[], None]], None]) -> None:
    far = Silent(socket.AF_INET6)
    on_redial(far.open)
    install(only=LOOPBACK, policy=POLICY)
    with socket.socket(socket.AF_INET6) as sock:
        sock.connect(far.address)
        assert sock.getpeername() == far.address
        far.accept().close()
    far.close()


@LINUX
def test_it_is_watched_soon(installed: Installed, late: Silent, live: socket.socket) -> None:
    for address in (live.getsockname(), late.address):
        with socket.socket() as sock:
            sock.connect(address)
            settle(functools.partial(watched, sock))
    live.accept()[0].close()
    late.accept().close()


@LINUX
def test_but_not_against_the_policy(live: socket.socket) -> None:
    install(only=LOOPBACK, policy=POLICY.merged({"watch": False, "keepalive": (9, 2, 3)}))
    with socket.socket() as sock:
        sock.connect(live.getsockname())
        assert not watched(sock)
        assert keepalive(sock) == (1, 9, 2, 3)
    live.accept()[0].close()


# --- errors -----------------------------------------------------------------------------------


def test_a_timeout_of_the_programs_own_ends_it_as_the_socket_module_says(
    installed: Installed, silent: Silent
) -> None:
    with socket.socket() as sock:
        sock.settimeout(SHORT)
        number, begun = sock.fileno(), time.monotonic()
        with pytest.raises(TimeoutError) as caught:
            sock.connect(silent.address)
        took = time.monotonic() - begun
        assert (caught.value.args, caught.value.errno) == (("timed out",), None)
        assert SHORT <= took < PATIENCE
        assert (sock.fileno(), sock.gettimeout()) == (number, SHORT)
        assert reported(caught.value).count("connect") > 2
        assert "nothing was sent" in str(caught.value.__cause__)


def test_without_a_timeout_the_policys_ends_it_as_the_kernel_would(silent: Silent) -> None:
    install(only=LOOPBACK, policy=POLICY.merged({"connect_timeout": SHORT}))
    with socket.socket() as sock:
        begun = time.monotonic()
        with pytest.raises(TimeoutError) as caught:
            sock.connect(silent.address)
        assert SHORT <= time.monotonic() - begun < PATIENCE
        assert caught.value.errno == errno.ETIMEDOUT
        assert sock.gettimeout() is None
        assert os.get_blocking(sock.fileno())


@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_a_refused_connect(
    installed: Installed, refusing: tuple[str, int], timeout: float | None
) -> None:
    with socket.socket() as sock:
        sock.settimeout(timeout)
        with pytest.raises(ConnectionRefusedError) as caught:
            sock.connect(refusing)
        assert caught.value.errno == errno.ECONNREFUSED
        assert "Connection refused" in reported(caught.value)
        assert sock.connect_ex(refusing) == errno.ECONNREFUSED


def test_a_refused_dial_is_followed_by_one_that_is_not(
    installed: Installed,
    refusing: tuple[str, int],
    on_redial: Callable[[Callable[[], None]], None],
) -> None:
    opened: list[socket.socket] = []

    def listen() -> None:
        listener = socket.socket()
        listener.setsockopt(SOL, socket.SO_REUSEPORT, 1)
        listener.bind(refusing)
        listener.listen()
        opened.append(listener)

    with socket.socket() as holder:
        holder.setsockopt(SOL, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        refusing = holder.getsockname()
        on_redial(listen)
        with socket.socket() as sock:
            sock.connect(refusing)
            assert sock.getpeername() == refusing
            assert "Connection refused" in reported(sock)
    opened[0].close()


def test_connect_ex_tells_by_number(installed: Installed, late: Silent) -> None:
    with socket.socket() as sock:
        assert sock.connect_ex(late.address) == 0
        assert sock.connect_ex(late.address) == errno.EISCONN
        with pytest.raises(OSError, match="already connected"):
            sock.connect(late.address)
        late.accept().close()


def test_connect_ex_with_a_timeout(installed: Installed, silent: Silent) -> None:
    with socket.socket() as sock:
        sock.settimeout(SHORT)
        assert sock.connect_ex(silent.address) == errno.EAGAIN


WRONG: list[Any] = [
    ("127.0.0.1",),
    ("127.0.0.1", "80"),
    ("127.0.0.1", 70_000),
    ("127.0.0.1", -1),
    "127.0.0.1:80",
    None,
    (b"\xff", 80),
    ("127.0.0.1", 80, 0, 0),
    ("::1", 80),
    ["127.0.0.1", 80],
]


@pytest.mark.parametrize("address", WRONG)
def test_what_is_malformed_is_refused_as_before(address: Any) -> None:
    def outcome() -> tuple[type, tuple[Any, ...]]:
        with socket.socket() as sock:
            with pytest.raises(Exception) as caught:
                sock.connect(address)
        return type(caught.value), caught.value.args

    before = outcome()
    install(only=LOOPBACK, policy=POLICY)
    assert outcome() == before


def test_a_closed_socket_is_an_error_as_before(installed: Installed, live: socket.socket) -> None:
    sock = socket.socket()
    sock.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        sock.connect(live.getsockname())
    assert sock.connect_ex(live.getsockname()) == errno.EBADF


# --- what is none of its business -------------------------------------------------------------


def test_out_of_scope_nothing_changes(silent: Silent, live: socket.socket) -> None:
    install(only=["10.0.0.0/8"], policy=POLICY.merged({"connect_timeout": SHORT}))
    with socket.socket() as sock:
        sock.connect(live.getsockname())
        assert sock.getsockopt(SOL, socket.SO_KEEPALIVE) == 0
        live.accept()[0].close()
    with socket.socket() as sock:
        sock.settimeout(2 * SHORT)
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            sock.connect(silent.address)
        assert time.monotonic() - begun >= 2 * SHORT


def test_loopback_is_out_of_scope_by_default(live: socket.socket) -> None:
    install()
    with socket.socket() as sock:
        sock.connect(live.getsockname())
        assert sock.getsockopt(SOL, socket.SO_KEEPALIVE) == 0
        live.accept()[0].close()


def test_udp_and_unix_sockets_are_left_alone(
    installed: Installed, tmp_path: Any, live: socket.socket
) -> None:
    with socket.socket() as tcp:  # the same destination, so that it is known already
        tcp.connect(live.getsockname())
        live.accept()[0].close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.connect(live.getsockname())
        assert udp.getsockopt(SOL, socket.SO_KEEPALIVE) == 0
        assert udp.getpeername() == live.getsockname()
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as unix:
        server.bind(path)
        server.listen()
        unix.connect(path)
        assert unix.getpeername() == path


def test_skip_wins(live: socket.socket) -> None:
    host, port = live.getsockname()
    install(only=LOOPBACK, skip=[f"{host}:{port}"], policy=POLICY)
    with socket.socket() as sock:
        sock.connect((host, port))
        assert sock.getsockopt(SOL, socket.SO_KEEPALIVE) == 0
        live.accept()[0].close()


def test_the_delay_adapts_and_is_the_policys_where_it_has_one(
    installed: Installed, late: Silent
) -> None:
    begun = time.monotonic()
    with socket.socket() as sock:
        sock.connect(late.address)
        assert DELAY <= time.monotonic() - begun < PATIENCE
        late.accept().close()


def test_override_holds_for_a_block(installed: Installed, silent: Silent) -> None:
    with socket.socket() as sock, outlast.override(connect_timeout=SHORT):
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            sock.connect(silent.address)
        assert time.monotonic() - begun < PATIENCE / 2
