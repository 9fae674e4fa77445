"""Hedges, attempt timeouts and circuit limits on the simulated network: by threads, on asyncio, on
trio; the loser of a hedge on HTTP/2 beside its siblings."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest

import outlast
from outlast import CircuitLimits, PickFirst, Policy, Target
from outlast.testing import SimNet
from tests.fire.h2_pod import Books, serve_h2
from tests.fire.routing import ORIGIN, URL, Scene
from tests.http.callers import report_of

LOOPS = ["asyncio", "trio"]
BACKENDS = ["threads", *LOOPS]


def play(scene: Scene, backend: str, target: Any, policy: Policy, workers: int, calls: int) -> Any:
    """Workers that call one after the other: what each call took, and its body."""
    done: list[tuple[float, bytes]] = []
    more: Any = {"network": scene.net, "targets": {ORIGIN: target}, "policy": policy}
    if backend == "threads":
        run_threads(scene, outlast.Transport(**more), workers, calls, done)
    else:
        run_tasks(scene, outlast.AsyncTransport(**more), workers, calls, done, backend)
    return done


def run_threads(
    scene: Scene, transport: outlast.Transport, workers: int, calls: int, done: list[Any]
) -> None:
    def work() -> None:
        for _ in range(calls):
            began = scene.net.elapsed()
            body = client.get(URL).content
            done.append((scene.net.elapsed() - began, body))

    with scene.net, scene.net.running(), httpx.Client(transport=transport, timeout=5.0) as client:
        threads = [threading.Thread(target=work) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)
            assert not thread.is_alive()


def run_tasks(
    scene: Scene,
    transport: outlast.AsyncTransport,
    workers: int,
    calls: int,
    done: list[Any],
    backend: str,
) -> None:
    async def main() -> None:
        async def work() -> None:
            for _ in range(calls):
                began = scene.net.elapsed()
                body = (await client.get(URL)).content
                done.append((scene.net.elapsed() - began, body))

        async with httpx.AsyncClient(transport=transport, timeout=5.0) as client:
            async with anyio.create_task_group() as group:
                for _ in range(workers):
                    group.start_soon(work)

    scene.net.run(main, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hedge_is_answered_by_another_pod(backend: str) -> None:
    scene = Scene(1, 2)
    scene.takes[0] = 2.0
    target = Target(scene.text, balance=PickFirst())
    done = play(scene, backend, target, Policy(hedge=0.05, retry_budget=(1, 10)), 1, 5)
    assert [body for _, body in done] == [b"1"] * 5
    assert all(0.05 <= took < 0.1 for took, _ in done), done
    assert scene.asked.shares() == {0: 5, 1: 5}


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_attempt_timeout_moves_on_to_another_pod(backend: str) -> None:
    scene = Scene(1, 2)
    scene.takes[0] = 2.0
    target = Target(scene.text, balance=PickFirst())
    done = play(scene, backend, target, Policy(attempt_timeout=0.2), 1, 3)
    assert [body for _, body in done] == [b"1"] * 3
    assert all(took < 0.5 for took, _ in done), done


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_pod_is_given_more_than_its_limit(backend: str) -> None:
    scene = Scene(1, 3, takes=0.02)
    under_way, most = [0] * 3, [0] * 3
    takes = scene._takes

    def counted(number: int) -> float:
        under_way[number] += 1
        most[number] = max(most[number], under_way[number])
        scene.net.at(scene.net.elapsed() + 0.02, leave, number)
        return takes(number)

    def leave(pod: int) -> None:
        under_way[pod] -= 1

    scene._takes = counted  # type: ignore[method-assign]  # of this one scene
    target = Target(scene.text, circuit=CircuitLimits(in_flight=2))
    done = play(scene, backend, target, Policy(), 12, 10)
    assert len(done) == 120
    assert most == [2, 2, 2]
    assert max(took for took, _ in done) < 0.2  # nobody is forgotten in line


@pytest.mark.parametrize("backend", LOOPS)
def test_the_loser_of_a_hedge_does_its_siblings_no_harm(backend: str) -> None:
    """A frozen pod has two requests on one connection. One of them is hedged: its stream is reset,
    the other is answered on the same connection when the pod goes on."""
    net = SimNet()
    first, second = (net.node(name).pod(serve_h2(Books(), 0, 100), port=80) for name in "ab")
    target = Target(f"static://{first.address},{second.address}", balance=PickFirst())
    got: dict[str, tuple[float, int]] = {}
    origin = "http://orders.shop.svc"

    async def main() -> None:
        transport = outlast.AsyncTransport(
            network=net, http1=False, http2=True, targets={origin: target}
        )
        async with httpx.AsyncClient(transport=transport, timeout=10.0) as client:

            async def ask(name: str, **policy: Any) -> None:
                began, headers = net.elapsed(), {"x-request-id": name}
                response = await client.get(
                    f"{origin}/",
                    headers=headers,
                    extensions={"outlast": policy},
                )
                got[name] = net.elapsed() - began, report_of(response).events[-1].local_port
                assert response.status_code == 200

            await ask("warm")
            first.freeze()
            async with anyio.create_task_group() as group:
                group.start_soon(ask, "sibling")
                await anyio.sleep(0.01)
                await ask("hedged", hedge=0.05)
                net.at(net.elapsed() + 1.0, first.thaw)
            await ask("after")

    with net:
        net.run(main, backend=backend)
    assert got["hedged"][0] < 0.1
    assert got["hedged"][1] != got["warm"][1]
    assert got["sibling"][1] == got["warm"][1] == got["after"][1]
    assert got["sibling"][0] > 1.0
    assert first.counts()["connections"] == second.counts()["connections"] == 1


@pytest.mark.parametrize("backend", LOOPS)
def test_limits_count_what_shares_a_connection(backend: str) -> None:
    """On HTTP/2 four at a time, on one connection, and no more of those than one."""
    net = SimNet()
    pod = net.node("a").pod(serve_h2(Books(), 0, 100), port=80)
    limits = CircuitLimits(in_flight=4, connections=1)
    ended: list[float] = []
    origin = "http://orders.shop.svc"

    async def main() -> None:
        targets = {origin: Target(f"static://{pod.address}", circuit=limits)}
        transport = outlast.AsyncTransport(network=net, http1=False, http2=True, targets=targets)
        async with httpx.AsyncClient(transport=transport, timeout=10.0) as client:

            async def ask(number: int) -> None:
                headers = {"x-request-id": str(number)}
                response = await client.get(f"{origin}/?delay=1", headers=headers)
                assert response.status_code == 200
                ended.append(net.elapsed())

            async with anyio.create_task_group() as group:
                for number in range(12):
                    group.start_soon(ask, number)

    with net:
        net.run(main, backend=backend)
    seconds = [int(at) for at in sorted(ended)]
    assert seconds == [1] * 4 + [2] * 4 + [3] * 4
    assert pod.counts()["connections"] == 1


@pytest.mark.parametrize("backend", LOOPS)
@pytest.mark.parametrize("policy", [{"attempt_timeout": 0.5}, {"hedge": 0.1}], ids=str)
def test_a_body_of_the_caller_s_own_awaits_what_it_likes(
    backend: str, policy: dict[str, float]
) -> None:
    """It is sent once: never hedged, and ended with its attempt."""
    scene = Scene(1, 2, takes=1.0)
    took: list[float] = []

    async def body() -> AsyncIterator[bytes]:
        for _ in range(3):
            await anyio.sleep(0.05)
            yield b"x" * 1000

    async def main() -> None:
        async with scene.client(policy=Policy(**policy)) as client:  # type: ignore[arg-type]  # figures
            began = scene.net.elapsed()
            if "hedge" in policy:
                assert (await client.put(URL, content=body())).status_code == 200
            else:
                with pytest.raises(httpx.ReadTimeout, match="attempt_timeout"):
                    await client.put(URL, content=body())
            took.append(scene.net.elapsed() - began)

    scene.net.run(main, backend=backend)
    assert took == pytest.approx([0.5 if "attempt_timeout" in policy else 1.0], abs=0.01)
    assert len(scene.asked.at) == 1
