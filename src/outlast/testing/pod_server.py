"""The process of one pod: it listens, serves, counts what it applied, and obeys the lab.

Started by the lab on the pod's node with one JSON argument; it talks to the lab in JSON lines over
its standard input and output. It ends when that input ends, that is with the lab, and the kernel
kills it with the lab even when it is stopped (`tether`).

Orders, each with an `id` that its answer repeats: `counts`; `die` (answer with the counts, then
SIGKILL oneself); `freeze` (answer with the counts, then SIGSTOP oneself). As answer and end are one
step of the event loop, no request is applied after it was counted for the last time. The first line
has `id` 0 and says that the pod listens.

Source: signal(7). Serves the built-in HTTP behaviour (`pod_http`), an ASGI application
or a raw stream handler. Imports little, so that a pod is there soon.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import os
import signal
import socket
import sys
from typing import Any

from outlast.testing.pod_http import PodProtocol, Tally
from outlast.testing.pod_lifespan import Lifespan
from outlast.testing.tether import die_with

# As many waiting connections as the kernel allows by default (net.core.somaxconn since 5.4).
_BACKLOG = 4096


def main(argument: str) -> None:
    """Run the pod that the JSON text `argument` describes, until the lab ends it."""
    settings: dict[str, Any] = json.loads(argument)
    die_with(settings["parent"])
    asyncio.run(_serve(settings))


async def _serve(settings: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    tally = Tally(settings["name"])
    ended = loop.create_future()
    control = Control(tally, ended)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((settings["host"], settings["port"]))
        sock.setblocking(False)
        await _listen(settings, tally, sock)
        os.set_blocking(0, False)
        loop.add_reader(0, control.on_readable)
        control.say({"id": 0})
        await ended


async def _listen(settings: dict[str, Any], tally: Tally, sock: socket.socket) -> None:
    if settings["raw"] is not None:
        handler = _find(settings["raw"])
        serve = functools.partial(_serve_raw, tally, handler)
        await asyncio.start_server(serve, sock=sock, backlog=_BACKLOG)
        return
    app = None
    if settings["app"] is not None:
        lifespan = Lifespan(_find(settings["app"]))
        await lifespan.start()
        app = lifespan.application
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: PodProtocol(tally, app), sock=sock, backlog=_BACKLOG)


async def _serve_raw(
    tally: Tally, handler: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    tally.connections += 1
    tally.open += 1
    try:
        await handler(reader, writer)
    except ConnectionError:
        pass  # the client went away: the handler's end, not its fault
    finally:
        tally.open -= 1
        writer.close()


class Control:
    """The pod's end of the lab's orders."""

    def __init__(self, tally: Tally, ended: asyncio.Future[None]) -> None:
        self._tally = tally
        self._ended = ended
        self._rest = b""

    def on_readable(self) -> None:
        """Read what has come on standard input, and obey every whole line."""
        try:
            data = os.read(0, 65536)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(0)
            self._ended.set_result(None)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def say(self, message: dict[str, Any]) -> None:
        """Write one line to the lab, whole."""
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(1, data) :]

    def _obey(self, order: dict[str, Any]) -> None:
        self.say({"id": order["id"], "counts": self._tally.as_dict()})
        if order["do"] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif order["do"] == "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)


def _find(reference: str) -> Any:
    """The object that `module:qualname` names."""
    module, _, qualname = reference.partition(":")
    return functools.reduce(getattr, qualname.split("."), importlib.import_module(module))


if __name__ == "__main__":
    main(sys.argv[1])
