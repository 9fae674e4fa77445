"""The patch on loopback, and a far side that is silent until somebody dials again."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outlast.net import newcomers as looking
from outlast.net.kernel import KernelStream, kernel
from outlast.net.newcomers import newcomers
from outlast.net.seam import Wait
from outlast.policy import Policy
from outlast.service.service import Service
from outlast.service.table import service_of
from outlast.shims.patch import Installed, install, uninstall
from outlast.shims.patch import pending as racing
from outlast.target import target_of
from tests.net.kernel_world import silent_listener
from tests.net.pairs import PATIENCE, user_timeout

DELAY = 0.03  # seconds from one dial to the next
LOOPBACK = ("127.0.0.1", "::1", "*.test")


class Silent:
    """A listener that answers no dial until it is opened."""

    def __init__(self, family: int = socket.AF_INET) -> None:
        self.listener, *self._fillers = silent_listener(family)
        self.address: tuple[Any, ...] = self.listener.getsockname()
        self.port: int = self.address[1]

    def open(self) -> None:
        """Answer whoever dials from now on."""
        for each in self._fillers:
            each.close()
        self._fillers = []
        self.listener.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.listener.accept()[0].close()
        self.listener.settimeout(PATIENCE)

    def accept(self) -> socket.socket:
        """The next connection."""
        return self.listener.accept()[0]

    def close(self) -> None:
        """End it."""
        for each in (self.listener, *self._fillers):
            each.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    """It stays silent, unless it is opened."""
    made = Silent()
    yield made
    made.close()


@pytest.fixture
def late(silent: Silent, on_redial: Callable[[Callable[[], object]], None]) -> Silent:
    """It answers a second dial, never the first: a Service of whose pods one is lost."""
    on_redial(silent.open)
    return silent


@pytest.fixture
def on_redial(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Have something done before the library's first dial of its own."""
    actions: list[Callable[[], object]] = []
    real = KernelStream.dial

    def dial(*args: Any) -> KernelStream:
        while actions:
            actions.pop()()
        return real(*args)

    monkeypatch.setattr(KernelStream, "dial", dial)
    return actions.append


@pytest.fixture
def live() -> Iterator[socket.socket]:
    """A listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        yield listener


@pytest.fixture
def refusing() -> Iterator[tuple[str, int]]:
    """A port that is bound and where nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()


@pytest.fixture(autouse=True)
def taken_back() -> Iterator[None]:
    """No test leaves the patch behind."""
    yield
    uninstall()


@pytest.fixture(autouse=True, scope="module")
def background_at_rest() -> Iterator[None]:
    """No job of the patch outlives its module: the thread that it keeps alive belongs to the
    network namespace of whoever was first, and the kernel lab has others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looking, "PAUSE", 0.05)
        patch.setattr(looking, "STAYS", 1)
        patch.setattr(racing, "STAYS", 0.05)
        yield
        settle(lambda: not (newcomers._running or racing.pending._running))


POLICY = Policy(attempt_delay=DELAY, connect_timeout=PATIENCE)


@pytest.fixture
def installed(request: pytest.FixtureRequest) -> Installed:
    """The patch, for loopback. The far side stands before it does."""
    for name in ("live", "silent", "late", "refusing"):
        if name in request.fixturenames:
            request.getfixturevalue(name)
    return install(only=LOOPBACK, policy=POLICY)


def service_at(address: tuple[Any, ...]) -> Service:
    """What is known of an address."""
    return service_of(target_of(*address[:2]), kernel())


def settle(done: Callable[[], bool]) -> None:
    """Wait, with a bound, until something is so."""
    until = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < until
        kernel().wait(Wait((), kernel().now() + 0.01))


def watched(sock: socket.socket) -> bool:
    """Whether it is, once whoever looks has looked."""
    newcomers.look()
    return user_timeout(sock) == 11_000
