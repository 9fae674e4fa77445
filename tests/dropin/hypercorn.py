"""A real server for HTTP/2 over TLS: hypercorn, in a process of its own, as `hypercorn_program`
has it. Each client meets a new one, at the same port.
"""

from __future__ import annotations

import functools
import json
import select
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.dropin.authority import server_pem
from tests.dropin.stage import BOUND, Act, Line, Stage

__all__ = ["HypercornStage", "stop"]

PROGRAM = Path(__file__).with_name("hypercorn_program.py")


class Hypercorn:
    """The process, begun when it is first needed."""

    def __init__(self) -> None:
        with tempfile.NamedTemporaryFile(suffix=".pem", delete=False) as pem:
            pem.write(server_pem())
        self._pem = Path(pem.name)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(128)
            self.port: int = listener.getsockname()[1]
            self._process = subprocess.Popen(
                # isolated: the modules beside the program are not its own
                [sys.executable, "-I", PROGRAM, str(listener.fileno()), self._pem],
                pass_fds=[listener.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )

    def order(self, word: str) -> Any:
        """Tell it to do something; its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n".encode())
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], BOUND)
        assert ready, f"hypercorn does not {word}"
        return json.loads(self._process.stdout.readline())

    def stop(self) -> None:
        """End it."""
        self._process.communicate(timeout=BOUND)
        self._pem.unlink()


class HypercornStage(Stage):
    """The process as a stage."""

    def __init__(self) -> None:
        self._hypercorn = _shared()
        self.port = self._hypercorn.port
        self.scheme, self.path = "https", None
        self.authority = f"127.0.0.1:{self.port}"
        self.url = f"https://{self.authority}"
        self.act = Act()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        """It stays for others."""

    def begin(self) -> Act:
        """See `Stage.begin`."""
        self._hypercorn.order("begin")
        return super().begin()

    def end(self) -> list[Line]:
        """See `Stage.end`."""
        lines = self._hypercorn.order("end")
        return [
            Line(requests=[told[0] for told in line], said=[str(told) for told in line])
            for line in lines
        ]

    def open(self) -> None:
        """Open the gate that its application waits at."""
        self._hypercorn.order("open")

    def leave(self) -> None:
        """Shut it down gracefully; another one takes over."""
        self.act.left = True
        self._hypercorn.order("leave")


@functools.cache
def _shared() -> Hypercorn:
    return Hypercorn()


def stop() -> None:
    """End the process, if there is one."""
    if _shared.cache_info().currsize:
        _shared().stop()
        _shared.cache_clear()
