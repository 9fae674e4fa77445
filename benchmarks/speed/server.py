"""The server process: answers at once, on one port for each protocol, layer and size.

It parses as little as possible, so that it costs the same whoever asks, and less than any client.
Tells its ports as one line of JSON, and then, for each line it reads, how much CPU it has used and
how many connections it has accepted. Ends with its standard input. A GET of /hold is never
answered; one of /held tells how many such there are.

Run by `benchmarks.speed`: python -m benchmarks.speed.server CERTIFICATE [CORE]
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import ssl
import sys
import threading
import time
from collections.abc import Callable
from typing import cast

from benchmarks.speed.plan import H1, H2, LARGE, SMALL, Cell
from benchmarks.speed.server_h2 import Http2

BACKLOG = 4096
ANSWER = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n"
accepted = held = 0


class Http1(asyncio.Protocol):
    """One connection; every request head is answered with `size` bytes."""

    transport: asyncio.Transport

    def __init__(self, size: int) -> None:
        self.answer = ANSWER.format(size).encode() + bytes(size)
        self.holds = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by type

    def data_received(self, data: bytes) -> None:
        """One answer per head."""
        if data.startswith(b"GET /h"):
            self.hold(data)
        else:
            self.transport.write(self.answer * data.count(b"\r\n\r\n"))

    def hold(self, data: bytes) -> None:
        """Leave a request unanswered, or tell how many there are."""
        global held  # noqa: PLW0603  the process's own statistics
        if data.startswith(b"GET /held"):
            body = str(held)
            self.transport.write((ANSWER.format(len(body)) + body).encode())
        else:
            self.holds = True
            held += 1

    def connection_lost(self, _: Exception | None) -> None:
        """Whoever asked has gone."""
        global held  # noqa: PLW0603  the process's own statistics
        held -= self.holds


def counted(make: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
    """Counts the connections that a protocol is made for."""

    def made() -> asyncio.Protocol:
        global accepted  # noqa: PLW0603  the process's own statistics
        accepted += 1
        return make()

    return made


async def serve(certificate: str) -> None:
    """Open all ports, tell them, run until the standard input ends."""
    loop = asyncio.get_running_loop()
    ports = {}
    for protocol in (H1, H2):
        for tls in (False, True):
            for size in (SMALL, LARGE):
                context = secured(certificate, protocol) if tls else None
                made = (lambda n=size: Http1(n)) if protocol == H1 else (lambda n=size: Http2(n))
                server = await loop.create_server(
                    counted(made), "127.0.0.1", 0, ssl=context, backlog=BACKLOG
                )
                name = Cell(True, protocol, tls, size).port
                ports[name] = server.sockets[0].getsockname()[1]
    say(ports)
    over = asyncio.Event()
    threading.Thread(target=report, args=(loop, over), daemon=True).start()
    await over.wait()


def secured(certificate: str, protocol: str) -> ssl.SSLContext:
    """TLS as Python's defaults have it, for one protocol."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2" if protocol == H2 else "http/1.1"])
    return context


def say(what: object) -> None:
    """One line of JSON."""
    print(json.dumps(what), flush=True)


def report(loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    """Answer each line with statistics; at the end of the input end the server."""
    for _ in sys.stdin:
        say({"cpu": time.process_time(), "accepted": accepted})
    loop.call_soon_threadsafe(over.set)


def main(certificate: str, core: str = "") -> None:
    """Pin the process, and serve."""
    if core and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    loop = new_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(serve(certificate))


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, which is faster, where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


if __name__ == "__main__":
    main(*sys.argv[1:])
