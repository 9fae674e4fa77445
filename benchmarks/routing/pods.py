"""What the pods of this benchmark run: an application that answers as it was last told to.

`/mood/503/0.01` sets status and seconds of every answer from then on, those to health checks too.
Each such request is told how many others, checks (`/`) apart, the pod has had.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

_state = {"status": 200, "seconds": 0.01, "asked": 0}


async def moody(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],  # noqa: ARG001  ASGI's
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """See above; an ASGI application."""
    told = scope["path"].split("/")
    status, body = 200, b'{"pod": %d}' % os.getpid()
    if told[1] == "mood":
        _state["status"], _state["seconds"] = int(told[2]), float(told[3])
        body = b"%d" % _state["asked"]
    else:
        _state["asked"] += told[1] != ""
        await asyncio.sleep(_state["seconds"])
        status = int(_state["status"])
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
