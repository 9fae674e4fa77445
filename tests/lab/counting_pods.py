"""What pods of the limits' and hedges' tests run: they are late now and then, and count what is on
at once, by their own kernel; a pod imports them by name."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.fire.h2_pod import Books, serve_h2

ESTABLISHED = "01"  # include/net/tcp_states.h
LATE = 10  # one answer in so many
QUICK = 0.005  # seconds of the others
PACE = 0.03  # seconds of an ordinary answer of `counting`

_answers: Counter[str] = Counter()  # by method
_late = [QUICK]  # seconds that every tenth takes
_most = {"connections": 0, "requests": 0}
_now = {"requests": 0, "answered": 0}

two_streams = serve_h2(Books(), 0, 2)  # HTTP/2, two requests at once on a connection


async def tardy(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """An ASGI application that answers after 5 ms; every tenth of each method as late as it was
    told: by /late/1.0."""
    told = scope["path"].split("/")
    if told[1] == "late":
        _late[0] = float(told[2])
    else:
        _answers[scope["method"]] += 1
        late = _answers[scope["method"]] % LATE == 0
        await asyncio.sleep(_late[0] if late else QUICK)
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
    )
    await send({"type": "http.response.body", "body": b""})


def _connected(port: int) -> int:
    """Connections to a port that are up on both sides; one that the peer has closed is not. The
    kernel's list is no picture of one moment: of three looks the least is true."""
    return min(_established(port) for _ in range(3))


def _established(port: int) -> int:
    lines = (line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:])
    return sum(
        each[3] == ESTABLISHED and int(each[1].partition(":")[2], 16) == port for each in lines
    )


async def counting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """HTTP/1.1 in brief. Each answer says the most connections, and the most requests, that there
    ever were at once, and how many answers there have been."""
    port = writer.get_extra_info("sockname")[1]
    _most["connections"] = max(_most["connections"], _connected(port))
    while True:
        try:
            await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            break
        _now["requests"] += 1
        _most["requests"] = max(_most["requests"], _now["requests"])
        await asyncio.sleep(PACE)
        _now["requests"] -= 1
        _now["answered"] += 1
        body = b"%d %d %d" % (_most["connections"], _most["requests"], _now["answered"])
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
    writer.close()
