"""Reports from the field, groups C to E: connections that are dropped, closed, or mute."""

from __future__ import annotations

from collections import Counter

import httpx
import pytest

import outlast
from outlast.http.connection import Connection
from outlast.testing import SimNet
from outlast.testing.simnet.packet import Segment
from tests.fire.h2_pod import Books, serve_h2
from tests.fire.servers import keeping
from tests.fire.worlds import NAME, URL, cluster, connecting, report


def silence(net: SimNet) -> set[int]:
    """Connections that stand now hear nothing more; their ports. New ones are not concerned."""
    ports = {conn.local[1] for conn in net.client.kernel.connections.values()}

    def hole(segment: Segment) -> bool:
        return segment.src[1] in ports or segment.dst[1] in ports

    net.client.kernel.link.away.rules.append(hole)
    net.client.kernel.link.towards.rules.append(hole)
    return ports


@pytest.mark.incident("FR-17")
@pytest.mark.parametrize("which", [None, NAME, URL])
def test_fr17_mute_connections_are_dropped_with_requests_in_flight(which: str | None) -> None:
    """A load balancer was upgraded and has forgotten them: no need to wait until that shows."""
    net = cluster(2)
    answers: list[httpx.Response] = []
    old: set[int] = set()
    transport = outlast.Transport(network=net)
    with net.running(), httpx.Client(transport=transport, timeout=None) as client:

        def ask() -> None:
            answers.append(client.get(f"{URL}?delay=2"))

        def upgrade() -> None:
            net.sleep(1.0)
            old.update(silence(net))
            net.sleep(0.1)
            assert transport.drop(which, "the balancer was upgraded", abort=True) == 5

        net.gather(*[ask] * 5, upgrade)
        assert net.elapsed() < 1.1 + 2.0 + 0.3
        answers.append(client.get(URL))
    assert len(old) == 5
    for answer in answers:
        assert answer.status_code == 200
        assert report(answer).events[-1].local_port not in old
    assert "was dropped: the balancer was upgraded" in str(report(answers[0]))


@pytest.mark.incident("FR-34")
def test_fr34_a_close_that_comes_after_the_write() -> None:
    """On a connection that was used before, and not one byte of an answer: a GET is repeated, a
    POST is told as what it is. One that was there before the write costs nothing: FR-51."""
    seen: Counter[str] = Counter()
    dies = lambda name: "before" if name.endswith("late") else ""  # noqa: E731
    net = cluster(1, serves=keeping(seen, dies=dies))
    with connecting(net) as client:
        for method in ("GET", "POST"):
            client.get(URL, headers={"x-request-id": "first"})
            with pytest.raises(httpx.RemoteProtocolError) as caught:
                client.request(method, URL, headers={"x-request-id": "late"})
            told = report(caught.value)
            assert told.events[0].what == "reused"
            assert "Server disconnected without sending a response" in str(caught.value)
            assert str(told.progress) == "sent, no response"
            dials = [event for event in told if event.what == "new"]
            assert len(dials) == (2 if method == "GET" else 0), "other connections, for a GET"
    assert seen["late"] == 0


@pytest.mark.incident("FR-36")
@pytest.mark.parametrize(("checked", "share"), [(True, 0.0), (False, 1.0)])
def test_fr36_a_batch_right_after_the_servers_close(
    checked: bool, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The share of POSTs that fail with the look at the socket, and without it. Of TLS, whose
    farewell comes with the answer: the cases about TLS beside the transports."""
    if not checked:
        monkeypatch.setattr(Connection, "quiet", lambda _: True)
    seen: Counter[str] = Counter()
    net = cluster(1, serves=keeping(seen, most=1))
    failed = 0
    with connecting(net) as client:
        for number in range(20):
            client.get(URL, headers={"x-request-id": "before"})
            net.sleep(0.001)
            try:
                client.post(URL, headers={"x-request-id": f"{number}"})
            except httpx.RemoteProtocolError:
                failed += 1
    assert failed == share * 20
    assert sum(seen[f"{number}"] for number in range(20)) == 20 - failed


@pytest.mark.incident("FR-39")
@pytest.mark.parametrize(
    ("keepalive", "within"), [((3, 2, 2), 11.0), ((5, 1, 6), 11.0), ((10, 2, 5), 20.0)]
)
def test_fr39_what_a_policy_allows_is_the_worst_case(
    keepalive: tuple[int, int, int], within: float
) -> None:
    """HTTP/2 pings are none of ours: idle + interval x count of the kernel's keepalive bound it, or
    the user timeout where that is longer; a new connection costs nothing more. A setting that makes
    no sense is refused."""
    books = Books()
    net = cluster(2, serves=serve_h2(books, 0, 100))
    policy = outlast.Policy(keepalive=keepalive)
    with connecting(net, http1=False, http2=True, policy=policy, timeout=None) as client:
        client.get(URL, headers={"x-request-id": "first"})
        silence(net)
        begun = net.elapsed()
        net.sleep(within - 1.5)
        assert len(net.client.kernel.connections) == 1
        net.sleep(2.0)
        assert len(net.client.kernel.connections) == 0, "the kernel has ended it"
        assert client.post(URL, headers={"x-request-id": "then"}).status_code == 200
        assert net.elapsed() - begun < within + 1.0
    for wrong in ((0, 1, 6), (5, 0, 6), (5, 1, 0)):
        with pytest.raises(ValueError, match="keepalive"):
            outlast.Policy(keepalive=wrong)
