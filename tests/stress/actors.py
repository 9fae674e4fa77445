"""Who takes part in the churn: threads, loops, clients, targets, sockets and processes that come
and go, and servers that restart, until they are told to stop."""

from __future__ import annotations

import asyncio
import faulthandler
import functools
import itertools
import os
import random
import signal
import threading
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import trio

import outlast
from outlast.net.address import Address, literal
from outlast.net.kernel import KernelNetwork
from tests.stress.chaos import Chaos
from tests.stress.load import TIMEOUT, Tally, async_calls, sync_calls

LIMITS = httpx.Limits(max_connections=20, max_keepalive_connections=12)
TWO: dict[str, Any] = {"http1": False, "http2": True}
CALLS = 10  # that a thread, a task or a client lives for
CHILD = 20  # seconds after which a forked process that hangs is ended
PAUSE = 0.25  # seconds between two changes of the servers' mood
MOODS = ("calm", "wild", "wild", "killing")


class World:
    """What the actors share: transports, servers, and the word to stop."""

    def __init__(self, chaos: Chaos, seed: int) -> None:
        self.chaos = chaos
        self.tally = Tally()
        self.stop = threading.Event()
        self.seeds = itertools.count(seed)
        self.forks = 0
        targets = {"http://orders.test": chaos.target}
        given: dict[str, Any] = {"limits": LIMITS, "targets": targets}
        self.sync = [outlast.Transport(**given), outlast.Transport(**given, **TWO)]
        self.loops = [outlast.AsyncTransport(**given), outlast.AsyncTransport(**given, **TWO)]
        self.crawler = outlast.Transport(limits=LIMITS, network=KernelNetwork(self._resolve))
        self.urls = [*chaos.urls, "http://orders.test"]
        self._names = itertools.count()

    def _resolve(self, host: str, port: int) -> list[Address]:
        found = literal("127.0.0.1", port)
        assert found is not None
        return [found]

    @property
    def transports(self) -> list[outlast.Transport | outlast.AsyncTransport]:
        return [*self.sync, *self.loops, self.crawler]

    def rng(self) -> random.Random:
        """Chance for one more actor."""
        return random.Random(next(self.seeds))

    def new_origin(self) -> str:
        """An origin that nobody has met."""
        return f"http://{next(self._names)}.test:{self.chaos.ports[0]}"

    def actors(self) -> list[Callable[[], None]]:
        """What runs side by side until `stop` is set."""
        return [
            *(functools.partial(threads, self, each) for each in self.sync for _ in range(3)),
            *(functools.partial(loops, self, each) for each in self.loops for _ in range(2)),
            functools.partial(clients, self),
            functools.partial(crawl, self),
            functools.partial(sockets, self),
            functools.partial(processes, self),
            functools.partial(servers, self),
        ]


def until_stopped(world: World, act: Callable[[], None]) -> None:
    """Act again and again."""
    try:
        while not world.stop.is_set():
            act()
    except BaseException as error:
        world.tally.fail(error)
        world.stop.set()
        if not isinstance(error, Exception):
            raise


def threads(world: World, transport: outlast.Transport) -> None:
    """Threads that live for a few calls."""
    client = httpx.Client(transport=transport, timeout=TIMEOUT)

    def act() -> None:
        calls = functools.partial(sync_calls, client, world.urls, world.rng(), world.tally, CALLS)
        thread = threading.Thread(target=calls)
        thread.start()
        thread.join()

    until_stopped(world, act)


def loops(world: World, transport: outlast.AsyncTransport) -> None:
    """Event loops, asyncio and trio, with a few tasks each."""

    async def main() -> None:
        client = httpx.AsyncClient(transport=transport, timeout=TIMEOUT)
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(async_calls, client, world.urls, world.rng(), world.tally, CALLS)

    def act() -> None:
        if world.rng().random() < 0.5:
            asyncio.run(main())
        else:
            trio.run(main)

    until_stopped(world, act)


def clients(world: World) -> None:
    """Clients that are made, used, and closed or just dropped."""

    def act() -> None:
        rng = world.rng()
        given = TWO if rng.random() < 0.5 else {}
        made = outlast.client(timeout=TIMEOUT, limits=LIMITS, **given)
        sync_calls(made, world.chaos.urls, rng, world.tally, CALLS)
        if rng.random() < 0.8:
            made.close()

    until_stopped(world, act)


def crawl(world: World) -> None:
    """Names that nobody has met, each for a call."""
    client = httpx.Client(transport=world.crawler, timeout=TIMEOUT)

    def act() -> None:
        sync_calls(client, [world.new_origin()], world.rng(), world.tally, 1)

    until_stopped(world, act)


def sockets(world: World) -> None:
    """Sockets that are handed out, watched or not, used and closed or just dropped."""

    def act() -> None:
        rng = world.rng()
        try:
            sock = outlast.create_connection(
                ("localhost", rng.choice(world.chaos.ports)), timeout=5
            )
            sock.sendall(b"GET /socket HTTP/1.1\r\nhost: a\r\n\r\n")
            sock.settimeout(0.1)
            sock.recv(100)
            world.tally.add("socket")
        except OSError:
            world.tally.add("socket failed")
            return
        sock.close()

    until_stopped(world, act)


def processes(world: World) -> None:
    """Forked processes that call over the parent's transports."""

    def act() -> None:
        rng = world.rng()
        number = os.fork()
        if not number:
            in_child(world, rng)
        world.forks += 1
        _, status = os.waitpid(number, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code == 0, f"a forked process has ended with {code}"
        world.stop.wait(PAUSE)

    until_stopped(world, act)


def in_child(world: World, rng: random.Random) -> None:
    """A few calls of each kind; never returns."""
    faulthandler.register(signal.SIGALRM, chain=True)  # should it hang, it says where, and ends
    signal.alarm(CHILD)
    tally = Tally()
    for transport in world.sync:
        client = httpx.Client(transport=transport, timeout=TIMEOUT)
        sync_calls(client, world.urls, rng, tally, 3)

    async def main() -> None:
        client = httpx.AsyncClient(transport=world.loops[0], timeout=TIMEOUT)
        await async_calls(client, world.urls, rng, tally, 3)

    asyncio.run(main())
    if tally.wrong:
        os.write(2, tally.wrong[0].encode())
    os._exit(1 if tally.wrong else 0)


def servers(world: World) -> None:
    """Servers that change their mood, and go away and come back."""

    def act() -> None:
        rng = world.rng()
        world.chaos.tell(f"mood {rng.choice(MOODS)}")
        number = rng.randrange(len(world.chaos.ports))
        if rng.random() < 0.3:
            world.chaos.tell(f"close {number}")
            world.stop.wait(PAUSE)
            world.chaos.tell(f"open {number}")
        if rng.random() < 0.1:
            world.chaos.tell("mood mute")
        world.stop.wait(PAUSE)

    until_stopped(world, act)
