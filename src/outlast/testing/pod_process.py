"""One life of a pod: its process, its orders and a thread that reads its answers.

Orders are JSON lines with a number, answers carry it back, so that any thread may ask at any time
and nobody waits for anybody else's answer. The protocol is described in `pod_server`.

Source: pipe(7): a write shorter than PIPE_BUF is not mixed with others.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypedDict

# Generous for a machine that is busy with other tests; a start takes about 0.1 s.
_START_LIMIT = 20.0
# An idle pod answers an order in well under 1 ms.
_ORDER_LIMIT = 2.0


class Counts(TypedDict):
    """What a pod has applied (requests that arrived whole), and the connections it accepted."""

    requests: int
    connections: int
    open: int
    methods: dict[str, int]
    ids: dict[str, int]


class PodProcess:
    """A running pod process. Its methods may be called from any thread."""

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self._name = name
        self._process = process
        self._numbers = itertools.count(1)
        self._ready: Future[Counts] = Future()
        self._answers = {0: self._ready}
        self._frozen: Counts | None = None
        self._reader = threading.Thread(target=self._read, name=f"outlast-pod-{name}", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def wait_ready(self) -> None:
        """Wait until the pod listens."""
        try:
            self._ready.result(_START_LIMIT)
        except FutureTimeout as error:
            raise RuntimeError(f"pod {self._name} did not start in {_START_LIMIT:g} s") from error

    def counts(self) -> Counts:
        """What it has applied."""
        if self._frozen is not None:
            return self._frozen
        self.wait_ready()
        try:
            return self._order("counts")
        except FutureTimeout as error:
            raise TimeoutError(
                f"pod {self._name} (process {self._process.pid}) has not told its counts within "
                f"{_ORDER_LIMIT:g} s: its application blocks, or it was stopped from outside"
            ) from error

    def freeze(self) -> None:
        """Stop the process; by force when it does not stop by itself."""
        if self._frozen is None:
            self.wait_ready()
            try:
                self._frozen = self._order("freeze")
            except FutureTimeout:  # its application blocks
                self._process.send_signal(signal.SIGSTOP)
            # Else a thaw might come before the stop, and be lost.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        """Let the process go on."""
        self._frozen = None
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> Counts | None:
        """Kill the process; its last counts, or None when it could not tell."""
        last = self._frozen
        if last is None and self._ready.done() and self.alive:
            try:
                last = self._order("die")
            except (FutureTimeout, RuntimeError):  # it blocks, or has just ended by itself
                last = None
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return last

    def _order(self, what: str) -> Counts:
        """Give one order and wait for its answer."""
        number = next(self._numbers)
        answer: Future[Counts] = Future()
        self._answers[number] = answer
        line = json.dumps({"id": number, "do": what}).encode() + b"\n"
        try:
            if self._process.stdin is not None:
                os.write(self._process.stdin.fileno(), line)
            return answer.result(_ORDER_LIMIT)
        except BrokenPipeError as error:
            raise self._ended() from error
        finally:
            self._answers.pop(number, None)

    def _read(self) -> None:
        for line in self._process.stdout or ():
            message: dict[str, Any] = json.loads(line)
            answer = self._answers.get(message["id"])
            if answer is not None:
                answer.set_result(message.get("counts", {}))
        for answer in list(self._answers.values()):
            if not answer.done():
                answer.set_exception(self._ended())

    def _ended(self) -> RuntimeError:
        return RuntimeError(f"pod {self._name}: its process has ended; stderr may tell why")
