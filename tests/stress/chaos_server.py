"""A server that misbehaves by chance: it closes, resets, stays mute, breaks off, drips, refuses.

A program of its own, so that its sockets, threads and memory are not the client's:

    python -m tests.stress.chaos_server SEED [CERTIFICATE KEY]

It prints one line, the ports it listens on as JSON, and then answers one line of JSON to each
command on its standard input: `mood NAME` (how it behaves from now on), `close N` and `open N`
(its N-th port), `counts` (what it has seen). It ends with its standard input.

An answer names the request it belongs to. A request that arrived whole more than once is counted
under `twice`, by method. HTTP/1.1, and HTTP/2 to whoever begins so (`chaos_h2`).
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import ssl
import struct
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

PORTS = 3
REMEMBERED = 50_000  # requests, to notice those that come twice
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DRIP = 0.002  # seconds between two pieces

# What follows a request, and how often in a thousand; the rest is answered well.
MOODS: dict[str, dict[str, int]] = {
    "calm": {},
    "killing": {"kill": 60},
    "wild": {
        "chunked": 100,
        "close_after": 60,
        "drip": 60,
        "garbage": 10,
        "half": 30,
        "half_reset": 30,
        "hang_up": 40,
        "kill": 20,
        "mute": 8,
        "refuse": 40,
        "reset": 40,
        "reset_after": 40,
        "say_close": 40,
    },
    "mute": {"mute": 1000},
}
INSTEAD = {  # of the answer
    "garbage": b"\x16\x03\x01 nonsense\r\n\r\n",
    "refuse": b"HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n",
}


def body_of(path: bytes, sent: bytes) -> bytes:
    """What the answer to a request says: `/name?size` asks for so many bytes."""
    name, _, size = path.partition(b"?")
    text = b"%s %d;" % (name, len(sent))
    return text if not size.isdigit() else (text * (int(size) // len(text) + 1))[: int(size)]


class Town:
    """Everything that the connections share: chance, mood, and what was seen."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.mood = "calm"
        self.talks: dict[Any, None] = {}
        self.counts: Counter[str] = Counter()
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def note(self, method: bytes, path: bytes) -> None:
        """A request has arrived whole."""
        self.counts["requests"] += 1
        key = method + path
        if key in self._seen:
            self.counts[f"twice {method.decode()}"] += 1
        self._seen[key] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)

    def turn(self) -> str:
        """What is done with the next request."""
        draw = self.rng.randrange(1000)
        for name, share in MOODS[self.mood].items():
            draw -= share
            if draw < 0:
                self.counts[name] += 1
                return name
        return "answer"

    def kill_one(self) -> None:
        """Reset some connection, whatever it is at."""
        self.rng.choice(list(self.talks)).cut()


class Talk(asyncio.Protocol):
    """One connection of HTTP/1.1, until a client begins as HTTP/2 does."""

    transport: asyncio.Transport

    def __init__(self, town: Town) -> None:
        self.town = town
        self.buffer = b""
        self.other: Any = None  # who talks HTTP/2 in this one's place

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.town.counts["connections"] += 1
        self.town.talks[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.town.talks.pop(self, None)

    def cut(self) -> None:
        """Reset it."""
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.other is None and (self.buffer + data).startswith(PREFACE[:3]):
            from tests.stress.chaos_h2 import H2Talk

            self.other = H2Talk(self)
            data, self.buffer = self.buffer + data, b""
        if self.other is not None:
            self.other.received(data)
            return
        self.buffer += data
        while not self.transport.is_closing() and (request := self._request()) is not None:
            method, path, body = request
            self.town.note(method, path)
            self._answer(path, body)

    def _request(self) -> tuple[bytes, bytes, bytes] | None:
        """Method, path and body of a request that has arrived whole."""
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return None
        method, path, _ = head.split(b"\r\n", 1)[0].split(b" ")
        lower = head.lower()
        if b"transfer-encoding: chunked" in lower:
            body, end, left = rest.partition(b"0\r\n\r\n")
            if not end:
                return None
            self.buffer = left
            return method, path, b"".join(body.split(b"\r\n")[1::2])
        size = 0
        if b"content-length:" in lower:
            size = int(lower.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(rest) < size:
            return None
        self.buffer = rest[size:]
        return method, path, rest[:size]

    def _answer(self, path: bytes, sent: bytes) -> None:
        body = body_of(path, sent)
        head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
        turn = self.town.turn()
        if turn == "kill":
            self.town.kill_one()
        elif turn == "say_close":
            head = head.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
        elif turn in ("half", "half_reset"):
            body = body[: len(body) // 2]
        if turn == "drip":
            self._drip(head + body)
        elif turn not in ("mute", "reset", "hang_up"):
            self._write(INSTEAD.get(turn) or (_chunked(body) if turn == "chunked" else head + body))
        if turn in ("close_after", "say_close", "half", "hang_up"):
            self.transport.close()
        elif turn in ("reset", "reset_after", "half_reset"):
            self.cut()

    def _drip(self, data: bytes, pieces: int = 4) -> None:
        """In pieces, with time between them."""
        size = len(data) // pieces + 1
        loop = asyncio.get_running_loop()
        for number in range(pieces):
            piece = data[number * size : (number + 1) * size]
            loop.call_later(DRIP * number, self._write, piece)

    def _write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)


def _chunked(body: bytes) -> bytes:
    size = len(body) // 3 + 1
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    framed = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"


class Ports:
    """The listening sockets, which can go and come back."""

    def __init__(self, town: Town, context: ssl.SSLContext | None) -> None:
        self._made: Callable[[], asyncio.Protocol] = lambda: Talk(town)
        self._context = context
        self._servers: list[asyncio.Server | None] = []
        self.ports: list[int] = []

    async def begin(self) -> None:
        for _ in range(PORTS):
            self._servers.append(await self._listen(0))
        self.ports = [s.sockets[0].getsockname()[1] for s in self._servers if s is not None]

    async def _listen(self, port: int) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(
            self._made, "127.0.0.1", port, ssl=self._context, backlog=1024, reuse_address=True
        )

    async def open(self, number: int) -> None:
        if self._servers[number] is None:
            self._servers[number] = await self._listen(self.ports[number])

    def close(self, number: int) -> None:
        server, self._servers[number] = self._servers[number], None
        if server is not None:
            server.close()


async def obey(town: Town, ports: Ports, line: str) -> object:
    """Carry one command out; what to answer."""
    word, _, rest = line.strip().partition(" ")
    if word == "mood":
        town.mood = rest
    elif word == "open":
        await ports.open(int(rest))
    elif word == "close":
        ports.close(int(rest))
        for talk in list(town.talks):
            if talk.transport.get_extra_info("sockname")[1] == ports.ports[int(rest)]:
                talk.cut()
    return {**town.counts, "open": len(town.talks)}


def tell(what: object) -> None:
    """One line of JSON for whoever began this."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def serve(seed: int, context: ssl.SSLContext | None) -> None:
    town = Town(seed)
    ports = Ports(town, context)
    await ports.begin()
    tell(ports.ports)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        answer = await obey(town, ports, line.decode())
        tell(answer)


def main() -> None:
    seed, *files = sys.argv[1:]
    context = None
    if files:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        context.set_alpn_protocols(["h2", "http/1.1"])
    asyncio.run(serve(int(seed), context))


if __name__ == "__main__":
    main()
