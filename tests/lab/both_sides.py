"""One client's view of a small cluster, on the kernel lab and on the simulation alike.

Two nodes `a` and `b` with an echoing pod each, and a Service over both. Calls block, in real or in
virtual time, for at most a given number of seconds.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Protocol

from outlast.testing import KernelLab
from outlast.testing.simnet.sockets import SimSocket
from tests.lab.handlers import echo as lab_echo
from tests.simnet.scene import Program, Scene, echo

_SHORT = 0.3  # seconds; what does not happen in it is silence
VIP = "orders.shop.svc:80"


class Connection(Protocol):
    """A connection of the client's. Outcomes are text: an errno's name, or what is said below."""

    def send(self, data: bytes) -> str:
        """`sent`, or the error."""

    def recv(self, seconds: float = _SHORT) -> str:
        """What came, as text; `end`, `silent`, or the error."""

    def option(self, level: int, number: int, value: int) -> None:
        """setsockopt."""

    def finish(self) -> None:
        """Send FIN."""

    def reset(self) -> None:
        """Close with RST."""

    def close(self) -> None:
        """Close in good order."""


class Side(Protocol):
    """A cluster of one kind."""

    def dial(
        self, where: str, *, port: int = 0, seconds: float = _SHORT
    ) -> tuple[str, Connection | None]:
        """Connect to `a`, `b` or `vip`: `connected`, `silent` or the error."""

    def do(self, what: str) -> None:
        """A fault, as `a.power_off`, `a.pod.kill`, `orders.remove a`."""

    def idle(self, seconds: float) -> None:
        """Let time pass."""


class SimConnection:
    """See `Connection`."""

    def __init__(self, scene: Scene, sock: SimSocket) -> None:
        self._scene = scene
        self._sock = sock

    def send(self, data: bytes) -> str:
        """See `Connection`."""
        return _outcome(lambda: "sent" if self._sock.send(data) else "full")

    def recv(self, seconds: float = _SHORT) -> str:
        """See `Connection`."""
        if self._scene.when(self._sock.readable, seconds) is None:
            return "silent"
        return _outcome(lambda: (self._sock.recv(1000) or b"").decode() or "end")

    def option(self, level: int, number: int, value: int) -> None:
        """See `Connection`."""
        self._sock.setsockopt(level, number, value)

    def finish(self) -> None:
        """See `Connection`."""
        self._sock.shutdown_write()

    def reset(self) -> None:
        """See `Connection`."""
        self._sock.abort()

    def close(self) -> None:
        """See `Connection`."""
        self._sock.close()


class SimSide:
    """See `Side`."""

    def __init__(self, seed: int) -> None:
        self.scene = Scene(Program(echo), seed=seed)
        b = self.scene.world.node("b")
        pods = {"a": self.scene.pod, "b": b.place(Program(echo))}
        self.orders = self.scene.world.service(VIP, list(pods.values()))
        empty = self.scene.world.service("empty.shop.svc:80")
        self._where = {name: pod.endpoint for name, pod in pods.items()}
        self._where |= {"vip": (self.orders.host, self.orders.port), "empty": (empty.host, 80)}
        self._faults: dict[str, Callable[[], None]] = {}
        for name, node in (("a", self.scene.a), ("b", b)):
            self._faults |= {
                f"{name}.power_off": node.power_off,
                f"{name}.power_on": node.power_on,
                f"{name}.black_hole": node.black_hole,
                f"{name}.unreachable": node.unreachable,
                f"{name}.heal": node.heal,
                f"{name}.pod.kill": pods[name].kill,
                f"{name}.pod.start": pods[name].start,
                f"{name}.pod.freeze": pods[name].freeze,
                f"orders.remove {name}": lambda node=node: self.orders.remove(node),  # type: ignore[misc]  # mypy cannot infer defaults of lambdas
            }

    def dial(
        self, where: str, *, port: int = 0, seconds: float = _SHORT
    ) -> tuple[str, Connection | None]:
        """See `Side`."""
        source = ("", port) if port else None
        client = self.scene.client
        sock = client.connect(self._where[where], [(1, 2, 1), (6, 1, 1)], source=source)
        if self.scene.when(sock.writable, seconds) is None:
            sock.abort()
            return "silent", None
        if code := sock.take_error():
            return errno.errorcode[code], None
        return "connected", SimConnection(self.scene, sock)

    def do(self, what: str) -> None:
        """See `Side`."""
        self._faults[what]()

    def idle(self, seconds: float) -> None:
        """See `Side`."""
        self.scene.run(seconds)


class LabConnection:
    """See `Connection`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def send(self, data: bytes) -> str:
        """See `Connection`."""
        return _outcome(lambda: "sent" if self._sock.send(data) else "full")

    def recv(self, seconds: float = _SHORT) -> str:
        """See `Connection`."""
        self._sock.settimeout(seconds)
        return _outcome(lambda: self._sock.recv(1000).decode() or "end")

    def option(self, level: int, number: int, value: int) -> None:
        """See `Connection`."""
        self._sock.setsockopt(level, number, value)

    def finish(self) -> None:
        """See `Connection`."""
        self._sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """See `Connection`."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()

    def close(self) -> None:
        """See `Connection`."""
        self._sock.close()


class LabSide:
    """See `Side`. Made by `lab_side`."""

    def __init__(self, lab: KernelLab, closing: contextlib.ExitStack) -> None:
        self._closing = closing
        self._nodes = {name: lab.node(name) for name in ("a", "b")}
        pods = {name: node.pod(raw=lab_echo) for name, node in self._nodes.items()}
        self._orders = lab.service(VIP, list(pods.values()))
        empty = lab.service("empty.shop.svc:80")
        self._where = {name: (pod.host, pod.port) for name, pod in pods.items()}
        self._where |= {"vip": (self._orders.host, 80), "empty": (empty.host, 80)}

    def dial(
        self, where: str, *, port: int = 0, seconds: float = _SHORT
    ) -> tuple[str, Connection | None]:
        """See `Side`."""
        sock = self._closing.enter_context(socket.socket())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if port:
            sock.bind(("", port))
        sock.settimeout(seconds)

        def connect() -> str:
            sock.connect(self._where[where])
            return "connected"

        result = _outcome(connect)
        if result == "silent":
            LabConnection(sock).reset()
        return result, LabConnection(sock) if result == "connected" else None

    def do(self, what: str) -> None:
        """See `Side`."""
        name, _, fault = what.partition(".")
        if name == "orders":
            self._orders.remove(self._nodes[fault.split()[1]])
        elif fault.startswith("pod."):
            getattr(self._nodes[name].pods[0], fault[4:])()
        else:
            getattr(self._nodes[name], fault)()

    def idle(self, seconds: float) -> None:
        """See `Side`."""
        with socket.socket() as nobody:  # what never comes is waited for
            nobody.settimeout(seconds)
            nobody.bind(("127.0.0.1", 0))
            nobody.listen()
            with contextlib.suppress(TimeoutError):
                nobody.accept()


@contextlib.contextmanager
def lab_side() -> Iterator[LabSide]:
    """A cluster on the kernel lab."""
    with KernelLab() as lab, contextlib.ExitStack() as closing:
        side = LabSide(lab, closing)
        with lab.running():
            yield side


def _outcome(action: Callable[[], str]) -> str:
    try:
        return action()
    except TimeoutError as error:
        return errno.errorcode[error.errno] if error.errno else "silent"
    except OSError as error:
        return errno.errorcode[error.errno or 0]
