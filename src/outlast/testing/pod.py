"""The test's handle on a pod: start, kill, freeze, thaw, and what it has applied.

A pod is one process (`pod_server`) on its node. A kill is sudden: the kernel closes its sockets, new
connections are refused. A frozen pod's kernel goes on accepting and acknowledging, and nothing answers.
Counts add up over all processes that the pod has had.

Source: signal(7). Refuses applications that the pod's process could not import.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from outlast.testing.node import Node

# Generous for a machine that is busy with other tests; a start takes about 0.2 s.
_START_LIMIT = 20.0
# An idle pod answers an order in well under 1 ms.
_ORDER_LIMIT = 2.0
_BOOT = "import json,sys; sys.path[:] = json.loads(sys.argv[2]); " + (
    "from outlast.testing.pod_server import main; main(sys.argv[1])"
)


class Counts(TypedDict):
    """What a pod has applied (requests that arrived whole), and the connections it accepted."""

    requests: int
    connections: int
    open: int
    methods: dict[str, int]
    ids: dict[str, int]


class Pod:
    """One pod. Made by `Node.pod`; its methods may be called from any thread."""

    def __init__(
        self, node: Node, name: str, host: str, port: int, app: str | None, raw: str | None
    ) -> None:
        self.node = node
        self.name = name
        self.host = host
        self.port = port
        self._app = app
        self._raw = raw
        self._process: PodProcess | None = None
        self._past: list[Counts] = []

    @property
    def address(self) -> str:
        """Host and port, as in a `static://` target."""
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The pod's own HTTP address, past any Service."""
        return f"http://{self.address}"

    @property
    def running(self) -> bool:
        """Whether the pod's process lives (a frozen one does)."""
        return self._process is not None

    def start(self) -> None:
        """Start a pod that was killed; returns when it listens. RuntimeError if it runs."""
        self.launch()
        self.wait_ready()
        self.node.note(f"{self.name}: start")

    def kill(self) -> None:
        """End the process as SIGKILL does. Connections break, new ones are refused."""
        self.end()
        self.node.note(f"{self.name}: kill")

    def freeze(self) -> None:
        """Stop the process. Its kernel still accepts and acknowledges; nothing answers."""
        self._alive().freeze()
        self.node.note(f"{self.name}: freeze")

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self._alive().thaw()
        self.node.note(f"{self.name}: thaw")

    def counts(self) -> Counts:
        """What the pod has applied so far, over all its lives, also while its node is off.

        Raises TimeoutError when the process does not answer within 2 s (its application blocks).
        """
        now = [self._process.counts()] if self._process is not None else []
        return _sum([*self._past, *now])

    def wait_ready(self) -> None:
        """Wait until the pod listens. RuntimeError when its process ended or takes over 20 s."""
        self._alive().wait_ready()

    def launch(self) -> None:
        """Start the process without waiting for it."""
        if self._process is not None:
            raise RuntimeError(f"pod {self.name} is running already; kill it first")
        settings = {
            **{"name": self.name, "host": self.host, "port": self.port},
            **{"app": self._app, "raw": self._raw, "parent": os.getpid()},
        }
        argv = [sys.executable, "-c", _BOOT, json.dumps(settings), json.dumps(sys.path)]
        self._process = PodProcess(self.name, self.node.spawn(argv))

    def end(self) -> None:
        process, self._process = self._process, None
        if process is not None and (counts := process.end()) is not None:
            self._past.append({**counts, "open": 0})

    def _alive(self) -> PodProcess:
        if self._process is None:
            raise RuntimeError(f"pod {self.name} is not running; start() it first")
        return self._process

    def __repr__(self) -> str:
        return f"<Pod {self.name} {self.address}{'' if self.running else ' (dead)'}>"


class PodProcess:
    """One life of a pod: its process, and a thread that reads its answers."""

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self._name = name
        self._process = process
        self._numbers = itertools.count(1)
        self._answers: dict[int, Future[Counts]] = {0: Future()}
        self._frozen: Counts | None = None
        self._reader = threading.Thread(target=self._read, name=f"pod-{name}", daemon=True)
        self._reader.start()

    def wait_ready(self) -> None:
        try:
            self._answers[0].result(_START_LIMIT)
        except FutureTimeout:
            raise RuntimeError(f"pod {self._name} did not start in {_START_LIMIT:g} s") from None

    def counts(self) -> Counts:
        if self._frozen is not None:
            return self._frozen
        try:
            return self._order("counts")
        except FutureTimeout:
            raise TimeoutError(
                f"pod {self._name} (process {self._process.pid}) has not answered within "
                f"{_ORDER_LIMIT:g} s: frozen from outside, or its application blocks its loop"
            ) from None

    def freeze(self) -> None:
        if self._frozen is None:
            try:
                self._frozen = self._order("freeze")
            except FutureTimeout:  # its application blocks the loop
                self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._frozen = None
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> Counts | None:
        """Kill the process; its last counts, or None when it could not tell."""
        last = self._frozen
        if last is None and self._answers[0].done():
            try:
                last = self._order("die")
            except (FutureTimeout, RuntimeError):
                last = None
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        return last

    def _order(self, what: str) -> Counts:
        """Give one order and wait for its answer; thread-safe, as a short write to a pipe is whole."""
        number = next(self._numbers)
        answer = self._answers[number] = Future()
        try:
            assert self._process.stdin is not None
            os.write(
                self._process.stdin.fileno(),
                json.dumps({"id": number, "do": what}).encode() + b"\n",
            )
            return answer.result(_ORDER_LIMIT)
        except BrokenPipeError:
            raise self._ended() from None
        finally:
            self._answers.pop(number, None)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message: dict[str, Any] = json.loads(line)
            answer = self._answers.get(message["id"])
            if answer is not None:
                answer.set_result(message.get("counts", {}))
        for answer in list(self._answers.values()):
            if not answer.done():
                answer.set_exception(self._ended())

    def _ended(self) -> RuntimeError:
        return RuntimeError(f"the process of pod {self._name} has ended; its own words are on stderr")


def reference_to(what: str, given: str | Callable[..., object] | None) -> str | None:
    """`module:qualname` of something that another process can import, or ValueError."""
    if given is None:
        return None
    right = f"right: {what}='package.module:name', or a function defined at a module's top level"
    reference = given if isinstance(given, str) else _name_of(given)
    module, colon, qualname = reference.partition(":")
    if not (module and colon and qualname):
        raise ValueError(f"{what}={given!r} does not name something to import; {right}")
    try:
        found = functools.reduce(getattr, qualname.split("."), importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{what}={given!r} cannot be imported ({error}); {right}") from error
    if not callable(found) or (not isinstance(given, str) and found is not given):
        raise ValueError(f"{what}={given!r} is not what {reference} imports; {right}")
    return reference


def _name_of(given: Callable[..., object]) -> str:
    module = getattr(given, "__module__", None)
    if module in (None, "__main__"):  # another process has a __main__ of its own
        return ""
    return f"{module}:{getattr(given, '__qualname__', '')}"


def _sum(parts: list[Counts]) -> Counts:
    methods: Counter[str] = Counter()
    ids: Counter[str] = Counter()
    for part in parts:
        methods.update(part["methods"])
        ids.update(part["ids"])
    return {
        "requests": sum(part["requests"] for part in parts),
        "connections": sum(part["connections"] for part in parts),
        "open": sum(part["open"] for part in parts),
        "methods": dict(methods),
        "ids": dict(ids),
    }
