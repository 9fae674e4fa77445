"""The test's handle on a pod: start, kill, freeze, thaw, and what it has applied.

A pod is one process (`pod_server`) on its node. A kill is sudden: the kernel closes its sockets and
refuses new connections. A frozen pod's kernel goes on accepting and acknowledging, and nothing
answers. Counts add up over all processes that the pod has had.

Source: signal(7). Refuses applications that the pod's process could not import.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from outlast.testing.addressed import Addressed
from outlast.testing.pod_process import Counts, PodProcess

if TYPE_CHECKING:
    from outlast.testing.node import Node

# The pod can import what the test could import.
_BOOT = """\
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from outlast.testing.pod_server import main
main(sys.argv[1])
"""


class Pod(Addressed):
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
    def running(self) -> bool:
        """Whether the pod's process lives (a frozen one does)."""
        process = self._process
        return process is not None and process.alive

    def start(self) -> None:
        """Start a pod that was killed; returns when it listens. One that runs is left alone."""
        if not self.running:
            self.end()
            self.launch()
            self.wait_ready()
            self.node.note(f"{self.name}: start")

    def kill(self) -> None:
        """End the process as SIGKILL does. Connections break, new ones are refused."""
        self.end()
        self.node.note(f"{self.name}: kill")

    def freeze(self) -> None:
        """Stop the process. Its kernel still accepts and acknowledges; nothing answers."""
        self._present().freeze()
        self.node.note(f"{self.name}: freeze")

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self._present().thaw()
        self.node.note(f"{self.name}: thaw")

    def counts(self) -> Counts:
        """What the pod has applied so far, over all its lives, also while its node is off.

        For a frozen pod: as it was then. Raises TimeoutError when the process does not answer
        within 2 s (its application blocks).
        """
        process = self._process
        return total([*self._past, *([process.counts()] if process is not None else [])])

    def wait_ready(self) -> None:
        """Wait until the pod listens. RuntimeError when its process ended or takes over 20 s."""
        self._present().wait_ready()

    def launch(self) -> None:
        """Start the process without waiting for it."""
        settings = {
            "name": self.name,
            "host": self.host,
            "port": self.port,
            "app": self._app,
            "raw": self._raw,
            "parent": os.getpid(),
        }
        arguments = [json.dumps(settings), json.dumps(sys.path)]
        process = self.node.spawn([sys.executable, "-c", _BOOT, *arguments])
        self._process = PodProcess(self.name, process)

    def end(self) -> None:
        """End the process, if there is one, and keep what it has counted."""
        process, self._process = self._process, None
        if process is not None and (counts := process.end()) is not None:
            self._past.append({**counts, "open": 0})

    def _present(self) -> PodProcess:
        if self._process is None:
            raise RuntimeError(f"pod {self.name} is not running; start() it first")
        return self._process

    def __repr__(self) -> str:
        return f"<Pod {self.name} {self.address}{'' if self.running else ' (dead)'}>"


def reference_to(what: str, given: str | Callable[..., object] | None) -> str | None:
    """`module:qualname` of something that another process can import, or ValueError."""
    if given is None:
        return None
    right = f"right: {what}='package.module:name', or a function at the top level of a module"
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


def total(parts: Iterable[Counts]) -> Counts:
    """What several lives of a pod have counted together."""
    total = Counts(requests=0, connections=0, open=0, methods={}, ids={})
    for part in parts:
        total["requests"] += part["requests"]
        total["connections"] += part["connections"]
        total["open"] += part["open"]
        total["methods"] = dict(Counter(total["methods"]) + Counter(part["methods"]))
        total["ids"] = dict(Counter(total["ids"]) + Counter(part["ids"]))
    return total
