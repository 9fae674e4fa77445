"""`create_connection`: socket's own signature and behaviour, over a race."""

from __future__ import annotations

import errno
import gc
import inspect
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import outlast
from outlast.core.report import Report
from tests.guards import open_sockets
from tests.net.far_side import PATIENCE
from tests.net.kernel_world import KernelListener, KernelWorld
from tests.net.scripted import SILENT, Path, Scripted, ScriptedStream, Told, refused

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="option numbers of Linux")
TCP = socket.IPPROTO_TCP


@pytest.fixture
def world() -> Iterator[KernelWorld]:
    """The kernel network and a far side on loopback."""
    made = KernelWorld()
    yield made
    made.close()


@pytest.fixture
def live(world: KernelWorld) -> KernelListener:
    """A listener, known as db.test too."""
    listener = world.listen()
    world.name("db.test", [world.refusing(), listener.address])
    return listener


def report_of(error: BaseException) -> Report:
    """The time line that an error carries."""
    report = vars(error)["report"]
    assert isinstance(report, Report)
    return report


# --- the signature ----------------------------------------------------------------------------


def test_the_signature_is_the_socket_modules() -> None:
    """The same parameters in the same order and of the same kind; ours come after, by keyword."""
    theirs = inspect.signature(socket.create_connection).parameters
    ours = inspect.signature(outlast.create_connection).parameters
    names = list(theirs)
    if sys.version_info < (3, 11):
        names.append("all_errors")
    assert list(ours) == [*names, "policy", "network"]
    for name, parameter in theirs.items():
        assert ours[name].kind is parameter.kind
        if name != "timeout":
            assert ours[name].default == parameter.default
    assert ours["policy"].kind is ours["network"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "getdefaulttimeout" in repr(ours["timeout"].default)


# --- the socket -------------------------------------------------------------------------------


def test_a_plain_call(live: KernelListener) -> None:
    with outlast.create_connection(("127.0.0.1", live.address.port)) as sock:
        assert type(sock) is socket.socket
        assert sock.gettimeout() is None
        assert not sock.get_inheritable()
        accepted, _ = live.sock.accept()
        with accepted:
            sock.sendall(b"hello")
            assert accepted.recv(10) == b"hello"


def test_a_list_will_do_and_the_name_may_be_none(live: KernelListener) -> None:
    for address in (["127.0.0.1", live.address.port], (None, live.address.port)):
        outlast.create_connection(address, PATIENCE).close()  # type: ignore[arg-type]  # as socket


def test_a_name_whose_first_address_refuses(world: KernelWorld, live: KernelListener) -> None:
    port = live.address.port
    with outlast.create_connection(("db.test", port), network=world.network) as sock:
        assert sock.getpeername() == ("127.0.0.1", port)


@pytest.mark.parametrize("timeout", [2.5, 7])
def test_the_timeout_is_the_sockets_too(live: KernelListener, timeout: float) -> None:
    with outlast.create_connection(("127.0.0.1", live.address.port), timeout) as sock:
        assert sock.gettimeout() == timeout


def test_the_socket_modules_default_is_used(
    live: KernelListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getdefaulttimeout", lambda: 3.5)
    with outlast.create_connection(("127.0.0.1", live.address.port)) as sock:
        assert sock.gettimeout() == 3.5
    with outlast.create_connection(("127.0.0.1", live.address.port), None) as sock:
        assert sock.gettimeout() is None


def test_the_local_address(live: KernelListener) -> None:
    source = ("127.0.0.2", 0)
    with outlast.create_connection(live.address.pair, source_address=source) as sock:
        assert sock.getsockname()[0] == "127.0.0.2"
    with outlast.create_connection(live.address.pair, PATIENCE, ("", 0)) as sock:
        assert sock.getsockname()[0] == "127.0.0.1"


@LINUX
def test_options_of_a_socket_that_is_handed_out(live: KernelListener) -> None:
    """Keepalive, a cap on the gap between retransmissions, and a user timeout while we watch."""
    with outlast.create_connection(live.address.pair, PATIENCE) as sock:
        options = {name: sock.getsockopt(TCP, number) for name, number in OPTIONS.items()}
        assert options == {
            "nodelay": 1,
            "idle": 5,
            "interval": 1,
            "count": 6,
            "user timeout": 11_000,
        }
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        try:
            cap = sock.getsockopt(TCP, 44)
        except OSError:  # the kernel has none
            cap = 2000
        assert cap == 2000


OPTIONS = {"nodelay": 1, "idle": 4, "interval": 5, "count": 6, "user timeout": 18}


@LINUX
def test_a_policys_own_keepalive(live: KernelListener) -> None:
    address = live.address.pair
    policy = outlast.Policy(keepalive=outlast.Keepalive(60, 10, 3))
    with outlast.create_connection(address, policy=policy) as sock:
        assert [sock.getsockopt(TCP, number) for number in (4, 5, 6)] == [60, 10, 3]
    with outlast.create_connection(address, policy=outlast.Policy(keepalive=None)) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0


# --- the race is the policy's -----------------------------------------------------------------

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def dialled(network: Scripted, **more: Any) -> list[float]:
    """When each dial began, in a race that is lost."""
    with pytest.raises(OSError):
        outlast.create_connection(("db.test", 80), network=network, **more)
    return [moment for moment, _ in network.dials]


def silent() -> Scripted:
    return Scripted({A: SILENT}, [Told([A])])


def test_the_attempt_delay() -> None:
    policy = outlast.Policy(attempt_delay=0.1)
    assert dialled(silent(), timeout=0.35, policy=policy) == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_the_open_attempts() -> None:
    network = silent()
    dialled(network, timeout=0.9, policy=outlast.Policy(attempt_delay=0.1, open_attempts=2))
    assert network.most_open == 2


def test_the_connect_timeout_where_the_caller_gives_none() -> None:
    for more, end in (
        ({"timeout": None}, 5.0),
        ({"timeout": None, "policy": outlast.Policy(connect_timeout=2.0)}, 2.0),
        ({"timeout": 1.0, "policy": outlast.Policy(connect_timeout=2.0)}, 1.0),
    ):
        network = silent()
        dialled(network, **more)
        assert network.time == end


def test_a_block_overrides() -> None:
    network = silent()
    with outlast.override(connect_timeout=0.5):
        dialled(network, timeout=None, policy=outlast.Policy(connect_timeout=2.0))
    assert network.time == 0.5


def test_what_was_learnt_serves_the_next_call() -> None:
    """Both calls are of one target: the second knows the addresses that failed."""
    network = Scripted({A: refused(), B: SILENT, C: SILENT}, [Told([A, B, C])])
    dialled(network, timeout=0.9)
    network.dials.clear()
    dialled(network, timeout=0.9)
    assert [host for _, host in network.dials][:3].index(A) == 2


def test_a_loser_that_stands_too_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller of a plain connect has no pool to keep it in."""
    network = Scripted({A: [Path(0.25), Path(0.15), SILENT]}, [Told([A])])
    monkeypatch.setattr(ScriptedStream, "detach", lambda stream: socket.socket())
    policy = outlast.Policy(attempt_delay=0.1)
    outlast.create_connection(("db.test", 80), network=network, policy=policy).close()
    ends = sorted(str(stream.end) for stream in network.streams)
    assert ends == ["('aborted', 0.25)", "('closed', 0.25)", "None"]


# --- errors -----------------------------------------------------------------------------------


def failure(network: Scripted, *, timeout: float = 5.0, all_errors: bool = False) -> BaseException:
    with pytest.raises(Exception) as caught:
        outlast.create_connection(
            ("db.test", 80),
            timeout,
            all_errors=all_errors,
            network=network,
        )
    return caught.value


@pytest.mark.parametrize(
    ("path", "kind", "code"),
    [
        (SILENT, TimeoutError, errno.ETIMEDOUT),
        (refused(), ConnectionRefusedError, errno.ECONNREFUSED),
        (Path(0.1, errno.EHOSTUNREACH), OSError, errno.EHOSTUNREACH),
        (Path(code=errno.ENETUNREACH, at_once=True), OSError, errno.ENETUNREACH),
        (Path(code=errno.EACCES, at_once=True), PermissionError, errno.EACCES),
    ],
)
def test_an_error_is_what_a_plain_connect_would_raise(
    path: Path, kind: type[OSError], code: int
) -> None:
    error = failure(Scripted({A: path}, [Told([A])]))
    assert type(error) is kind
    assert isinstance(error, OSError)
    assert error.errno == code
    assert f"db.test:80 ({A}:80)" in str(error)
    assert path is SILENT or os.strerror(code) in str(error)
    assert report_of(error).of_phase("connect")


def test_a_name_that_does_not_exist() -> None:
    error = failure(Scripted({}, [Told(socket.gaierror(socket.EAI_NONAME, "unknown"))]))
    assert isinstance(error, socket.gaierror)
    assert error.errno == socket.EAI_NONAME
    assert "db.test" in str(error)
    assert len(report_of(error).of_phase("lookup")) >= 1


def test_an_error_is_no_cause_of_itself() -> None:
    """Whoever walks the chain of causes comes to an end."""
    for network in (silent(), Scripted({A: refused()}, [Told([A])])):
        seen: set[int] = set()
        error: BaseException | None = failure(network, timeout=0.3)
        while error is not None:
            assert id(error) not in seen
            seen.add(id(error))
            error = error.__cause__


def test_all_errors_are_told_one_by_one() -> None:
    hosts = {A: refused(), B: Path(0.1, errno.EHOSTUNREACH), C: SILENT}
    error = failure(Scripted(hosts, [Told([A, B, C])]), timeout=0.9, all_errors=True)
    assert type(error).__name__ == "ExceptionGroup"
    kinds = [type(each) for each in error.exceptions]  # type: ignore[attr-defined]  # a group
    codes = {each.errno for each in error.exceptions}  # type: ignore[attr-defined]  # a group
    assert codes == {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ETIMEDOUT}
    assert ConnectionRefusedError in kinds
    assert kinds.count(TimeoutError) == 1
    assert report_of(error)


def test_all_errors_of_a_silent_address_are_one_timeout() -> None:
    error = failure(silent(), timeout=0.2, all_errors=True)
    (only,) = error.exceptions  # type: ignore[attr-defined]  # a group
    assert type(only) is TimeoutError


def test_a_failed_look_up_comes_alone_as_from_socket() -> None:
    network = Scripted({}, [Told(socket.gaierror(socket.EAI_NONAME, "unknown"))])
    assert type(failure(network, all_errors=True)) is socket.gaierror


def test_no_time_at_all() -> None:
    assert type(failure(silent(), timeout=0)) is TimeoutError


def test_a_failed_call_leaves_no_socket_to_the_garbage_collector(world: KernelWorld) -> None:
    address = world.refusing().pair
    before = len(open_sockets())
    gc.disable()
    try:
        with pytest.raises(ConnectionRefusedError):
            outlast.create_connection(address, PATIENCE)
        assert len(open_sockets()) == before
    finally:
        gc.enable()


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "part"),
    [
        ("db.test:80", "'db.test:80'"),
        (("db.test",), "('db.test',)"),
        (("db.test", 80, 0, 0), "('db.test', 80, 0, 0)"),
        (None, "None"),
        (("", 80), "host ''"),
        ((b"db.test", 80), "host b'db.test'"),
        ((7, 80), "host 7"),
        (("db.test", "80"), "port '80'"),
        (("db.test", 0), "port 0"),
        (("db.test", 65536), "port 65536"),
        (("db.test", True), "port True"),
        (("db.test", 80.0), "port 80.0"),
    ],
)
def test_a_malformed_address_is_named(address: Any, part: str) -> None:
    with pytest.raises(ValueError, match=r"^address: ") as caught:
        outlast.create_connection(address, 1.0)
    assert part in str(caught.value)
    assert "('db.shop.svc', 5432)" in str(caught.value)


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), 1e10, "soon", True, b"5"])
def test_a_malformed_timeout_is_named(timeout: Any) -> None:
    with pytest.raises(ValueError, match=r"^timeout: ") as caught:
        outlast.create_connection(("127.0.0.1", 1), timeout)
    assert repr(timeout) in str(caught.value)


@pytest.mark.parametrize(
    "source",
    ["10.0.0.1", ("localhost", 0), ("10.0.0.1",), ("10.0.0.1", -1), ("10.0.0.1", "0"), (None, 0)],
)
def test_a_malformed_local_address_is_named(source: Any) -> None:
    """A name too: to bind to one would wait for a look-up that no timeout bounds."""
    with pytest.raises(ValueError, match=r"^source_address: ") as caught:
        outlast.create_connection(("127.0.0.1", 1), 1.0, source)
    assert repr(source) in str(caught.value)
    assert "('10.0.0.7', 0)" in str(caught.value)


def test_a_local_address_that_this_machine_lacks(live: KernelListener) -> None:
    with pytest.raises(OSError) as caught:
        outlast.create_connection(live.address.pair, 1.0, ("192.0.2.77", 0))
    assert caught.value.errno == errno.EADDRNOTAVAIL
    assert "192.0.2.77:0" in str(caught.value)


def test_a_malformed_policy_is_named() -> None:
    with pytest.raises(ValueError, match=r"^policy: .*Policy\("):
        outlast.create_connection(("127.0.0.1", 1), policy={"attempts": 1})  # type: ignore[arg-type]  # wrong on purpose
