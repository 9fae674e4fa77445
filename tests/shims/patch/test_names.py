"""Names and mapped destinations under the patch; the resolver is the test's own."""

from __future__ import annotations

import errno
import http.client
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

import outlast
from outlast.core.health import Standing
from outlast.shims.patch import install
from outlast.shims.patch.answers import named_service
from outlast.shims.patch.courses import GIVES_WAY
from tests.net.pairs import PATIENCE, keepalive
from tests.shims.patch.conftest import LOOPBACK, POLICY, Silent

Names = dict[str, list[tuple[Any, ...]] | OSError]
SHORT = 0.25  # seconds; a limit that is meant to be reached


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Host names to addresses, of any port; other hosts are looked up as ever."""
    table: Names = {}
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *args: Any, **more: Any) -> Any:
        found = table.get(host)
        if found is None:
            return real(host, port, *args, **more)
        if isinstance(found, OSError):
            raise found
        wanted = args[0] if args else more.get("family", 0)
        infos = [info for address in found for info in real(address[0], address[1], 0, 1)]
        return [info for info in infos if wanted in (0, info[0])]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return table


def put(**more: Any) -> None:
    """The patch, for loopback and names of this file."""
    install(**{"only": LOOPBACK, "policy": POLICY, **more})


# --- create_connection ------------------------------------------------------------------------


def test_a_name_whose_first_address_is_silent(
    names: Names, silent: Silent, live: socket.socket
) -> None:
    names["first.test"] = [silent.address, live.getsockname()]
    put()
    raced = 0
    for _ in range(30):  # which one is first is drawn
        with socket.create_connection(("first.test", 5432)) as sock:
            assert sock.getpeername() == live.getsockname()
            assert type(sock) is socket.socket
            assert sock.gettimeout() is None
            assert keepalive(sock) == (1, 5, 1, 6)
            raced += "lost the race" in str(outlast.report_of(sock))
        live.accept()[0].close()
        if raced:
            break
    assert raced


def test_a_name_of_two_families(names: Names, live: socket.socket) -> None:
    six = Silent(socket.AF_INET6)
    names["both.test"] = [six.address, live.getsockname()]
    put()
    with socket.create_connection(("both.test", 5432), PATIENCE) as sock:
        assert sock.family == socket.AF_INET
        assert sock.getpeername() == live.getsockname()
        assert sock.gettimeout() == PATIENCE
    live.accept()[0].close()
    six.close()


def test_http_client_hands_the_name_on_and_no_timeout(
    names: Names, silent: Silent, live: socket.socket
) -> None:
    names["web.test"] = [silent.address, live.getsockname()]
    put()
    slowest = 0.0
    for _ in range(8):  # which one is first is drawn
        connection = http.client.HTTPConnection("web.test", 80)
        begun = time.monotonic()
        connection.connect()
        slowest = max(slowest, time.monotonic() - begun)
        assert connection.sock.getpeername() == live.getsockname()
        connection.close()
        live.accept()[0].close()
    assert slowest < GIVES_WAY, "as one target: none gives way to the other"


def test_from_a_source_address(names: Names, live: socket.socket, silent: Silent) -> None:
    names["pair3.test"] = [silent.address, live.getsockname()]
    put()
    for timeout in (None, PATIENCE):
        with socket.create_connection(("pair3.test", 1), timeout, ("127.0.0.7", 0)) as sock:
            assert sock.getsockname()[0] == "127.0.0.7"
        live.accept()[0].close()


def test_a_source_port_and_a_timeout_of_zero_are_left_to_the_original(
    live: socket.socket,
) -> None:
    put()
    with pytest.raises(BlockingIOError):
        socket.create_connection(live.getsockname(), 0)
    with socket.create_connection(live.getsockname(), source_address=("127.0.0.1", 20_033)) as sock:
        assert sock.getsockname() == ("127.0.0.1", 20_033)
    live.accept()[0].close()


def test_its_errors_are_the_socket_modules(names: Names, silent: Silent) -> None:
    names["silent.test"] = [silent.address]
    names["nobody.test"] = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    put()
    with pytest.raises(TimeoutError) as caught:
        socket.create_connection(("silent.test", 1), SHORT)
    assert caught.value.args == ("timed out",)
    with pytest.raises(socket.gaierror) as unknown:
        socket.create_connection(("nobody.test", 1), SHORT)
    assert unknown.value.errno == socket.EAI_NONAME
    with pytest.raises(ValueError, match="unpack"):
        socket.create_connection(("silent.test",))  # type: ignore[arg-type]  # as the test is about


@pytest.mark.skipif(sys.version_info < (3, 11), reason="all_errors came with Python 3.11")
def test_all_errors(names: Names, refusing: tuple[str, int]) -> None:
    names["none.test"] = [refusing]
    put()
    with pytest.raises(BaseException) as caught:
        socket.create_connection(("none.test", 1), PATIENCE, all_errors=True)  # type: ignore[call-arg]  # of Python 3.11
    assert type(caught.value).__name__ == "ExceptionGroup"
    assert {error.errno for error in caught.value.exceptions} == {errno.ECONNREFUSED}  # type: ignore[attr-defined]  # a group


def test_while_the_resolver_is_away_the_last_answer_stands_in(
    names: Names, live: socket.socket
) -> None:
    names["db.test"] = [live.getsockname()]
    put()
    socket.create_connection(("db.test", 1)).close()
    names["db.test"] = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    with socket.create_connection(("db.test", 1)) as sock:
        assert sock.getpeername() == live.getsockname()
    for _ in range(2):
        live.accept()[0].close()


def test_a_name_given_to_connect(names: Names, silent: Silent, live: socket.socket) -> None:
    names["pair8.test"] = [silent.address, live.getsockname()]
    put()
    with socket.socket() as sock:
        sock.connect(("pair8.test", 1))
        assert sock.getpeername() == live.getsockname()
    live.accept()[0].close()


# --- programs that look names up themselves ---------------------------------------------------


def test_scope_by_name_holds_for_the_addresses_it_was_told(
    names: Names, live: socket.socket
) -> None:
    host, port = live.getsockname()
    names["wanted.test"] = names["other.test"] = [(host, port)]
    put(only=["wanted.test"])
    for name, wanted in (("other.test", 0), ("wanted.test", 1)):
        address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0][4]
        with socket.socket() as sock:
            sock.connect(address)
            assert keepalive(sock)[0] == wanted
        live.accept()[0].close()


def test_skip_by_name_too(names: Names, live: socket.socket) -> None:
    names["db.test"] = [live.getsockname()]
    put(skip=["db.test"])
    address = socket.getaddrinfo("db.test", live.getsockname()[1])[0][4]
    with socket.socket() as sock:
        sock.connect(address)
        assert keepalive(sock)[0] == 0
    live.accept()[0].close()


def by_hand(name: str, port: int) -> socket.socket:
    """As most clients do: look up, and try one address after the other."""
    failed: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(name, port, type=1):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.connect(address)
        except OSError as error:
            failed = error
            sock.close()
        else:
            return sock
    assert failed is not None
    raise failed


def test_a_silent_address_gives_way_to_the_names_others(
    names: Names, silent: Silent, live: socket.socket
) -> None:
    names["pair11.test"] = [silent.address, live.getsockname()]
    put()
    begun = time.monotonic()
    with by_hand("pair11.test", 5432) as sock:
        assert sock.getpeername() == live.getsockname()
    assert GIVES_WAY <= time.monotonic() - begun < PATIENCE
    live.accept()[0].close()


def test_the_last_address_has_all_the_time_there_is(names: Names, silent: Silent) -> None:
    names["one.test"] = [silent.address]
    put(policy=POLICY.merged({"connect_timeout": 2 * GIVES_WAY}))
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        by_hand("one.test", 5432)
    assert time.monotonic() - begun >= 2 * GIVES_WAY


def test_a_dead_address_is_told_last(names: Names, silent: Silent, live: socket.socket) -> None:
    names["pair13.test"] = [silent.address, live.getsockname()]
    put()
    for _ in range(3):
        by_hand("pair13.test", 5432).close()
        live.accept()[0].close()
    service = named_service("pair13.test", 5432)
    standing = service.look(lambda roster: {each.key.port: each.health.standing for each in roster})
    assert standing[silent.port] is Standing.OUT
    told = [info[4] for info in socket.getaddrinfo("pair13.test", 5432, type=1)]
    assert told == [live.getsockname(), silent.address]


# --- mapped destinations ----------------------------------------------------------------------


def mapped(where: tuple[Any, ...]) -> dict[str, str]:
    return {"10.255.0.1:7": f"static://{where[0]}:{where[1]}"}


def test_a_mapped_address_goes_to_its_targets_endpoints(live: socket.socket) -> None:
    put(only=None, targets=mapped(live.getsockname()))
    with socket.socket() as sock:
        sock.connect(("10.255.0.1", 7))
        assert sock.getpeername() == live.getsockname()
    live.accept()[0].close()


def test_also_from_a_socket_that_does_not_block(live: socket.socket) -> None:
    put(only=None, targets=mapped(live.getsockname()))
    with socket.socket() as sock:
        sock.setblocking(False)
        assert sock.connect_ex(("10.255.0.1", 7)) == errno.EINPROGRESS
        sock.settimeout(PATIENCE)
        live.accept()[0].close()
        assert sock.getpeername() == live.getsockname()


def test_a_mapped_name_of_which_one_endpoint_is_silent(
    names: Names, silent: Silent, live: socket.socket
) -> None:
    endpoints = ",".join(f"127.0.0.1:{port}" for port in (silent.port, live.getsockname()[1]))
    put(only=None, targets={"db.svc:5432": f"static://{endpoints}"})
    for _ in range(4):
        with socket.create_connection(("db.svc", 5432), PATIENCE) as sock:
            assert sock.getpeername() == live.getsockname()
        live.accept()[0].close()


def test_a_name_mapped_to_a_name(names: Names, live: socket.socket) -> None:
    names["real.test"] = [live.getsockname()]
    put(only=None, targets={"db.svc:5432": f"dns://real.test:{live.getsockname()[1]}"})
    with socket.create_connection(("db.svc", 5432), PATIENCE) as sock:
        assert sock.getpeername() == live.getsockname()
    live.accept()[0].close()


def test_what_a_name_stands_for_may_change(
    names: Names, live: socket.socket, silent: Silent, on_redial: Callable[..., None]
) -> None:
    names["moving.test"] = [silent.address]
    put(policy=POLICY.merged({"connect_timeout": SHORT}))
    with pytest.raises(TimeoutError):
        socket.create_connection(("moving.test", 1))
    names["moving.test"] = [live.getsockname()]
    with socket.create_connection(("moving.test", 1)) as sock:
        assert sock.getpeername() == live.getsockname()
    live.accept()[0].close()
