"""A pod: a program on a node, and what can befall it.

The program itself is given (`Program`); a pod is its life: it listens, is killed, is frozen, ends
in good order. A killed program's sockets are closed by its kernel, with FIN, or RST where bytes
were unread. A frozen one's kernel goes on accepting and acknowledging.

Source: signal(7), the kernel's close on exit; Kubernetes' pod termination for `stop`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from outlast.testing.addressed import Addressed
from outlast.testing.simnet.packet import Endpoint
from outlast.testing.simnet.rules import SECOND

if TYPE_CHECKING:
    from outlast.testing.pod_process import Counts
    from outlast.testing.simnet.node import Node
    from outlast.testing.simnet.sockets import Listener

__all__ = ["Counting", "Pod", "Program"]


class Program(Protocol):
    """What runs in a pod. Its methods are called in the middle of events: they only take note."""

    def started(self, pod: Pod, listener: Listener) -> None:
        """A new process has begun; it listens already."""

    def stopping(self, pod: Pod) -> None:
        """SIGTERM, and the listener is closed: answer what is under way, close, `pod.exit()`."""

    def ended(self, pod: Pod) -> None:
        """The process is gone: its sockets are closed already, nothing of it runs any more."""

    def frozen(self, pod: Pod) -> None:
        """The process is stopped; `pod.frozen` says so too."""

    def thawed(self, pod: Pod) -> None:
        """The process goes on."""


@runtime_checkable
class Counting(Protocol):
    """A program that counts what it has applied."""

    def counts(self) -> Counts:
        """Over all lives of the pod."""


class Pod(Addressed):
    """One pod. Made by `Node.pod`."""

    def __init__(
        self, node: Node, name: str, hosts: tuple[str, str], port: int, program: Program
    ) -> None:
        self.node = node
        self.name = name
        self.host, self.host6 = hosts
        self.port = port
        self.program = program
        self.listener: Listener | None = None
        self.frozen = False
        self.stopping = False
        self.backlog = 128

    @property
    def endpoint(self) -> Endpoint:
        """Host and port."""
        return self.host, self.port

    @property
    def endpoint6(self) -> Endpoint:
        """The same in IPv6."""
        return self.host6, self.port

    @property
    def running(self) -> bool:
        """Whether the pod's process lives (a frozen one does)."""
        return self.listener is not None

    def counts(self) -> Counts:
        """What the pod has applied so far, over all its lives; for a frozen one, as it was then."""
        if isinstance(self.program, Counting):
            return self.program.counts()
        raise TypeError(f"the program of pod {self.name} counts nothing: {self.program!r}")

    def start(self) -> None:
        """Start a pod that was killed. One that runs is left alone."""
        if self.listener is None:
            self.launch()
            self.node.note(f"{self.name}: start")

    def kill(self) -> None:
        """End the process as SIGKILL does: connections are closed, new ones are refused."""
        self._end(reset=False)
        self.node.note(f"{self.name}: kill")

    def reset(self) -> None:
        """End the process so that every connection is reset, new ones are refused."""
        self._end(reset=True)
        self.node.note(f"{self.name}: reset")

    def stop(self, grace: float = 30.0) -> None:
        """End in good order, as a terminated pod: it refuses new connections, answers what is
        under way, and closes. After `grace` seconds it is killed.
        """
        if not grace >= 0:
            raise ValueError(f"grace={grace!r} s; right: pod.stop(grace=30.0)")
        listener = self._present()
        if self.stopping:
            return
        self.stopping = True
        listener.close()
        self.node.note(f"{self.name}: stop")
        timeline = self.node.kernel.timeline
        timeline.after(round(grace * SECOND), lambda: self._overdue(listener), "grace period")
        self.program.stopping(self)

    def _overdue(self, listener: Listener) -> None:
        if self.listener is listener:
            self.kill()

    def exit(self) -> None:
        """The program has ended by itself; what it left open is closed."""
        if self.listener is not None:
            self._end(reset=False)
            self.node.note(f"{self.name}: exit")

    def freeze(self) -> None:
        """Stop the process. Its kernel still accepts and acknowledges; nothing answers."""
        self._present()
        self.frozen = True
        self.program.frozen(self)
        self.node.note(f"{self.name}: freeze")

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self._present()
        self.frozen = False
        self.program.thawed(self)
        self.node.note(f"{self.name}: thaw")

    def fill_accept_queue(self) -> None:
        """Have no room for new connections, as a listener that nobody accepts from."""
        listener = self._present()
        listener.backlog = -1
        self.node.note(f"{self.name}: accept queue full")

    def empty_accept_queue(self) -> None:
        """Undo `fill_accept_queue`."""
        self._present().backlog = self.backlog
        self.node.note(f"{self.name}: accept queue has room")

    def launch(self) -> None:
        """Start the process, without a note."""
        kernel = self.node.kernel
        self.listener = kernel.listen(
            self.endpoint, self.backlog, owner=self, also=[self.endpoint6]
        )
        self.frozen = self.stopping = False
        self.program.started(self, self.listener)

    def crash(self) -> None:
        """The node has lost power: the process is gone, and its sockets with it."""
        self.stopping = False
        if self.listener is not None:
            self.listener = None
            self.program.ended(self)

    def _end(self, *, reset: bool) -> None:
        listener, self.listener = self.listener, None
        self.stopping = False
        if listener is None:
            return
        listener.close()
        for conn in tuple(self.node.kernel.connections.values()):
            if conn.owner is self and not conn.orphan:
                conn.orphan = True
                if reset:
                    conn.notify = None
                    conn.abort()
                else:
                    conn.abandon()
        self.program.ended(self)

    def _present(self) -> Listener:
        if self.listener is None:
            raise RuntimeError(f"pod {self.name} is not running; start() it first")
        return self.listener

    def __repr__(self) -> str:
        return f"<Pod {self.name} {self.address}{'' if self.running else ' (dead)'}>"
