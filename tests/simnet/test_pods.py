"""What runs in simulated pods, and what befalls them."""

from __future__ import annotations

import gc
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import httpx
import pytest

import outlast
from outlast.testing import Request, Response, SimNet
from tests.simnet.clusters import NAME, URL, client, get, two_nodes


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
        assert scope["type"] == "http"
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


@pytest.mark.filterwarnings("error")
def test_a_process_that_is_killed_while_frozen_accepts_nobody(backend: str) -> None:
    """Its kernel has accepted for it, to the end."""
    served: list[Any] = []

    async def raw(reader: Any, writer: Any) -> None:
        served.append(await reader.read())

    net = two_nodes(serves=raw)
    for node in net.nodes.values():
        node.pods[0].freeze()
        net.at(2.0, node.pods[0].kill)
    with pytest.raises(httpx.TransportError):
        get(net, backend, URL)
    gc.collect()
    assert net.elapsed() == pytest.approx(2.0, abs=0.1)
    assert served == []


def living(told: list[str], *, fails: bool = False) -> Any:
    """An application with a life around its requests."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            body = scope["state"]["up"].encode()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": body})
            return
        told.append((await receive())["type"])
        await anyio.sleep(2)
        scope["state"]["up"] = "since two"
        how = "failed" if fails else "complete"
        await send({"type": f"lifespan.startup.{how}"})
        told.append((await receive())["type"])
        await send({"type": "lifespan.shutdown.complete"})

    return app


def test_an_application_is_started_before_it_serves_and_told_of_its_end(backend: str) -> None:
    told: list[str] = []
    net = SimNet()
    pod = net.node("a").pod(living(told))
    assert get(net, backend, pod.url).text == "since two"
    assert 2.0 <= net.elapsed() < 2.1
    assert told == ["lifespan.startup"]
    with net.running():
        pod.stop()
        net.sleep(1.0)
    assert told == ["lifespan.startup", "lifespan.shutdown"]
    assert not pod.running


def test_each_life_of_a_pod_starts_its_application(backend: str) -> None:
    told: list[str] = []
    net = SimNet()
    pod = net.node("a").pod(living(told))
    pod.kill()
    pod.start()
    assert get(net, backend, pod.url).text == "since two"
    assert told[-1] == "lifespan.startup"


def test_an_application_that_does_not_start_ends_its_pod(
    backend: str, capfd: pytest.CaptureFixture[str]
) -> None:
    net = SimNet()
    pod = net.node("a").pod(living([], fails=True))
    with pytest.raises(httpx.TransportError):
        get(net, backend, pod.url)
    assert not pod.running
    assert "has failed to start" in capfd.readouterr().err
