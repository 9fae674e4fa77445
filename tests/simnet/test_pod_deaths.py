"""Processes that end: by their own doing, in the middle of a handler, and without a last word."""

from __future__ import annotations

import ssl
from typing import Any

import anyio
import httpx
import pytest
import trustme

import outlast
from outlast.testing import Request, SimNet


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("kill", httpx.RemoteProtocolError),
        ("reset", httpx.ReadError),
        ("power_off", httpx.ReadTimeout),
    ],
)
def test_a_handler_may_end_its_own_pod(
    fault: str, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """It has committed, and dies before it answers; other handlers are under way."""
    commits: list[str] = []

    def handler(request: Request) -> str:
        commits.append(request.headers["x-request-id"])
        if len(commits) == 1:
            strike()
        return "done"

    net = SimNet()
    pod = net.node("a").pod(handler)
    strike: Any = getattr(pod, fault, None) or getattr(pod.node, fault)
    with net.running(), httpx.Client(transport=outlast.Transport(network=net)) as client:
        beside = outlast.create_connection((pod.host, pod.port), network=net)
        beside.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf")
        with pytest.raises(error):
            client.post(pod.url, headers={"x-request-id": "order-1"}, timeout=3.0)
        assert not pod.running
        beside.close()
        pod.node.power_on()
        pod.start()
        assert client.post(pod.url, headers={"x-request-id": "order-2"}).text == "done"
    assert commits == ["order-1", "order-2"]
    assert pod.counts()["ids"] == {"order-1": 1, "order-2": 1}
    assert [record.getMessage() for record in caplog.records] == []


def test_a_process_that_is_gone_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def listen(reader: Any, writer: Any) -> None:
        await reader.read()

    net = SimNet()
    pod = net.node("a").pod(listen)
    with net.running():
        sock = outlast.create_connection((pod.host, pod.port), network=net)
        net.sleep(1.0)
        pod.kill()
        assert sock.recv(1) == b""
        sock.close()
        net.sleep(1.0)
    assert [record.getMessage() for record in caplog.records] == []


def test_a_client_of_a_tls_pod_may_leave_at_any_time(caplog: pytest.LogCaptureFixture) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("orders.shop.svc").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    net = SimNet()
    pod = net.node("a").pod(tls=context)
    net.service("orders.shop.svc:443", pods=[pod])
    url = "https://orders.shop.svc/"

    async def main() -> None:
        transport = outlast.AsyncTransport(network=net, verify=trusting)
        async with httpx.AsyncClient(transport=transport, timeout=1.0) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.get(f"{url}?delay=3")
            assert (await client.post(url)).status_code == 200
            async with client.stream("POST", f"{url}?size=1000000") as response:
                assert response.status_code == 200
        await anyio.sleep(10)

    net.run(main)
    assert [record.getMessage() for record in caplog.records] == []
    assert pod.counts()["open"] == 0


def test_a_client_that_leaves_in_the_middle_of_a_request_is_no_failure_of_the_application(
    capfd: pytest.CaptureFixture[str],
) -> None:
    ended: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        try:
            while (await receive()).get("more_body"):
                pass
        finally:
            ended.append("ended")

    net = SimNet()
    pod = net.node("a").pod(app)
    with net.running():
        sock = outlast.create_connection((pod.host, pod.port), network=net)
        sock.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf")
        sock.close()
        net.sleep(1.0)
    assert ended == ["ended"]
    assert capfd.readouterr().err == ""
