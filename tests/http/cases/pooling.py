"""Limits, reuse, and who gets the next connection."""

from __future__ import annotations

import socket
import sys
import threading

import httpx
import pytest

from outlast import Keepalive, Policy
from tests.http.callers import Caller, words
from tests.http.cases.table import Open, case, incident
from tests.http.servers import Peer, Server, serve

USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", 18)
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux socket options")


def option(caller: Caller, level: int, number: int) -> int:
    """An option of the one idle connection's socket, as the kernel holds it."""
    (descriptor,) = caller.idle_sockets()
    with socket.socket(fileno=socket.dup(descriptor)) as sock:
        return sock.getsockopt(level, number)


@case
async def one_connection_serves_all_in_turn(open_caller: Open) -> None:
    limits = httpx.Limits(max_connections=1)
    with Server(serve) as server:
        async with open_caller(limits=limits) as caller:
            answers: list[bytes] = []

            def getting(number: int) -> object:
                async def get() -> None:
                    for _ in range(5):
                        response = await caller.get(f"{server.url}/{number}")
                        answers.append(response.content)

                return get

            await caller.together(*[getting(n) for n in range(5)])  # type: ignore[arg-type]  # made in a loop
            assert caller.counts() == {"places": 1, "idle": 1, "busy": 0, "waiting": 0}
    assert server.connections == 1
    assert sorted(answers) == sorted(f"/{n}".encode() for n in range(5) for _ in range(5))


@case
async def never_more_connections_than_allowed(open_caller: Open) -> None:
    """Each request waits at the server for two of its kind, so two are really used at once."""
    meeting = threading.Barrier(2)
    most = []
    lock = threading.Lock()
    inside = 0

    def meet(peer: Peer) -> None:
        nonlocal inside
        while peer.request() is not None:
            with lock:
                inside += 1
                most.append(inside)
            meeting.wait(10)
            with lock:
                inside -= 1
            peer.answer()

    with Server(meet) as server:
        async with open_caller(limits=httpx.Limits(max_connections=2)) as caller:

            async def get() -> None:
                await caller.get(server.url)

            await caller.together(*[get] * 6)
    assert max(most) == 2
    assert server.connections == 2


@case
async def a_place_goes_from_one_endpoint_to_another(open_caller: Open) -> None:
    """The coldest idle connection gives way when all places are taken."""
    with Server(serve) as one, Server(serve) as two:
        async with open_caller(limits=httpx.Limits(max_connections=1)) as caller:
            for server in (one, two, one):
                await caller.get(server.url)
                assert caller.counts()["places"] == 1
    assert (one.connections, two.connections) == (2, 1)


@case
async def one_place_and_two_endpoints(open_caller: Open) -> None:
    """A connection to either endpoint of a target is better than a new one for a taken place."""
    with Server(serve) as one, Server(serve) as two:
        targets = {"http://orders": f"static://{one.address},{two.address}"}
        limits = httpx.Limits(max_connections=1)
        async with open_caller(targets=targets, limits=limits) as caller:
            for _ in range(6):
                await caller.get("http://orders")
    assert one.connections + two.connections == 1


@case
async def nothing_is_kept_if_nothing_may_be(open_caller: Open) -> None:
    limits = httpx.Limits(max_keepalive_connections=0)
    with Server(serve) as server:
        async with open_caller(limits=limits) as caller:
            for _ in range(3):
                await caller.get(server.url)
                assert caller.counts()["places"] == 0
    assert server.connections == 3


@case
async def at_most_so_many_are_kept(open_caller: Open) -> None:
    meeting = threading.Barrier(4)

    def meet(peer: Peer) -> None:
        peer.request()
        meeting.wait(10)
        peer.answer()
        serve(peer)

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=2)
    with Server(meet) as server:
        async with open_caller(limits=limits) as caller:

            async def get() -> None:
                await caller.get(server.url)

            await caller.together(*[get] * 4)
            assert caller.counts() == {"places": 2, "idle": 2, "busy": 0, "waiting": 0}


