"""Clients of a target that has circuit limits, in virtual time, and crowds of calls."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import httpx

import outlast
from outlast import CircuitLimits, Policy, Target
from outlast.http.answer import Answer
from outlast.http.call_driver import run_call
from outlast.http.engine import Engine
from outlast.http.family import family_of
from outlast.http.message import BytesBody
from outlast.http.reading import read_request
from outlast.net.run import Strands, run_sync
from tests.http.fake_network import FakeNetwork, Line, answers, target
from tests.http.virtual_calls import URL

GOOD = Line(answers(0.01))
STANDS = 0.001


@contextlib.contextmanager
def limited(
    network: FakeNetwork,
    *hosts: str,
    policy: Policy | None = None,
    timeout: Any = None,
    balance: Any = None,
    **limits: Any,
) -> Iterator[tuple[httpx.Client, Engine]]:
    """A client whose target has these limits. At the end nothing is counted."""
    limited = CircuitLimits(**limits)
    aim = Target(target(*(hosts or ("a",))), circuit=limited, balance=balance)
    transport = outlast.Transport(network=network, targets={URL: aim}, policy=policy)
    with httpx.Client(transport=transport, timeout=timeout) as made:
        yield made, transport._engine
    counts = transport._engine.pool.counts()
    assert (counts["busy"], counts["waiting"], counts["places"]) == (0, 0, counts["idle"])
    (service,) = transport._engine._services.values()
    assert service.circuits is not None
    counted = [
        (str(address), door.circuit.in_flight, door.circuit.waiting, door.circuit.connections)
        for address, door in service.circuits._doors.items()
        if not door.unused
    ]
    assert counted == []
    assert service.circuits._busy == set()


@contextlib.contextmanager
def another(network: FakeNetwork, **limits: Any) -> Iterator[httpx.Client]:
    """A client of the same target."""
    aim = Target(target("a"), circuit=CircuitLimits(**limits))
    transport = outlast.Transport(network=network, targets={URL: aim})
    with httpx.Client(transport=transport, timeout=None) as made:
        yield made


class Crowd:
    """Calls side by side in one thread: when each had its answer, or how it failed."""

    def __init__(self, engine: Engine, network: FakeNetwork) -> None:
        self.engine = engine
        self.network = network
        self.strands: Strands[str, Answer] = Strands(network)
        self.ended: dict[str, tuple[float, Answer | BaseException]] = {}

    def begin(self, name: str, *, pool: float | None = None, policy: Policy | None = None) -> None:
        timeout = {"pool": pool, "connect": 5.0, "read": None, "write": None}
        asked = httpx.Request("GET", URL, extensions={"timeout": timeout})
        request = read_request(asked, policy or Policy(), BytesBody(b""), family_of(asked))
        self.strands.start(name, run_call(self.engine, request))

    def until(self, until: float) -> None:
        """Run them to an instant."""

        async def step() -> None:
            while (one := await self.strands.next(until)) is not None:
                self.ended[one[0]] = self.network.time, one[1]

        run_sync(self.network, step())

    def close(self, name: str) -> None:
        got = self.ended[name][1]
        assert isinstance(got, Answer), got
        got.close()

    def at(self, name: str) -> float:
        return self.ended[name][0]

    def failure(self, name: str) -> str:
        return str(self.ended[name][1])
