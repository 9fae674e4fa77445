"""What a healthy request costs, in calls: so that it cannot grow back unnoticed.

No time is taken: functions of this library, system calls and locks are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import select
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import outlast
from tests.http.servers import BOUND, Server, serve

HOME = str(Path(outlast.__file__).parent)
# Whether the connection is as it was left and the wait for the answer; the request; the answer.
SYSTEM_CALLS = {"poll.poll": 2, "socket.send": 1, "socket.recv": 1}
SYSTEM = ("poll.poll", "socket.send", "socket.recv", "socket.set", "socket.get")
CALLS = 100  # functions of this library that one request enters or goes on in
LOCKS = 3  # the pool's to take and to give back, the target's to count the request


def counted(client: httpx.Client, url: str) -> Counter[str]:
    """What is called for one request: "ours", and C functions by their names."""
    found: Counter[str] = Counter()

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            found["ours"] += frame.f_code.co_filename.startswith(HOME)
        elif event == "c_call":
            found[argument.__qualname__] += 1

    gc.collect()
    gc.disable()  # what others have left behind may have finalizers, which would count
    sys.setprofile(profile)
    try:
        client.get(url)
    finally:
        sys.setprofile(None)
        gc.enable()
    return found


class Counting:
    """A lock that counts how often it is taken."""

    def __init__(self) -> None:
        self.taken = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()
        self.taken += 1

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.skipif(not hasattr(select, "poll"), reason="waits by other calls here")
def test_the_calls_of_a_request() -> None:
    transport = outlast.Transport()
    with Server(serve) as server, httpx.Client(transport=transport, timeout=BOUND) as client:
        for _ in range(5):
            client.get(server.url)
        counts = [counted(client, server.url)]
        for _ in range(100):
            client.get(server.url)
        counts.append(counted(client, server.url))
    for count in counts:
        system = {name: number for name, number in count.items() if name.startswith(SYSTEM)}
        assert system == SYSTEM_CALLS
        assert count["ours"] <= CALLS


def test_the_locks_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = outlast.Transport()
    with Server(serve) as server, httpx.Client(transport=transport, timeout=BOUND) as client:
        client.get(server.url)
        engine, locks = transport._engine, [Counting(), Counting()]
        (service,) = engine._services.values()
        monkeypatch.setattr(engine.pool, "_lock", locks[0])
        monkeypatch.setattr(service, "_lock", locks[1])
        for _ in range(10):
            client.get(server.url)
        assert sum(lock.taken for lock in locks) == 10 * LOCKS


@contextlib.contextmanager
def left_over() -> Iterator[Counter[str]]:
    """What only the garbage collector can free afterwards of requests and connections, by type.
    Of the rest, other tests' targets may just be ending."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        kinds = [type(each) for each in gc.garbage]
        found.update(kind.__qualname__ for kind in kinds if kind.__module__.startswith(OF_REQUESTS))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


OF_REQUESTS = ("httpx", "h11", "h2", "outlast.http", "outlast.core.report", "outlast.net.seam")
BODIES = (None, b"five!")


def test_a_request_leaves_no_garbage() -> None:
    """httpx's client ties a response and its stream in a circle, with all that hangs on them."""
    with Server(serve) as server, outlast.client(timeout=BOUND) as client:

        def ask() -> None:
            for body in BODIES:
                client.request("POST", server.url, content=body)
                with client.stream("POST", server.url, content=body) as response:
                    response.read()
                with client.stream("POST", server.url, content=body):
                    pass  # closed unread

        ask()
        with left_over() as found:
            ask()
    assert not found


def test_a_request_of_a_task_leaves_no_garbage() -> None:
    async def run(url: str) -> Counter[str]:
        async with outlast.async_client(timeout=BOUND) as client:

            async def ask() -> None:
                for body in BODIES:
                    await client.request("POST", url, content=body)
                    async with client.stream("POST", url, content=body) as response:
                        await response.aread()
                    async with client.stream("POST", url, content=body):
                        pass

            await ask()
            with left_over() as found:
                await ask()
            return found

    with Server(serve) as server:
        assert not asyncio.run(run(server.url))
