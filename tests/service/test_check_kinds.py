"""The kinds of active checks: what may be written, and what a call in a thread of its own does."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import outlast
from outlast.core.health_plan import Evidence
from outlast.net.address import Address, unix_address
from outlast.net.errand import MAX_THREADS, start_errand
from outlast.net.kernel import KernelNetwork, kernel
from outlast.net.options import LocalRefusal
from outlast.net.run import run_sync
from outlast.service.check_kinds import CallCheck, CheckKind, Outcome, TcpCheck, read_check
from outlast.testing import SimNet
from tests.net.far_side import PATIENCE
from tests.net.kernel_world import KernelWorld
from tests.net.scripted import at
from tests.service.checking import Owner, address_of, keep_using, probe_once

A = at("127.0.0.1", 9)


def well(_address: Address) -> bool:
    return True


async def asynchronous(_address: Address) -> bool:
    return True


class Asynchronous:
    async def __call__(self, address: Address) -> bool:
        return True


# --- what may be written ------------------------------------------------------------------------


def test_durations_may_be_written_as_text() -> None:
    check = TcpCheck(interval="5s", fast_interval="250ms", timeout="1.5s")  # type: ignore[arg-type]  # as in a policy
    assert (check.interval, check.fast_interval, check.timeout) == (5.0, 0.25, 1.5)
    assert (check.plan.interval, check.plan.fast_interval) == (5.0, 0.25)
    assert (check.plan.timeout, check.plan.rise, check.plan.fall) == (1.5, 2, 3)


def test_defaults_are_haproxys() -> None:
    check = TcpCheck()
    assert (check.interval, check.rise, check.fall) == (2.0, 2, 3)


def test_they_are_values() -> None:
    assert TcpCheck(port=81) == TcpCheck(port=81) != TcpCheck()
    assert len({TcpCheck(), TcpCheck(), CallCheck(well), CallCheck(well)}) == 2
    with pytest.raises(AttributeError):
        TcpCheck().port = 5  # type: ignore[misc]  # that it is frozen is the test


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"interval": 0}, "TcpCheck: interval 0 is not from 10 ms to a day"),
        ({"interval": 100_000}, "TcpCheck: interval 100000"),
        ({"interval": "soon"}, "TcpCheck: interval: 'soon' is no duration"),
        ({"interval": None}, "TcpCheck: interval: None is no duration"),
        ({"fast_interval": 0.001}, "TcpCheck: fast_interval 0.001"),
        ({"fast_interval": 3.0}, "TcpCheck: fast_interval 3 s is longer than interval 2 s"),
        ({"timeout": -1}, "TcpCheck: timeout: -1 is no duration"),
        ({"timeout": float("nan")}, "TcpCheck: timeout: nan is no duration"),
        ({"rise": 0}, "TcpCheck: rise 0 is no number of checks"),
        ({"rise": True}, "TcpCheck: rise True is no number"),
        ({"fall": 2.5}, "TcpCheck: fall 2.5 is no number"),
        ({"fall": 101}, "TcpCheck: fall 101 is no number"),
        ({"port": 0}, "TcpCheck: port 0 is not from 1 to 65535"),
        ({"port": 65536}, "TcpCheck: port 65536"),
        ({"port": "81"}, "TcpCheck: port '81'"),
        ({"port": True}, "TcpCheck: port True"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as caught:
        TcpCheck(**given)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (None, "CallCheck: call None cannot be called"),
        ("ping", "CallCheck: call 'ping' cannot be called"),
        (asynchronous, "is a coroutine function"),
        (Asynchronous(), "is a coroutine function"),
        (functools.partial(asynchronous), "is a coroutine function"),
    ],
)
def test_a_wrong_call_is_named(call: Any, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        CallCheck(call)
    assert said in str(caught.value)
    assert "write a plain function" in str(caught.value)


def test_figures_of_a_call_are_checked_too() -> None:
    with pytest.raises(ValueError, match="CallCheck: fall 0"):
        CallCheck(well, fall=0)


@pytest.mark.parametrize("value", [5, "/healthz", TcpCheck, well, {"path": "/"}])
def test_what_is_no_check_is_named(value: Any) -> None:
    with pytest.raises(ValueError) as caught:
        read_check(value, "target 'orders': check")
    assert str(caught.value).startswith(f"target 'orders': check: {value!r} is no active check")
    assert "write TcpCheck()" in str(caught.value)


def test_a_check_is_one_and_so_is_none() -> None:
    check = TcpCheck()
    assert read_check(check, "check") is check
    assert read_check(None, "check") is None


# --- connects -----------------------------------------------------------------------------------


@pytest.fixture
def world() -> Iterator[KernelWorld]:
    made = KernelWorld()
    yield made
    made.close()


def test_a_connect_that_succeeds(world: KernelWorld) -> None:
    listener = world.listen()
    assert probe_once(world.network, TcpCheck(), listener.address) == Outcome(True, "connected")
    listener.sock.settimeout(PATIENCE)
    sock, _ = listener.sock.accept()
    with sock:
        sock.settimeout(PATIENCE)
        assert sock.recv(1) == b""  # closed in good order, nothing sent


@pytest.mark.parametrize("family", [2, 10])
def test_another_port_of_the_same_host(world: KernelWorld, family: int) -> None:
    listener = world.listen(family)
    host = "127.0.0.1" if family == 2 else "::1"
    check = TcpCheck(port=listener.address.port)
    assert probe_once(world.network, check, at(host, 9)) == Outcome(True, "connected")


def test_a_connect_that_is_refused(world: KernelWorld) -> None:
    error = probe_once(world.network, TcpCheck(), world.refusing())
    assert isinstance(error, ConnectionRefusedError)


def test_a_connect_that_is_given_up_leaves_nothing_behind(world: KernelWorld) -> None:
    assert probe_once(world.network, TcpCheck(), world.silent(), timeout=0.05) is None


def test_another_port_where_there_are_none_is_nobodys_fault(world: KernelWorld) -> None:
    error = probe_once(world.network, TcpCheck(port=81), unix_address("/nowhere"))
    assert isinstance(error, LocalRefusal)
    assert "/nowhere" in str(error)


def test_a_way_that_does_not_exist_is_this_machines_fault(world: KernelWorld) -> None:
    error = probe_once(world.network, TcpCheck(), at("255.255.255.255", 9))
    assert isinstance(error, LocalRefusal)


# --- calls --------------------------------------------------------------------------------------


def raising(error: Exception) -> Callable[[Address], bool]:
    def call(_address: Address) -> bool:
        raise error

    return call


@pytest.mark.parametrize(
    ("call", "outcome"),
    [
        (well, Outcome(True, "the call returned True", Evidence.ANSWERS)),
        (lambda _: False, Outcome(False, "the call returned False", Evidence.ANSWERS)),
        (lambda _: None, Outcome(None, "the call returned None, which is neither True nor False")),
        (lambda _: 1, Outcome(None, "the call returned 1, which is neither True nor False")),
        (
            raising(ConnectionRefusedError(111, "no")),
            Outcome(False, "the call raised ConnectionRefusedError: [Errno 111] no"),
        ),
        (
            raising(KeyError("x")),
            Outcome(False, "the call raised KeyError: 'x'", Evidence.ANSWERS),
        ),
    ],
)
def test_how_a_call_ends(call: Callable[[Address], bool], outcome: Outcome) -> None:
    assert probe_once(kernel(), CallCheck(call), A) == outcome


def test_a_call_that_would_end_the_program() -> None:
    def leave(_address: Address) -> bool:
        raise SystemExit(3)

    outcome = probe_once(kernel(), CallCheck(leave), A)
    assert isinstance(outcome, Outcome)
    assert outcome.ok is False
    assert "cannot end the program" in outcome.why


def test_a_call_is_given_the_address_in_a_thread_of_its_own() -> None:
    seen: list[Any] = []

    def call(address: Address) -> bool:
        seen.extend((address.host, address.port, str(address), threading.get_ident()))
        return True

    probe_once(kernel(), CallCheck(call), A)
    assert seen[:3] == ["127.0.0.1", 9, "127.0.0.1:9"]
    assert seen[3] != threading.get_ident()


def test_a_call_that_hangs_is_not_made_again_until_it_is_back() -> None:
    gate, entered = threading.Event(), threading.Event()
    calls: list[Address] = []

    def call(address: Address) -> bool:
        calls.append(address)
        entered.set()
        return gate.wait(PATIENCE)

    check = CallCheck(call, timeout=0.05, interval=0.05, fast_interval=0.05, fall=3)
    owner = Owner(KernelNetwork(), check, [A])
    down = told(owner, lambda: any(not each.up for each in owner.told))
    owner.use()
    assert down.wait(PATIENCE)
    assert len(calls) == 1
    assert owner.checks.state(A).why == "an earlier call has not come back yet"
    up = told(owner, lambda: owner.told[-1].up)
    gate.set()
    assert up.wait(PATIENCE)
    assert len(calls) > 1
    owner.checks.stop()


def told(owner: Owner, wanted: Callable[[], bool]) -> threading.Event:
    """Set when what the owner has heard is as wanted."""
    event = threading.Event()
    owner.on_told = lambda: event.set() if wanted() else None
    return event


def test_a_call_for_which_there_is_no_thread_tells_nothing() -> None:
    gate = threading.Event()
    network = kernel()
    errands = [start_errand(network, lambda: gate.wait(PATIENCE)) for _ in range(MAX_THREADS)]
    refused = probe_once(network, CallCheck(well), A)
    gate.set()
    assert isinstance(refused, LocalRefusal)
    assert all(run_sync(network, errand.result()) for errand in errands)


def test_calls_may_use_the_network_in_virtual_time() -> None:
    net = SimNet()
    node = net.node("a")
    pod = node.pod()
    address = address_of(pod.endpoint)

    def call(where: Address) -> bool:
        outlast.create_connection(where.pair, timeout=0.5, network=net).close()
        return True

    owner = Owner(net, CallCheck(call), [address])
    net.at(3.5, pod.kill)
    with net.running():
        keep_using(net, owner, 6.0)
    assert owner.times(address) == [0.0, 2.0, 4.0, 4.5, 5.0, 5.5]
    (_, up), (at_, down) = owner.changes(address)
    assert (up, down) == (True, False)
    assert at_ == pytest.approx(5.0, abs=0.005)  # refused again and again first


def test_kinds_are_what_a_kind_has_to_be() -> None:
    kinds: list[CheckKind] = [TcpCheck(), CallCheck(well)]
    assert [kind.at_once for kind in kinds] == [256, 16]
