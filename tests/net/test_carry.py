"""Options that a program has set, read off one socket and set on another."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator

import pytest

from outlast.net.carry import bound_source, carried
from tests.net.kernel_world import silent_listener
from tests.net.pairs import pair

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="option numbers of Linux")

TCP, SOL = socket.IPPROTO_TCP, socket.SOL_SOCKET
FAMILIES = [socket.AF_INET, socket.AF_INET6]


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> socket.AddressFamily:
    """Either family."""
    return socket.AddressFamily(request.param)


@pytest.fixture
def dialling(family: socket.AddressFamily) -> Iterator[socket.socket]:
    """A socket of which nothing was set, whose SYN has no answer."""
    held = silent_listener(family)
    with socket.socket(family) as sock:
        sock.setblocking(False)
        sock.connect_ex(held[0].getsockname())
        yield sock
    for each in held:
        each.close()


def test_nothing_was_set_on_a_fresh_socket(family: socket.AddressFamily) -> None:
    with socket.socket(family) as sock:
        assert carried(sock) == ()


def test_a_connect_under_way_sets_nothing(dialling: socket.socket) -> None:
    assert carried(dialling) == ()


def test_a_connect_that_is_over_may_have_moved_the_send_buffer_alone(
    family: socket.AddressFamily,
) -> None:
    with pair(family) as (near, _):
        assert {option[:2] for option in carried(near)} <= {(SOL, socket.SO_SNDBUF)}


COMMON: list[tuple[int, int, int | bytes]] = [
    (SOL, socket.SO_REUSEADDR, 1),
    (SOL, socket.SO_KEEPALIVE, 1),
    (SOL, socket.SO_RCVBUF, 32768),
    (SOL, socket.SO_SNDBUF, 40000),
    (SOL, socket.SO_LINGER, struct.pack("ii", 1, 0)),
    (SOL, socket.SO_PRIORITY, 3),
    (SOL, socket.SO_RCVLOWAT, 7),
    (TCP, socket.TCP_NODELAY, 1),
    (TCP, socket.TCP_KEEPIDLE, 33),
    (TCP, socket.TCP_KEEPINTVL, 9),
    (TCP, socket.TCP_KEEPCNT, 4),
    (TCP, socket.TCP_USER_TIMEOUT, 4321),
    (TCP, socket.TCP_SYNCNT, 3),
    (TCP, socket.TCP_CONGESTION, b"reno".ljust(16, b"\0")),
]
BY_FAMILY = {
    socket.AF_INET: [*COMMON, (socket.IPPROTO_IP, socket.IP_TTL, 61)],
    socket.AF_INET6: [
        *COMMON,
        (socket.IPPROTO_IPV6, socket.IPV6_TCLASS, 8),
        (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1),
    ],
}


@pytest.mark.parametrize(("family", "option"), [(f, o) for f in FAMILIES for o in BY_FAMILY[f]])
def test_what_was_set_is_found_and_holds_on_another(
    family: socket.AddressFamily, option: tuple[int, int, int | bytes]
) -> None:
    level, number, value = option
    length = () if isinstance(value, int) else (len(value),)
    with socket.socket(family) as theirs, socket.socket(family) as ours:
        theirs.setsockopt(level, number, value)
        found = carried(theirs)
        assert (level, number) in {each[:2] for each in found}
        for each in found:
            ours.setsockopt(*each)
        held = ours.getsockopt(level, number, *length)
        assert held == theirs.getsockopt(level, number, *length)
        assert carried(ours) == found


def test_a_type_of_service_and_a_priority_beside_it() -> None:
    with socket.socket() as theirs, socket.socket() as ours:
        theirs.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x10)
        theirs.setsockopt(SOL, socket.SO_PRIORITY, 2)
        for each in carried(theirs):
            ours.setsockopt(*each)
        assert ours.getsockopt(SOL, socket.SO_PRIORITY) == 2


def test_a_closed_socket_is_an_error() -> None:
    sock = socket.socket()
    sock.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        carried(sock)


# --- what it is bound to ----------------------------------------------------------------------


def test_bound_to_nothing(family: socket.AddressFamily) -> None:
    with socket.socket(family) as sock:
        assert bound_source(sock) is None


def test_a_port_that_the_kernel_drew_is_not_kept() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        assert bound_source(sock) == ("127.0.0.1", 0)


def test_a_port_that_the_program_chose_is_kept() -> None:
    with socket.socket() as sock:
        sock.setsockopt(SOL, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 20_011))
        assert bound_source(sock) == ("127.0.0.1", 20_011)


def test_a_unix_socket_has_no_source() -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        assert bound_source(sock) is None
