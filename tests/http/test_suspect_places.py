"""A suspect connection and its place in the pool, with a second call in line; in virtual time."""

from __future__ import annotations

import math

import httpx
import pytest

import outlast
from outlast.core.balance import PickFirst
from outlast.http.answer import Answer
from outlast.http.call_driver import run_call
from outlast.http.engine import Engine
from outlast.http.family import family_of
from outlast.http.message import BytesBody
from outlast.http.reading import read_request
from outlast.net.run import Strands, run_sync
from outlast.target import Target
from tests.http.fake_network import FakeNetwork, Line, answers, silent, target
from tests.http.virtual_calls import URL

READ = 5.0  # seconds


def calls(engine: Engine, network: FakeNetwork, *methods: str) -> dict[int, tuple[float, object]]:
    """Calls side by side, begun in order: when each ended, and how."""
    strands: Strands[int, Answer] = Strands(network)
    for number, method in enumerate(methods):
        asked = httpx.Request(method, URL, extensions={"timeout": {"read": READ}})
        request = read_request(asked, outlast.Policy(), BytesBody(b""), family_of(asked))
        strands.start(number, run_call(engine, request))
    ended: dict[int, tuple[float, object]] = {}

    async def all_of_them() -> None:
        while len(strands):
            one = await strands.next()
            assert one is not None
            number, outcome = one
            ended[number] = (network.time, outcome)
            if isinstance(outcome, Answer):
                outcome.close()

    run_sync(network, all_of_them())
    return ended


@pytest.mark.incident("FR-71")
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_fr71_a_waiter_is_served_when_a_suspect_is_evicted(method: str) -> None:
    """One place, held by a request to a machine that is gone, which may be repeated or not. Who
    stands in line behind it waits until that is seen, not for its read timeout."""
    network = FakeNetwork(a=Line(silent, acked=math.inf), b=Line(answers(0.01)))
    transport = outlast.Transport(
        network=network,
        targets={URL: Target(target("a", "b"), balance=PickFirst())},  # the dead one
        limits=httpx.Limits(max_connections=1),
    )
    engine = transport._engine
    ended = calls(engine, network, method, "GET")
    when, answer = ended[1]
    assert isinstance(answer, Answer)
    assert answer.head.status == 200
    assert when < 0.3
    when, outcome = ended[0]
    if method == "GET":
        assert when < 0.3
    else:
        assert getattr(outcome, "kind", None) == "ReadTimeout"
        assert when == pytest.approx(READ + 0.001)
    counts = engine.pool.counts()
    assert counts["places"] == counts["idle"] <= 1
    transport.close()
    assert network.open == []
