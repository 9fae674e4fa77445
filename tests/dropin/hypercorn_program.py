"""The program that serves `tests.dropin.hypercorn`: hypercorn, and an application for the cases.

Arguments: the listener's file descriptor, and a file with key and certificate; none for plain
text. It takes orders, a line each, and answers each by a line: `begin` starts a server, `leave`
shuts it down gracefully and starts the next one on the same listener, `open` opens the gate, `end`
shuts down and tells the journal (JSON): by connection, in the order of their first requests, what
was asked. It ends with its input.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from hypercorn.asyncio import serve
from hypercorn.config import Config

Receive: TypeAlias = "Callable[[], Awaitable[dict[str, Any]]]"
Send: TypeAlias = "Callable[[dict[str, Any]], Awaitable[None]]"

GRACE = 5.0  # seconds that a server which leaves gives its requests
MEGABYTE = 1_048_576
LONG = 1000  # bytes; of longer bodies the journal has a digest


class Application:
    """ASGI: the first part of a path says what is done."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.journal: dict[str, list[list[str]]] = {}

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        asked = f"{scope['method']} {scope['raw_path'].decode('latin-1')}"
        headers = [(name.decode(), value.decode("latin-1")) for name, value in scope["headers"]]
        told = [asked, f"{scope['http_version']} {scope['scheme']} {headers}"]
        self.journal.setdefault(str(scope["client"]), []).append(told)
        kind = scope["path"].split("/")[1]
        body = await getattr(self, kind)(scope, receive, send)
        if body is not None:
            told.append(repr(body) if len(body) < LONG else hashlib.sha256(body).hexdigest())

    async def echo(self, scope: dict[str, Any], receive: Receive, send: Send) -> bytes:
        """The request's own body, or its path."""
        body = b"".join([part async for part in parts(receive)])
        answer = b"" if scope["method"] == "HEAD" else body or scope["raw_path"]
        await start(send, 200, ("content-length", str(len(answer))))
        await finish(send, answer)
        return body

    async def status(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """The status that the path says, without a body."""
        async for _ in parts(receive):
            pass
        await start(send, int(scope["path"].split("/")[2]), ("etag", '"1"'))
        await finish(send)

    async def early(self, scope: dict[str, Any], receive: Receive, send: Send) -> bytes:
        """Half of the answer by the head of the request, the rest after its body. (hypercorn drops
        a connection on which a body goes on when the answer is over.)"""
        await start(send, 200)
        await send({"type": "http.response.body", "body": b"early ", "more_body": True})
        body = b"".join([part async for part in parts(receive)])
        await finish(send, b"and late")
        return body

    async def steps(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """The second half waits for the gate."""
        await start(send, 200)
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await self.gate.wait()
        self.gate.clear()
        await finish(send, b"second")

    async def both(self, scope: dict[str, Any], receive: Receive, send: Send) -> bytes:
        """Streaming both ways: every part goes back as it comes."""
        body = b""
        await start(send, 200)
        async for part in parts(receive):
            body += part
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await finish(send)
        return body

    async def large(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """As many megabytes as the path says."""
        await start(send, 200)
        for number in range(int(scope["path"].split("/")[2])):
            part = bytes((number,)) * MEGABYTE
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await finish(send)

    async def trailers(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """A body and trailers, where the client takes them."""
        takes = "http.response.trailers" in scope["extensions"]
        head = {"type": "http.response.start", "status": 200, "headers": [], "trailers": takes}
        await send(head)
        await finish(send, b"body")
        if takes:
            await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"17")]})


async def parts(receive: Receive) -> Any:
    """The request's body."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        yield message.get("body", b"")
        more = message.get("more_body", False)


async def start(send: Send, status: int, *fields: tuple[str, str]) -> None:
    headers = [(name.encode(), value.encode()) for name, value in fields]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def finish(send: Send, body: bytes = b"") -> None:
    await send({"type": "http.response.body", "body": body, "more_body": False})


class Program:
    """hypercorn, as it is told."""

    def __init__(self, listener: int, pem: str | None) -> None:
        self.listener, self.pem = listener, pem
        self.application = Application()
        self.leaving = asyncio.Event()
        self.accepting = -1  # the descriptor that the last server accepts at
        self.servers: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        config = Config()
        self.accepting = os.dup(self.listener)  # it closes what it is given
        config.bind = [f"fd://{self.accepting}"]
        if self.pem:
            config.certfile = config.keyfile = self.pem
        config.include_date_header = False
        config.graceful_timeout = GRACE
        config.errorlog = None
        self.leaving = asyncio.Event()
        serving = serve(self.application, config, shutdown_trigger=self.leaving.wait)  # type: ignore[arg-type]  # an ASGI application all the same
        self.servers.append(asyncio.create_task(serving))

    async def leave(self) -> None:
        """Until nothing is accepted any more, and idle connections have been told; what has begun
        goes on."""
        self.leaving.set()
        while is_open(self.accepting):  # noqa: ASYNC110  hypercorn's own, which tells nobody
            await asyncio.sleep(0)
        for _ in range(100):  # far more turns than that takes
            await asyncio.sleep(0)

    async def end(self) -> None:
        await self.leave()
        self.application.gate.set()
        await asyncio.wait(self.servers)  # one that had to cancel a request ends as cancelled
        self.servers.clear()

    async def obey(self, order: str) -> object:
        if order == "begin":
            self.application = Application()
            self.begin()
        elif order == "leave":
            await self.leave()
            self.begin()
        elif order == "open":
            self.application.gate.set()
        elif order == "end":
            await self.end()
            return list(self.application.journal.values())
        return None


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


async def main() -> None:
    listener, *pem = sys.argv[1:]
    program = Program(int(listener), *pem)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while order := (await reader.readline()).decode().strip():
        sys.stdout.write(json.dumps(await program.obey(order)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
