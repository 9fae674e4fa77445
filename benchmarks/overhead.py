"""CPU per request of `httpx` alone and over outlast's transports: same client, same server.

One server process on loopback that answers at once. Rounds alternate between the two; the CPU
time is the client process's own. Printed: milliseconds per request, and the ratio round by round.

A quick look while one works on it: `benchmarks.speed` has all clients, fair conditions and a page.

Run: python benchmarks/overhead.py [rounds] [requests]
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx

import outlast

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"


class Answering(asyncio.Protocol):
    """Answers every request head with 200, parsing as little as possible."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """One answer per head."""
        self.transport.write(ANSWER * data.count(b"\r\n\r\n"))


def serve(pipe: Any) -> None:
    """The server process: tells its port, runs until it is terminated."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Answering, "127.0.0.1", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The URL of a running server."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/"
    finally:
        process.terminate()
        process.join()


def limits(concurrency: int) -> httpx.Limits:
    """The same for both sides: as many connections as calls at once."""
    return httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)


def sync_round(make: Callable[[httpx.Limits], httpx.BaseTransport], url: str, count: int) -> float:
    """CPU seconds per request, one after another."""
    with httpx.Client(transport=make(limits(1))) as client:
        client.get(url)
        began = time.process_time()
        for _ in range(count):
            client.get(url)
        return (time.process_time() - began) / count


def async_round(
    make: Callable[[httpx.Limits], httpx.AsyncBaseTransport], url: str, count: int, tasks: int
) -> float:
    """CPU seconds per request, `tasks` at once."""

    async def work(client: httpx.AsyncClient, share: int) -> None:
        for _ in range(share):
            await client.get(url)

    async def main() -> float:
        async with httpx.AsyncClient(transport=make(limits(tasks)), timeout=60) as client:
            await asyncio.gather(*(work(client, 1) for _ in range(tasks)))
            began = time.process_time()
            await asyncio.gather(*(work(client, count // tasks) for _ in range(tasks)))
            return (time.process_time() - began) / (count // tasks * tasks)

    return asyncio.run(main())


def compare(name: str, plain: Callable[[], float], ours: Callable[[], float], rounds: int) -> None:
    """Alternate, print both medians and the ratio's median and spread."""
    pairs = [(plain(), ours()) for _ in range(rounds)]
    ratios = sorted(mine / theirs for theirs, mine in pairs)
    theirs = statistics.median(pair[0] for pair in pairs) * 1e3
    mine = statistics.median(pair[1] for pair in pairs) * 1e3
    print(
        f"{name:<18} httpx {theirs:6.3f} ms   outlast {mine:6.3f} ms   "
        f"ratio {statistics.median(ratios):5.2f} ({ratios[0]:.2f} .. {ratios[-1]:.2f})",
        flush=True,
    )


def main(rounds: int, count: int) -> None:
    """All rows."""
    with server() as url:
        compare(
            "sync, 1 at once",
            lambda: sync_round(lambda lim: httpx.HTTPTransport(limits=lim), url, count),
            lambda: sync_round(lambda lim: outlast.Transport(limits=lim), url, count),
            rounds,
        )
        for tasks in (1, 100, 500):
            compare(
                f"async, {tasks} at once",
                lambda n=tasks: async_round(
                    lambda lim: httpx.AsyncHTTPTransport(limits=lim), url, max(count, 2 * n), n
                ),
                lambda n=tasks: async_round(
                    lambda lim: outlast.AsyncTransport(limits=lim), url, max(count, 2 * n), n
                ),
                rounds,
            )


if __name__ == "__main__":
    arguments = [int(text) for text in sys.argv[1:]]
    main(*(arguments + [7, 1000][len(arguments) :]))
