"""A probe at checkout that is cut short, by the call's deadline or by a cancellation."""

from __future__ import annotations

import anyio
import httpx
import pytest

import outlast
from outlast import Policy
from outlast.testing import SimNet
from tests.http.callers import report_of
from tests.http.fake_network import FakeNetwork, Line, answers
from tests.http.test_trust_scripted import died, idle
from tests.http.virtual_calls import URL, client

GOOD = Line(answers(0.01))


def test_a_probe_ends_at_the_calls_deadline() -> None:
    """Nothing is sent then, nobody is held suspect for it, and whoever has as little time does not
    meet that connection again."""
    network = FakeNetwork(a=GOOD)
    with client(network, policy=Policy(deadline=0.02)) as calls:
        began = idle(calls, network, 3.0)
        died(network)
        with pytest.raises(httpx.ConnectTimeout, match="nothing was sent") as caught:
            calls.post(URL)
        assert network.time == pytest.approx(began + 0.02)
        assert "deadline of 0.02 s" in str(caught.value)
        assert [event.phase for event in report_of(caught.value)] == ["request"]
        assert calls.post(URL).status_code == 200
    assert [len(stream.requests) for stream in network.streams] == [1, 1]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_after_a_probe_that_was_cancelled_nothing_is_sent_unverified(backend: str) -> None:
    """The machine is dead; a POST is given up while its connection is asked; the next one, at once
    after, must not go out on it."""
    net = SimNet()
    nodes = [net.node("a"), net.node("b")]
    pods = [node.pod() for node in nodes]
    service = net.service("orders.shop.svc:8080", pods=pods)
    url = "http://orders.shop.svc:8080/"

    async def main() -> None:
        transport = outlast.AsyncTransport(network=net)
        async with httpx.AsyncClient(transport=transport, timeout=None) as calls:
            name = (await calls.get(url)).json()["pod"]
            await anyio.sleep(3.0)
            holder = next(node for node in nodes if node.pods[0].name == name)
            holder.power_off()
            service.remove(holder)
            with anyio.move_on_after(0.02) as scope:
                await calls.post(url)
            assert scope.cancelled_caught
            assert transport._engine.pool.counts()["places"] == 0
            began = net.elapsed()
            assert (await calls.post(url)).status_code == 200
            assert net.elapsed() - began < 0.5

    with net:
        net.run(main, backend=backend)
