"""`SimNet`: a request in each world, and the kernel lab's words in virtual time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import httpx
import pytest

import outlast
from outlast.testing import Request, Response, SimNet

NAME = "orders.shop.svc:8080"
URL = f"http://{NAME}/"


def two_nodes(seed: int = 7, serves: Any = None) -> SimNet:
    net = SimNet(seed=seed)
    pods = [net.node(name).pod(serves) for name in ("a", "b")]
    net.service(NAME, pods=pods)
    return net


def pods_of(net: SimNet) -> list[Any]:
    return [pod for node in net.nodes.values() for pod in node.pods]


def client(net: SimNet, **more: Any) -> httpx.Client:
    return httpx.Client(transport=outlast.Transport(network=net, **more))


def async_client(net: SimNet, **more: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=outlast.AsyncTransport(network=net, **more))


def get(net: SimNet, backend: str, url: str) -> httpx.Response:
    """One GET in a world of its own."""
    if backend == "sync":
        with net.running(), client(net) as sync:
            return sync.get(url)

    async def main() -> httpx.Response:
        async with async_client(net) as one:
            return await one.get(url)

    return net.run(main, backend=backend)


@pytest.fixture(params=["sync", "asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_get(backend: str) -> None:
    net = two_nodes()
    response = get(net, backend, f"{URL}?delay=2")
    assert response.json()["n"] == 1
    assert response.extensions["outlast"] is not None
    assert 2 < net.elapsed() < 2.01
    counted = [pod.counts() for pod in pods_of(net)]
    assert sorted(count["requests"] for count in counted) == [0, 1]
    assert [count["connections"] for count in counted] == [0, 1]  # this seed's choice


def test_a_node_is_lost_and_nobody_notices(backend: str) -> None:
    """Incident A: half of the endpoints are gone for 40 s."""
    net = two_nodes()
    a = net.node("c")
    orders = net.service("carts.shop.svc:80", pods=[a.pod(), net.node("d").pod()])
    net.at(3.0, a.power_off)
    net.at(43.0, orders.remove, a)
    statuses: list[int] = []

    async def main() -> None:
        async with async_client(net) as one:
            while net.elapsed() < 60:
                statuses.append((await one.get("http://carts.shop.svc/")).status_code)
                await anyio.sleep(0.5)

    def sync_main() -> None:
        with client(net) as one:
            while net.elapsed() < 60:
                statuses.append(one.get("http://carts.shop.svc/").status_code)
                net.sleep(0.5)

    if backend == "sync":
        with net.running():
            sync_main()
    else:
        net.run(main, backend=backend)
    assert set(statuses) == {200}
    assert len(statuses) > 100
    assert [what for _, what in net.log][-2:] == [
        "c: power off",
        "carts.shop.svc:80: remove c-1",
    ]
    assert [round(when) for when, _ in net.log][-2:] == [3, 43]


def test_times_begin_anew_with_each_run() -> None:
    net = SimNet()
    seen: list[float] = []
    net.at(2.0, lambda: seen.append(net.elapsed()))
    assert net.elapsed() == 0
    with net.running():
        net.sleep(1)
        net.at(0.5, lambda: seen.append(net.elapsed()))
        net.sleep(2)
    assert net.elapsed() == 3
    with net.running():
        assert net.elapsed() == 0
        net.at(7.0, lambda: seen.append(net.elapsed()))
        net.sleep(1)
    assert seen == [1, 2]


def test_a_scheduled_action_that_fails_is_told_at_the_end() -> None:
    net, seen = SimNet(), list[str]()

    def fail() -> None:
        raise ValueError("action")

    net.at(1.0, fail)
    net.at(2.0, seen.append, "the other")

    def scenario() -> None:
        with net.running():
            net.sleep(3)

    with pytest.raises(ValueError, match="action"):
        scenario()
    assert seen == ["the other"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes came with Python 3.11")
def test_a_failure_tells_its_seed(backend: str) -> None:
    net = SimNet(seed="x7")

    def scenario() -> None:
        with net.running():
            net.sleep(1.5)
            raise ValueError("mine")

    async def main() -> None:
        await anyio.sleep(1.5)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as told:
        scenario() if backend == "sync" else net.run(main, backend=backend)
    assert vars(told.value)["__notes__"] == [
        "SimNet(seed='x7'), after 1.500000 s of virtual time: the same seed has it again"
    ]


def test_a_time_before_the_start_is_refused() -> None:
    with pytest.raises(ValueError, match=r"right: net\.at\(3\.0"):
        SimNet().at(-1, print)


# -- workers -------------------------------------------------------------------------------


def test_workers_side_by_side() -> None:
    net = two_nodes()

    def work(number: int) -> Callable[[], list[int]]:
        def run() -> list[int]:
            with client(net) as one:
                return [one.get(URL, params={"w": number}).status_code for _ in range(5)]

        return run

    with net.running():
        assert net.gather(*map(work, range(4))) == [[200] * 5] * 4
    assert sum(pod.counts()["requests"] for pod in pods_of(net)) == 20


def test_gather_takes_names_and_raises_the_first_failure() -> None:
    net = SimNet()

    def fail() -> None:
        net.sleep(1)
        raise ValueError("second")

    with net.running():
        with pytest.raises(ValueError, match="one for each"):
            net.gather(fail, names=["a", "b"])
        names = net.gather(net.simulation.worker, net.simulation.worker, names=["x", "y"])
        assert names == ["x", "y"]
        with pytest.raises(ValueError, match="second"):
            net.gather(lambda: net.sleep(2), fail)
        assert net.elapsed() == 2


# -- pods ----------------------------------------------------------------------------------


def test_a_plain_handler(backend: str) -> None:
    def handler(request: Request) -> Response | str | int:
        if request.path == "/slow":
            return Response("later", status=201, headers=[("X-Way", request.query)], delay=3)
        return 418 if request.path == "/tea" else f"{request.method} {request.headers['host']}"

    net = two_nodes(serves=handler)
    assert get(net, backend, URL).text == f"GET {NAME}"
    assert get(net, backend, f"{URL}tea").status_code == 418
    slow = get(net, backend, f"{URL}slow?round")
    assert (slow.status_code, slow.text, slow.headers["x-way"]) == (201, "later", "round")
    assert net.elapsed() > 3


def test_an_async_handler_and_a_slow_drip() -> None:
    async def handler(request: Request) -> Response:
        await anyio.sleep(2)
        return Response(request.body[::-1], drip=0.5)

    net = two_nodes(serves=handler)
    with net.running(), client(net) as one:
        response = one.post(URL, content=b"abcd")
    assert response.content == b"dcba"
    assert 3.5 <= net.elapsed() < 3.6


def test_an_asgi_application(backend: str) -> None:
    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        with anyio.move_on_after(1.5):
            await anyio.sleep(60)
        body = scope["path"].encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"!"})

    net = two_nodes(serves=app)
    assert get(net, backend, f"{URL}hello").text == "/hello!"
    assert 1.5 <= net.elapsed() < 1.6


def test_an_application_may_work_in_threads(backend: str) -> None:
    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        total = await anyio.to_thread.run_sync(lambda: sum(range(100_000)))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"%d" % total})

    net = two_nodes(serves=app)
    assert get(net, backend, URL).text == str(sum(range(100_000)))
    assert net.elapsed() < 0.1


def test_an_application_may_call_others(backend: str) -> None:
    net = SimNet(seed=3)
    net.service("stock.shop.svc:80", pods=[net.node("far").pod()])
    front = net.node("front")

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        transport = outlast.AsyncTransport(network=front.network)
        async with httpx.AsyncClient(transport=transport) as one:
            below = await one.get("http://stock.shop.svc/?delay=1")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": below.content})

    net.service(NAME, pods=[front.pod(app)])
    assert get(net, backend, URL).json() == {"pod": "far-1", "n": 1}


def test_a_raw_handler(backend: str) -> None:
    async def shout(reader: Any, writer: Any) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()

    net = SimNet()
    pod = net.node("a").pod(shout, port=7)
    with net.running():
        sock = outlast.create_connection((pod.host, pod.port), timeout=5, network=net)
        with sock, sock.makefile("rwb") as file:
            file.write(b"hello\n")
            file.flush()
            assert file.readline() == b"HELLO\n"

    async def main() -> bytes:
        async with await outlast.connect_tcp(pod.host, pod.port, network=net) as stream:
            await stream.send(b"again\n")
            return await stream.receive()

    if backend != "sync":
        assert net.run(main, backend=backend) == b"AGAIN\n"
    assert pod.counts()["connections"] == (1 if backend == "sync" else 2)


@pytest.mark.parametrize("serves", [7, lambda: None, lambda a, b, c, d: None])
def test_what_a_pod_cannot_serve_is_refused(serves: Any) -> None:
    with pytest.raises(ValueError, match="right: "):
        SimNet().node("a").pod(serves)


def test_a_pod_serves_one_thing() -> None:
    def handler(request: Request) -> str:
        return "ok"

    with pytest.raises(ValueError, match="serves one thing"):
        SimNet().node("a").pod(handler, raw=lambda reader, writer: None)


# -- what befalls pods ---------------------------------------------------------------------


def test_a_frozen_pod_answers_when_it_is_thawed() -> None:
    net = SimNet()
    pod = net.node("a").pod()
    net.at(1.0, pod.freeze)
    net.at(9.0, pod.thaw)
    with net.running(), client(net) as one:
        net.sleep(2)
        assert one.get(pod.url, timeout=60).status_code == 200
        assert net.elapsed() >= 9
    assert pod.counts()["requests"] == 1


def test_counts_stay_over_all_lives() -> None:
    net = SimNet()
    pod = net.node("a").pod()
    with net.running(), client(net) as one:
        for number in range(3):
            one.post(pod.url, headers={"x-request-id": f"r{number}"})
            pod.kill()
            with pytest.raises(httpx.ConnectError):
                one.get(pod.url)
            pod.start()
    counts = pod.counts()
    assert (counts["requests"], counts["connections"], counts["open"]) == (3, 3, 0)
    assert counts["ids"] == {"r0": 1, "r1": 1, "r2": 1}


def test_a_killed_pod_s_handlers_end() -> None:
    trail: list[str] = []

    async def handler(request: Request) -> str:
        trail.append("begins")
        try:
            await anyio.sleep(100)
        finally:
            trail.append("ends")
        return "never"

    net = SimNet()
    pod = net.node("a").pod(handler)
    net.at(2.0, pod.kill)
    with net.running(), client(net) as one:
        with pytest.raises(httpx.TransportError):
            one.post(pod.url)
        assert net.elapsed() == pytest.approx(2, abs=0.1)
    assert trail == ["begins", "ends"]


def test_a_pod_that_is_stopped_answers_what_is_under_way() -> None:
    net = SimNet()
    pod = net.node("a").pod()
    net.at(1.0, pod.stop)
    with net.running(), client(net) as one:
        assert one.get(f"{pod.url}/?delay=3").status_code == 200
        assert net.elapsed() < 3.1
        with pytest.raises(httpx.ConnectError):
            one.get(pod.url)
    assert [what for _, what in net.log][-2:] == ["a-1: stop", "a-1: exit"]


# -- sync code beside async ----------------------------------------------------------------


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_sync_code_in_a_worker_thread_of_a_loop(loop: str) -> None:
    net = two_nodes()

    def ask() -> int:
        with client(net) as one:
            return one.get(f"{URL}?delay=2").status_code

    async def main() -> list[int]:
        found: list[int] = []

        async def work() -> None:
            found.append(await anyio.to_thread.run_sync(ask))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(work)
            await anyio.sleep(1)
            assert not found
        return found

    assert net.run(main, backend=loop) == [200] * 3
    assert 2 <= net.elapsed() < 2.1


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_worker_thread_calls_back_into_its_loop(loop: str) -> None:
    net = SimNet()

    async def main() -> float:
        def work() -> float:
            anyio.from_thread.run(anyio.sleep, 3)
            return net.elapsed()

        return await anyio.to_thread.run_sync(work)

    assert net.run(main, backend=loop) == 3


def test_a_thread_pool_of_plain_threads() -> None:
    net = two_nodes()
    with net.running(), client(net) as one:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(one.get, [f"{URL}?delay=1"] * 8))
        assert [answer.status_code for answer in answers] == [200] * 8
        assert 1.9 < net.elapsed() < 3.1
