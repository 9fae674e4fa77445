"""Callers under stress: what they do by chance, what may come of it, and what may not.

Each call has a name of its own, and its answer must be the answer to that name. Whatever else is
raised than httpx's own errors fails the test: an assertion, a KeyError, a stray cancellation.
"""

from __future__ import annotations

import gc
import itertools
import os
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import httpx

import outlast
from tests.stress.chaos_server import body_of

READ = 0.3  # seconds; a mute server costs so much
TIMEOUT = httpx.Timeout(15.0, read=READ)
PATIENT = httpx.Timeout(15.0)

_names = itertools.count()


class Tally:
    """What came of the calls, and what must not have. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def add(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def fail(self, error: BaseException) -> None:
        import traceback

        with self._lock:
            self.wrong.append("".join(traceback.format_exception(error)))

    def check(self, name: str, response: httpx.Response, sent: bytes = b"") -> None:
        """An answer is this call's, or says that the server is busy."""
        if response.status_code == 503:
            return self.add("503")
        expected = body_of(name.encode(), sent)
        got = response.content
        assert got == expected, f"{name} was answered {got[:80]!r}, not {expected[:80]!r}"
        return self.add("answered")


def new_name(rng: random.Random) -> str:
    """A path that no other call has, of no other process either."""
    name = f"/{os.getpid()}-{next(_names)}"
    return name if rng.random() < 0.7 else f"{name}?{rng.choice([10, 5_000, 200_000])}"


def pieces(rng: random.Random) -> list[bytes]:
    return [b"x" * rng.choice([1, 100, 20_000]) for _ in range(rng.randrange(1, 5))]


# -- threads -------------------------------------------------------------------------------


def sync_get(client: httpx.Client, url: str, rng: random.Random, tally: Tally) -> None:
    name = new_name(rng)
    tally.check(name, client.get(url + name))


def sync_post(client: httpx.Client, url: str, rng: random.Random, tally: Tally) -> None:
    name, parts = new_name(rng), pieces(rng)
    content: Any = b"".join(parts) if rng.random() < 0.5 else iter(parts)
    tally.check(name, client.post(url + name, content=content), b"".join(parts))


def sync_leave(client: httpx.Client, url: str, rng: random.Random, tally: Tally) -> None:
    """A response that is read in part, or not at all."""
    with client.stream("GET", f"{url}{new_name(rng)}") as response:
        for _ in response.iter_raw():
            if rng.random() < 0.5:
                break
    tally.add("left")


def sync_drop(client: httpx.Client, url: str, rng: random.Random, tally: Tally) -> None:
    """A response that is never read nor closed."""
    transport: Any = client._transport
    extensions = {"timeout": TIMEOUT.as_dict()}
    response = transport.handle_request(
        httpx.Request("GET", url + new_name(rng), extensions=extensions)
    )
    del response
    tally.add("dropped")


def sync_hurry(client: httpx.Client, url: str, rng: random.Random, tally: Tally) -> None:
    """A call with hardly any time."""
    name = new_name(rng)
    limit = rng.choice([0.0005, 0.002, 0.01])
    tally.check(name, client.get(url + name, extensions={"outlast": {"deadline": limit}}))


SYNC = [sync_get] * 6 + [sync_post] * 3 + [sync_leave, sync_drop, sync_hurry]


def sync_calls(
    client: httpx.Client, urls: list[str], rng: random.Random, tally: Tally, count: int
) -> None:
    """So many calls, one after the other."""
    try:
        for _ in range(count):
            try:
                rng.choice(SYNC)(client, rng.choice(urls), rng, tally)
            except httpx.TransportError as error:
                tally.add(type(error).__name__)
    except BaseException as error:
        tally.fail(error)
        if not isinstance(error, Exception):
            raise


# -- tasks ---------------------------------------------------------------------------------


async def async_get(client: httpx.AsyncClient, url: str, rng: random.Random, tally: Tally) -> None:
    name = new_name(rng)
    tally.check(name, await client.get(url + name))


async def async_post(client: httpx.AsyncClient, url: str, rng: random.Random, tally: Tally) -> None:
    name, parts = new_name(rng), pieces(rng)

    async def body() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    content: Any = b"".join(parts) if rng.random() < 0.5 else body()
    tally.check(name, await client.post(url + name, content=content), b"".join(parts))


async def async_leave(
    client: httpx.AsyncClient, url: str, rng: random.Random, tally: Tally
) -> None:
    async with client.stream("GET", f"{url}{new_name(rng)}") as response:
        parts = response.aiter_raw()
        async for _ in parts:
            if rng.random() < 0.5:
                break
        await parts.aclose()  # type: ignore[attr-defined]  # httpx's is a generator
    tally.add("left")


async def async_drop(client: httpx.AsyncClient, url: str, rng: random.Random, tally: Tally) -> None:
    transport: Any = client._transport
    extensions = {"timeout": TIMEOUT.as_dict()}
    response = await transport.handle_async_request(
        httpx.Request("GET", url + new_name(rng), extensions=extensions)
    )
    del response
    tally.add("dropped")


async def async_cancel(
    client: httpx.AsyncClient, url: str, rng: random.Random, tally: Tally
) -> None:
    """A call that is cancelled at some moment."""
    with anyio.move_on_after(rng.choice([0.0, 0.0005, 0.001, 0.003, 0.01])) as scope:
        await async_post(client, url, rng, tally)
    tally.add("cancelled" if scope.cancelled_caught else "not cancelled")


ASYNC = [async_get] * 6 + [async_post] * 3 + [async_leave, async_drop, async_cancel, async_cancel]


async def async_calls(
    client: httpx.AsyncClient, urls: list[str], rng: random.Random, tally: Tally, count: int
) -> None:
    """So many calls, one after the other."""
    try:
        for _ in range(count):
            try:
                await rng.choice(ASYNC)(client, rng.choice(urls), rng, tally)
            except httpx.TransportError as error:
                tally.add(type(error).__name__)
    except Exception as error:  # noqa: BLE001  told by the test
        tally.fail(error)


# -- afterwards ----------------------------------------------------------------------------


def in_threads(works: list[Callable[[], None]], seconds: float) -> None:
    """Run them all, each on a thread; they have so long."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), "a thread does not end"


def at_rest(transport: outlast.Transport | outlast.AsyncTransport) -> Iterator[str]:
    """What is not as it should be in a transport that nobody uses."""
    gc.collect()
    engine = transport._engine
    engine.tidy()
    pool = engine.pool
    counts = pool.counts()
    if counts["busy"] or counts["waiting"]:
        yield f"somebody is still at it: {counts}"
    if counts["places"] != counts["idle"]:
        yield f"places are lost: {counts}"
    if pool._expecting or pool._shared._routes or pool._queue or pool._bells or pool.in_use._held:
        yield f"books are not empty: {vars(pool)}"
    idle, stacks = list(pool._idle), pool._idle._stacks.values()
    if not sum(map(len, stacks)) == len(idle) == counts["idle"] or not all(stacks):
        yield "the stacks do not agree with the idle"
    for connection in idle:
        if connection.leases or connection.stream.fileno() < 0:
            yield f"an idle connection that is not idle: {connection}"
