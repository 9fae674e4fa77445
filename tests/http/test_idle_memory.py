"""What an idle connection keeps: no more than plain httpx's, and nothing that others have too."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE

import httpx
import pytest

import outlast
from tests.http.servers import BOUND, Server, serve

COUNT = 200  # of few the growth of tables, which comes in steps, would be most of it
ROOT = Path(__file__).parents[2]


def open_idle(client: httpx.Client, url: str, count: int) -> None:
    """Have so many connections lie idle: none is free while its answer is unread."""
    answers = [client.send(client.build_request("GET", url), stream=True) for _ in range(count)]
    for answer in answers:
        answer.read()


def weight(transport: httpx.BaseTransport, url: str) -> float:
    """Bytes of Python's for one idle connection."""
    with httpx.Client(transport=transport, timeout=BOUND) as client:
        open_idle(client, url, 10)  # what is made once is made now
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        open_idle(client, url, COUNT + 10)
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / COUNT


SERVER = """
import sys
from tests.http.servers import Server, serve
with Server(serve) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def served_elsewhere() -> Iterator[str]:
    """The URL of a server in a process of its own: what it keeps is not the client's."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()  # and it ends


WEIGHING = """
import sys, tracemalloc
import httpx, outlast
from tests.http.servers import BOUND
from tests.http.test_idle_memory import weight
tracemalloc.start()
limits = httpx.Limits(keepalive_expiry=BOUND)
for transport in (outlast.Transport(limits=limits), httpx.HTTPTransport(limits=limits)):
    print(weight(transport, sys.argv[1]))
"""


def test_an_idle_connection_weighs_no_more_than_httpx_s() -> None:
    """In a process of its own, where no other test's threads come and go."""
    with served_elsewhere() as url:
        command = [sys.executable, "-c", WEIGHING, url]
        told = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    ours, theirs = map(float, told.stdout.split())
    assert ours <= theirs, f"{ours:.0f} bytes, httpx {theirs:.0f}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize(
    "part",
    [
        lambda connection: connection.address,
        lambda connection: connection.name,
        lambda connection: connection.stream._plan,
        lambda connection: connection.h1.exchange._before.fields,
    ],
    ids=["address", "name", "plan", "request"],
)
def test_connections_share_what_they_have_in_common(
    host: str, part: Callable[[object], object]
) -> None:
    transport = outlast.Transport()
    with Server(serve) as server, httpx.Client(transport=transport, timeout=BOUND) as client:
        open_idle(client, server.url.replace("127.0.0.1", host), 3)
        connections = list(transport._engine.pool._idle)
        assert len(connections) == 3
        assert len({id(part(each)) for each in connections}) == 1


def test_other_plans_are_not_shared() -> None:
    engine = outlast.Transport()._engine
    policies = [outlast.Policy(), outlast.Policy(keepalive=None), outlast.Policy()]
    plans = [engine.socket_plan(policy, 11.0, 5.0) for policy in policies]
    assert [plan.keepalive for plan in plans] == [policy.keepalive for policy in policies]
    assert engine.socket_plan(policies[0], 11.0, 60.5).user_timeout == 62.0
