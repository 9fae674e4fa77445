"""One synchronous transport and many threads, against a server that misbehaves by chance.

Held to: each answer is the answer to its own request, an unsafe request arrives once, nothing but
httpx's errors is raised, no place and no socket is lost, and a server that has come to its senses
is served without an error. A failure says its seed.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import outlast
from tests.http.cases.tls import client_context
from tests.stress.chaos import Chaos, certificate
from tests.stress.load import PATIENT, TIMEOUT, Tally, at_rest, in_threads, sync_calls

LIMITS = httpx.Limits(max_connections=24, max_keepalive_connections=16)
SECONDS = 50.0  # for a whole crowd; it takes three


@pytest.fixture(params=["HTTP/1.1", "HTTP/2", "HTTP/1.1 over TLS", "HTTP/2 over TLS"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def seed() -> int:
    """Other ones each time; printed with a failure."""
    return random.randrange(1 << 30)


@pytest.fixture
def chaos(kind: str, seed: int, tmp_path: Path) -> Iterator[Chaos]:
    files = certificate(tmp_path) if "TLS" in kind else ()
    with Chaos(seed, *files) as begun:
        yield begun


def transport_to(chaos: Chaos, kind: str) -> outlast.Transport:
    """Prior knowledge where there is no TLS; three endpoints of one name, and each alone."""
    two = "HTTP/2" in kind
    name = f"{'https' if 'TLS' in kind else 'http'}://orders.test:80"
    return outlast.Transport(
        limits=LIMITS,
        targets={name: chaos.target},
        http1=not two or "TLS" in kind,
        http2=two,
        verify=client_context(),
    )


def crowd(client: httpx.Client, chaos: Chaos, seed: int, threads: int, calls: int) -> Tally:
    """So many threads with so many calls each."""
    tally = Tally()
    scheme = chaos.urls[0].partition(":")[0]
    urls = [*chaos.urls, f"{scheme}://orders.test:80"]
    works: list[Callable[[], None]] = [
        functools.partial(sync_calls, client, urls, random.Random(f"{seed} {n}"), tally, calls)
        for n in range(threads)
    ]
    in_threads(works, SECONDS)
    return tally


def assert_sound(transport: outlast.Transport, tally: Tally, chaos: Chaos) -> None:
    assert not tally.wrong, tally.wrong[0]
    assert list(at_rest(transport)) == []
    seen = chaos.tell("mood calm")
    assert seen.get("twice POST", 0) == 0, seen
    assert not [name for name in seen if name.startswith("protocol error")], seen


def test_64_threads(chaos: Chaos, kind: str, seed: int) -> None:
    transport = transport_to(chaos, kind)
    with httpx.Client(transport=transport, timeout=TIMEOUT) as client:
        chaos.tell("mood wild")
        tally = crowd(client, chaos, seed, threads=64, calls=6 if "TLS" in kind else 12)
        assert_sound(transport, tally, chaos)
        assert tally.counts["answered"] > 64
        client.timeout = PATIENT
        for url in chaos.urls * 3:
            assert client.get(url + "/after").status_code == 200
    assert transport._engine.pool.counts()["places"] == 0


@pytest.mark.incident("FR-73")
@pytest.mark.parametrize("kind", ["HTTP/1.1"], indirect=True)
def test_fr73_connections_are_killed_at_random(chaos: Chaos, kind: str, seed: int) -> None:
    """One client, 16 threads, connections reset at any moment: no assertion, no lost slot."""
    transport = transport_to(chaos, kind)
    with httpx.Client(transport=transport, timeout=TIMEOUT) as client:
        chaos.tell("mood killing")
        tally = crowd(client, chaos, seed, threads=16, calls=60)
        assert_sound(transport, tally, chaos)
        assert chaos.tell("counts")["kill"] > 20
