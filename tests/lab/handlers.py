"""Applications for pods of the lab; a pod imports them by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends back what it gets."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes what it gets and says nothing."""
    while await reader.read(65536):
        pass
    writer.close()


async def pause(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads a line with a number of seconds and one of bytes; reads nothing for so long, then all
    of the bytes, and says how many they were."""
    seconds, size = map(float, (await reader.readline()).split())
    await asyncio.sleep(seconds)
    left = size
    while left and (data := await reader.read(1 << 20)):
        left -= len(data)
    writer.write(b"%d\n" % (size - left))
    await writer.drain()


async def pause_uploads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """HTTP/1.1 in brief: answers a request without a body at once; of another it reads nothing for
    as many seconds as its path says, then all of it, and says how many bytes they were."""
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        first, *fields = head.decode().lower().split("\r\n")
        told = dict(field.split(": ", 1) for field in fields if field)
        size = left = int(told.get("content-length", "0"))
        if size:
            await asyncio.sleep(float(first.split()[1].strip("/")))
        while left and (data := await reader.read(min(left, 1 << 20))):
            left -= len(data)
        body = b"%d" % (size - left)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()


async def shout(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """An ASGI application: the request's body in capitals, and its path as a header."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    headers = [(b"x-path", scope["path"].encode()), (b"transfer-encoding", b"chunked")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": body.upper()})


async def broken(*_: object) -> None:
    """An ASGI application that fails."""
    raise LookupError("no such order")


_mood = [200, 0.01]  # status, seconds: of this pod's process


async def moody(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """An ASGI application that answers as it was last told to: /mood/503/0.1."""
    told = scope["path"].split("/")
    if told[1] == "mood":
        _mood[:] = [int(told[2]), float(told[3])]
    status, seconds = _mood
    await asyncio.sleep(seconds)
    answered = 200 if told[1] == "mood" else int(status)
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": answered, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
