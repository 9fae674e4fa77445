"""Reports from the field about exhausted pools, replayed on loopback in real time."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Sequence

import anyio
import httpx
import pytest

import outlast
from outlast.net.address import Address
from outlast.net.kernel import KernelNetwork
from tests.http.servers import BOUND, Peer, Server
from tests.stress.chaos import Chaos
from tests.stress.load import Tally, at_rest, in_threads

READ = 0.5  # seconds that an attempt may take
CONTENDED = 1.0  # seconds of random cancellations; 5 in the report


@pytest.mark.incident("FR-68")
@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
async def test_fr68_random_cancellations_of_a_contended_pool() -> None:
    """A pool of 10, 20 tasks, cancelled at random; then one request succeeds, and no slot is
    orphaned."""
    seed = random.randrange(1 << 30)
    limits = httpx.Limits(max_connections=10, max_keepalive_connections=5)
    with Chaos(seed) as chaos:
        chaos.tell("mood wild")
        transport = outlast.AsyncTransport(limits=limits)
        async with httpx.AsyncClient(transport=transport, timeout=BOUND) as client:
            end = time.monotonic() + CONTENDED
            cut = 0

            async def worker(number: int) -> None:
                nonlocal cut
                rng = random.Random(f"{seed} {number}")
                while time.monotonic() < end:
                    with anyio.move_on_after(rng.uniform(0, 0.01)) as scope:
                        try:
                            await client.post(rng.choice(chaos.urls), content=b"x" * 1000)
                        except httpx.TransportError:
                            continue
                    cut += scope.cancelled_caught

            async with anyio.create_task_group() as group:
                for number in range(20):
                    group.start_soon(worker, number)
            assert cut > 50
            assert list(at_rest(transport)) == []
            chaos.tell("mood calm")
            answer = await client.get(chaos.urls[0], extensions={"timeout": {"pool": 0.001}})
            assert answer.status_code == 200


@pytest.mark.incident("FR-69")
def test_fr69_a_mute_listener_that_heals() -> None:
    """20 threads, 200 requests at a server that answers nothing; then it heals: within one
    attempt's timeout every call is answered, as fast as before."""
    with Chaos(random.randrange(1 << 30)) as chaos:
        transport = outlast.Transport(limits=httpx.Limits(max_connections=10))
        with httpx.Client(transport=transport, timeout=httpx.Timeout(BOUND, read=READ)) as client:
            tally = Tally()

            def call() -> None:
                try:
                    client.get(chaos.urls[0] + "/x").raise_for_status()
                    tally.add("answered")
                except httpx.TransportError as error:
                    tally.add(type(error).__name__)

            def ten() -> None:
                for _ in range(10):
                    call()

            def healthy() -> float:
                begun = time.monotonic()
                in_threads([ten] * 20, BOUND)
                return time.monotonic() - begun

            before = healthy()
            assert tally.counts.pop("answered") == 200
            chaos.tell("mood mute")
            in_threads([call] * 20, BOUND)
            assert tally.counts == {"ReadTimeout": 20}
            tally.counts.clear()
            threads = [threading.Thread(target=call) for _ in range(20)]
            for thread in threads:
                thread.start()  # the pool is full of them
            chaos.tell("mood calm")
            healed = time.monotonic()
            for thread in threads:
                thread.join(BOUND)
            assert time.monotonic() - healed < 2 * READ + before
            tally.counts.clear()
            after = healthy()
            assert tally.counts == {"answered": 200}
            assert after < 3 * before + READ
            assert list(at_rest(transport)) == []


@pytest.mark.incident("FR-71")
@pytest.mark.parametrize("named", [False, True], ids=["listed", "by name"])
def test_fr71_a_mute_backend_does_not_hold_all_places(named: bool) -> None:
    """Three endpoints, one accepts and never answers. Callers come and come: those that it holds
    take at most half of the pool, and the others are served at once, each on a new connection."""
    places = 8
    answers: list[httpx.Response] = []

    def hold(peer: Peer) -> None:
        while peer.request() is not None:
            peer.wait(peer.server.gate)
            peer.answer()

    def once(peer: Peer) -> None:
        if peer.request() is not None:
            peer.answer(200, b"", connection="close")

    with Server(hold) as dead, Server(once) as one, Server(once) as other:
        transport = transport_to((dead, one, other), named, places)
        with httpx.Client(transport=transport, timeout=BOUND) as client:
            threads: list[threading.Thread] = []

            def call() -> None:
                answers.append(client.get("http://orders.test:80/x"))

            for _ in range(16):
                for _ in range(6):
                    threads.append(threading.Thread(target=call))
                    threads[-1].start()
                until(lambda: len(answers) + len(dead.requests) == len(threads))
            assert 1 <= dead.connections <= places // 2
            dead.gate.set()
            for thread in threads:
                thread.join(BOUND)
    assert [each.status_code for each in answers] == [200] * len(threads)


def transport_to(servers: Sequence[Server], named: bool, places: int) -> outlast.Transport:
    """Several endpoints of orders.test, as a list or as what its name resolves to."""
    limits = httpx.Limits(max_connections=places)
    if named:
        found = [Address(socket.AF_INET, ("127.0.0.1", each.port)) for each in servers]
        return outlast.Transport(limits=limits, network=KernelNetwork(lambda host, port: found))
    target = "static://" + ",".join(each.address for each in servers)
    return outlast.Transport(limits=limits, targets={"http://orders.test": target})


def until(done: Callable[[], bool]) -> None:
    """Wait for other threads, with a bound."""
    for _ in range(int(BOUND / 0.005)):
        if done():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it has not come to that")