@case
async def expiry_and_age_are_the_policys(open_caller: Open) -> None:
    """So short that any clock has passed it by the next request."""
    limits = httpx.Limits(keepalive_expiry=1e-9)
    for arguments in (
        {"policy": Policy(idle_expiry=1e-9)},
        {"policy": Policy(max_age=1e-9)},
        {"limits": limits},
        {"policy": Policy(idle_expiry=1e-9), "limits": httpx.Limits(max_connections=5)},
    ):
        with Server(serve) as server:
            async with open_caller(**arguments) as caller:
                for _ in range(3):
                    await caller.get(server.url)
        assert server.connections == 3, arguments


@case
async def a_call_may_want_a_younger_connection(open_caller: Open) -> None:
    with Server(serve) as server:
        async with open_caller() as caller:
            await caller.get(server.url)
            await caller.get(server.url, extensions={"outlast": {"idle_expiry": 1e-9}})
            assert server.connections == 2
            await caller.get(server.url, extensions={"outlast": {"max_age": 1e-9}})
            assert server.connections == 2
            await caller.get(server.url)
    assert server.connections == 2


@case
async def origins_do_not_share_connections(open_caller: Open) -> None:
    with Server(serve) as server:
        targets = {f"http://{name}": f"static://{server.address}" for name in ("a", "b", "a:8080")}
        async with open_caller(targets=targets) as caller:
            for url in ("http://a", "http://b", "http://a:8080", "http://a/again", "http://A"):
                await caller.get(url)
    assert server.connections == 3


# -- options -------------------------------------------------------------------------------


@incident("FR-30")
@case
async def our_socket_options_hold(open_caller: Open) -> None:
    with Server(serve) as server:
        async with open_caller(policy=Policy(keepalive=Keepalive(7, 2, 4))) as caller:
            await caller.get(server.url)
            assert option(caller, socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert option(caller, socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 7
            assert option(caller, socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 2
            assert option(caller, socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 4
            assert option(caller, socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
            assert option(caller, socket.IPPROTO_TCP, USER_TIMEOUT) == 15_000  # as keepalive takes


@case
async def the_callers_socket_options_win(open_caller: Open) -> None:
    options = [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 0),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 99),
        (socket.IPPROTO_TCP, USER_TIMEOUT, 77_000),
    ]
    with Server(serve) as server:
        async with open_caller(socket_options=iter(options)) as caller:
            for _ in range(2):
                await caller.get(server.url, timeout=None)
                for level, number, value in options:
                    assert option(caller, level, number) == value


@case
async def a_user_timeout_is_the_calls_own(open_caller: Open) -> None:
    """On a connection that is reused too: what stands on it follows the call."""
    with Server(serve) as server:
        async with open_caller() as caller:
            for seconds, milliseconds in ((None, 11_000), (2.5, 2_500), (0, 0), (None, 11_000)):
                fields = {} if seconds is None else {"user_timeout": seconds}
                await caller.get(server.url, extensions={"outlast": fields})
                assert option(caller, socket.IPPROTO_TCP, USER_TIMEOUT) == milliseconds
    assert server.connections == 1


@case
async def a_user_timeout_does_not_end_a_slow_connect(open_caller: Open) -> None:
    """It is longer than the connect may take, until the connection stands."""
    with Server(serve) as server:
        async with open_caller() as caller:
            await caller.get(server.url, timeout=httpx.Timeout(5.0, connect=60.0))
            assert option(caller, socket.IPPROTO_TCP, USER_TIMEOUT) == 11_000


@case
async def a_local_address_is_used(open_caller: Open) -> None:
    heard: list[str] = []

    def who(peer: Peer) -> None:
        heard.append(peer.sock.getpeername()[0])
        serve(peer)

    with Server(who) as server:
        async with open_caller(local_address="127.0.0.77") as caller:
            await caller.get(server.url)
        async with open_caller(local_address="::1") as caller:
            with pytest.raises(httpx.ConnectError, match="nothing was sent"):
                await caller.get(server.url)
    assert heard == ["127.0.0.77"]


@case
async def a_socket_option_that_the_kernel_refuses_is_told(open_caller: Open) -> None:
    options = [(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 0)]
    with Server(serve) as server:
        async with open_caller(socket_options=options) as caller:
            with pytest.raises(httpx.ConnectError) as caught:
                await caller.get(server.url)
    assert any("socket option (6, 4, 0)" in what for what in words(caught.value))
