"""A server that stops reading in the middle of an upload, for as long as the request's path says.

`POST /PAUSE`: reads the head and a quarter of a MiB, pauses PAUSE seconds, reads the rest, answers
with the number of bytes. Meanwhile its kernel closes the window and goes on acknowledging probes:
it is alive, and a client that takes it for dead breaks the upload.
"""

from __future__ import annotations

import asyncio

__all__ = ["serve"]

_FIRST = 262_144  # bytes


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, one upload."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.partition("content-length:")[2].split()[0])
    pause = float(head.split()[1].strip("/"))
    got = len(await reader.readexactly(_FIRST))
    await asyncio.sleep(pause)
    while got < length:
        data = await reader.read(length - got)
        if not data:
            return
        got += len(data)
    body = str(got).encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    await writer.drain()
