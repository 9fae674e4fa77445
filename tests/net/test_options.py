"""Socket options: set before connect, read back, the caller's own first, nothing in silence."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from outlast.net import kernel, options
from outlast.net.kernel import KernelNetwork, KernelStream
from outlast.net.options import (
    Keepalive,
    LocalRefusal,
    SocketOption,
    SocketPlan,
    apply,
    fitting_user_timeout,
    user_timeout_option,
)
from outlast.net.run import run_sync
from outlast.net.seam import WRITE
from tests.net.far_side import arrival
from tests.net.kernel_world import KernelListener, KernelWorld

TCP = socket.IPPROTO_TCP
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="option numbers of Linux")
RTO_MAX = 44  # TCP_RTO_MAX_MS, Linux 6.15
RTO_MAX_DEFAULT = 120_000
READ_BACK = {
    "nodelay": (TCP, socket.TCP_NODELAY),
    "keepalive": (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
    "idle": (TCP, 4),
    "interval": (TCP, 5),
    "count": (TCP, 6),
    "user timeout": (TCP, 18),
}


def read_back(sock: socket.socket) -> dict[str, int]:
    return {name: sock.getsockopt(*option) for name, option in READ_BACK.items()}


def rto_max(sock: socket.socket) -> int | None:
    try:
        return sock.getsockopt(TCP, RTO_MAX)
    except OSError:  # an older kernel
        return None


@pytest.fixture
def world() -> Iterator[KernelWorld]:
    """The kernel network and a far side on loopback."""
    made = KernelWorld()
    yield made
    made.close()


@pytest.fixture
def at_connect(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, int], int | None]]:
    """What held when connect was called, for each dial of the test."""
    noted: list[tuple[dict[str, int], int | None]] = []

    def connect_ex(sock: socket.socket, address: Any) -> int:
        noted.append((read_back(sock), rto_max(sock)))
        return sock.connect_ex(address)

    monkeypatch.setattr(
        kernel, "_socket", SimpleNamespace(socket=SimpleNamespace(connect_ex=connect_ex))
    )
    return noted


def connected(network: KernelNetwork, listener: KernelListener, plan: SocketPlan) -> KernelStream:
    stream = network.dial(listener.address, plan)
    run_sync(network, arrival(network, stream, WRITE))
    stream.connected()
    return stream


# --- on the kernel ----------------------------------------------------------------------------


@LINUX
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_what_is_set_holds_before_connect(
    world: KernelWorld, at_connect: list[tuple[dict[str, int], int | None]], family: int
) -> None:
    listener = world.listen(family)
    stream = connected(world.network, listener, SocketPlan(user_timeout=11.0, rto_max=2.0))
    ((held, cap),) = at_connect
    assert held == {
        "nodelay": 1,
        "keepalive": 1,
        "idle": 5,
        "interval": 1,
        "count": 6,
        "user timeout": 11_000,
    }
    assert read_back(stream.detach()) == held
    if cap is None:
        assert list(stream.notes) == ["RTO cap 2000: refused (Protocol not available)"]
    else:  # it would shorten the connect too: only once the connection stands
        assert cap == RTO_MAX_DEFAULT
        assert rto_max(stream.detach()) == 2000
        assert list(stream.notes) == []
    stream.close()


@LINUX
def test_nothing_is_set_that_the_plan_leaves_out(
    world: KernelWorld, at_connect: list[tuple[dict[str, int], int | None]]
) -> None:
    plain = socket.socket()
    defaults = read_back(plain)
    plain.close()
    plan = SocketPlan(keepalive=None, nodelay=False)
    stream = connected(world.network, world.listen(), plan)
    assert at_connect[0][0] == defaults
    assert rto_max(stream.detach()) in (None, RTO_MAX_DEFAULT)
    assert list(stream.notes) == []
    stream.close()


@LINUX
def test_the_callers_own_options_win(
    world: KernelWorld, at_connect: list[tuple[dict[str, int], int | None]]
) -> None:
    own: tuple[SocketOption, ...] = (
        (TCP, socket.TCP_NODELAY, 0),
        (TCP, 4, 77),
        (TCP, 18, 5000),
        (TCP, RTO_MAX, 60_000),
        (socket.SOL_SOCKET, socket.SO_RCVBUF, 8192),
    )
    probe = socket.socket()
    if rto_max(probe) is None:
        own = (*own[:3], own[4])
    probe.close()
    plan = SocketPlan(user_timeout=11.0, rto_max=2.0, extra=own)
    stream = connected(world.network, world.listen(), plan)
    held = at_connect[0][0]
    assert (held["nodelay"], held["idle"], held["user timeout"]) == (0, 77, 5000)
    assert (held["interval"], held["count"]) == (1, 6)
    sock = stream.detach()
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 8192
    assert rto_max(sock) in (None, 60_000)
    stream.set_user_timeout(1.0)
    assert read_back(sock)["user timeout"] == 5000
    stream.close()


@LINUX
def test_a_user_timeout_is_moved_while_somebody_watches(world: KernelWorld) -> None:
    stream = connected(world.network, world.listen(), SocketPlan(user_timeout=11.0))
    for seconds, milliseconds in ((0.0, 0), (2.5, 2500), (0.0001, 1), (1e12, 2**31 - 1)):
        stream.set_user_timeout(seconds)
        assert read_back(stream.detach())["user timeout"] == milliseconds
    stream.close()


@pytest.mark.parametrize(
    ("seconds", "keepalive", "fitting"),
    [
        (11.0, Keepalive(5, 1, 6), 11.0),
        (20.0, Keepalive(5, 1, 6), 20.0),
        (2.5, Keepalive(5, 1, 6), 11.0),
        (11.0, Keepalive(60, 10, 6), 120.0),
        (2.5, None, 2.5),
        (0.0, Keepalive(60, 10, 6), 0.0),
    ],
)
def test_a_user_timeout_leaves_keepalive_its_probes(
    seconds: float, keepalive: Keepalive | None, fitting: float
) -> None:
    assert fitting_user_timeout(seconds, keepalive) == fitting


@LINUX
def test_keepalive_is_hurried_and_restored(world: KernelWorld) -> None:
    stream = connected(world.network, world.listen(), SocketPlan(keepalive=Keepalive(7, 3, 4)))
    assert stream.keepalive == Keepalive(7, 3, 4)
    for each in (Keepalive(1, 1, 4), Keepalive(1, 1, 4), Keepalive(7, 3, 4)):
        stream.set_keepalive(each)
        held = read_back(stream.detach())
        assert (held["idle"], held["interval"], held["count"], held["keepalive"]) == (
            *(each.idle, each.interval, each.count),
            1,
        )
    stream.close()
    stream.set_keepalive(Keepalive(1, 1, 4))


@LINUX
@pytest.mark.parametrize(
    "plan",
    [
        SocketPlan(keepalive=None),
        SocketPlan(extra=((TCP, 4, 77),)),
        SocketPlan(extra=((TCP, 5, 3),)),
        SocketPlan(extra=((TCP, 6, 3),)),
        SocketPlan(extra=((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0),)),
    ],
)
def test_keepalive_that_is_the_callers_is_not_touched(world: KernelWorld, plan: SocketPlan) -> None:
    stream = connected(world.network, world.listen(), plan)
    before = read_back(stream.detach())
    assert stream.keepalive is None
    stream.set_keepalive(Keepalive(1, 1, 6))
    assert read_back(stream.detach()) == before
    stream.close()


@LINUX
@pytest.mark.parametrize(
    ("option", "code"),
    [
        ((TCP, 250, 1), errno.ENOPROTOOPT),
        ((TCP, 4, 0), errno.EINVAL),
        ((TCP, 4, 2**40), errno.EINVAL),  # no number of C's
        ((socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"no-such-device"), errno.ENODEV),
    ],
)
def test_an_own_option_that_is_refused_is_named(option: Any, code: int) -> None:
    with socket.socket() as sock, pytest.raises(LocalRefusal) as failure:
        apply(sock, SocketPlan(extra=(option,)))
    assert failure.value.errno == code
    assert str(option) in str(failure.value)


@LINUX
def test_a_default_that_does_not_hold_is_noted() -> None:
    with socket.socket() as sock:
        notes = apply(sock, SocketPlan(user_timeout=11.0, keepalive=Keepalive(count=127)))
        assert notes == []

    class Odd(socket.socket):
        def getsockopt(self, *option: Any) -> Any:
            return 3 if option[:2] == (TCP, 4) else super().getsockopt(*option)

        def setsockopt(self, *option: Any) -> None:
            if option[:2] == (TCP, 18):
                raise OSError(errno.ENOPROTOOPT, "Protocol not available")
            super().setsockopt(*option)

    with Odd() as sock:
        assert apply(sock, SocketPlan(user_timeout=11.0)) == [
            "keepalive idle: set to 5, holds 3",
            "user timeout 11000: refused (Protocol not available)",
        ]


# --- the local address ------------------------------------------------------------------------


def test_the_local_address_is_bound(world: KernelWorld) -> None:
    stream = connected(world.network, world.listen(), SocketPlan(source=("127.0.0.2", 0)))
    assert stream.detach().getsockname()[0] == "127.0.0.2"
    stream.close()


@pytest.mark.parametrize(
    ("source", "family", "words"),
    [
        (("192.0.2.77", 0), socket.AF_INET, "192.0.2.77:0"),
        (("127.0.0.1", 0), socket.AF_INET6, "127.0.0.1:0"),
        (("::1", 0), socket.AF_INET, "[::1]:0"),
    ],
)
def test_a_local_address_that_is_refused_is_named(
    source: tuple[str, int], family: int, words: str
) -> None:
    """An OSError, also where Python calls the wrong family a failed look-up."""
    with socket.socket(family) as sock, pytest.raises(LocalRefusal) as failure:
        apply(sock, SocketPlan(source=source))
    assert failure.value.errno
    assert failure.value.errno > 0
    assert words in str(failure.value)


@LINUX
def test_one_local_port_serves_two_dials_of_a_race(world: KernelWorld) -> None:
    """While the first is unanswered, the second may still reach another address."""
    free = world.refusing()
    for sock in world._kept:
        sock.close()
    plan = SocketPlan(source=("127.0.0.1", free.port))
    first = world.network.dial(world.silent(), plan)
    second = connected(world.network, world.listen(), plan)
    assert first.local_port == second.local_port == free.port
    first.abort()
    second.abort()


# --- other platforms --------------------------------------------------------------------------


class Recorded:
    """A socket of another platform: takes everything, and reads back as that platform does."""

    def __init__(self, truth: int = 1) -> None:
        self.truth = truth
        self.set: dict[tuple[int, int], int] = {}

    def setsockopt(self, level: int, number: int, value: int) -> None:
        self.set[level, number] = value

    def getsockopt(self, level: int, number: int) -> int:
        flag = (level, number) in (READ_BACK["nodelay"], READ_BACK["keepalive"])
        return self.truth if flag else self.set[level, number]


def applied(
    monkeypatch: pytest.MonkeyPatch, platform: str, plan: SocketPlan, truth: int
) -> tuple[dict[tuple[int, int], int], list[str]]:
    sock: Any = Recorded(truth)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", platform)
        patch.setattr(options, "NUMBERS", options._platform())
        notes = [*apply(sock, plan), *options.apply_to_established(sock, plan)]
    return sock.set, notes


@pytest.mark.parametrize(
    ("platform", "numbers", "truth"),
    [
        # TCP_KEEPALIVE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_RXT_CONNDROPTIME; flags read back as 8, 4
        ("darwin", (0x10, 0x101, 0x102, 0x80), 8),
        # TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_MAXRT
        ("win32", (3, 17, 16, 5), 1),
    ],
)
def test_other_platforms_have_other_numbers(
    monkeypatch: pytest.MonkeyPatch, platform: str, numbers: tuple[int, ...], truth: int
) -> None:
    plan = SocketPlan(user_timeout=10.5, rto_max=2.0)
    done, notes = applied(monkeypatch, platform, plan, truth)
    idle, interval, count, user_timeout = numbers
    assert done == {
        READ_BACK["nodelay"]: 1,
        READ_BACK["keepalive"]: 1,
        (TCP, idle): 5,
        (TCP, interval): 1,
        (TCP, count): 6,
        (TCP, user_timeout): 11,  # whole seconds, rounded up
    }
    assert notes == ["RTO cap: this platform has none"]


def test_a_platform_without_options_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT"):
        monkeypatch.delattr(socket, name, raising=False)
    plan = SocketPlan(user_timeout=10.5, rto_max=2.0)
    _, notes = applied(monkeypatch, "sunos5", plan, 1)
    assert notes == [
        "keepalive idle: this platform has none",
        "keepalive interval: this platform has none",
        "keepalive count: this platform has none",
        "user timeout: this platform has none",
        "RTO cap: this platform has none",
    ]


@pytest.mark.parametrize(
    ("platform", "seconds", "value"),
    [
        ("linux", 11.0, 11_000),
        ("linux", 0.0, 0),
        ("linux", 0.0004, 1),  # 0 would switch it off
        ("linux", 1e9, 2**31 - 1),
        ("darwin", 0.2, 1),
        ("darwin", 11.0, 11),
        ("win32", 0.0, 0),
        ("win32", 1e12, 2**31 - 1),
    ],
)
def test_a_user_timeout_in_the_platforms_unit(
    monkeypatch: pytest.MonkeyPatch, platform: str, seconds: float, value: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", platform)
        assert user_timeout_option(seconds)[1] == value


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["idle", "interval", "count"])
@pytest.mark.parametrize("value", [0, -1, 40_000, 1.5, "5", True, None])
def test_a_bad_keepalive_is_named(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"keepalive {field}: .*Keepalive\(idle=5") as failure:
        Keepalive(**{field: value})
    assert repr(value) in str(failure.value)
