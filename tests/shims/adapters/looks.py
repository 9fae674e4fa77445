"""What stands on a socket that an adapter has made: whatever the library, the same."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

from outlast.net.address import literal
from outlast.net.kernel import kernel
from outlast.service.table import service_of
from outlast.target import Target
from tests.net.pairs import keepalive, user_timeout

LINUX = sys.platform == "linux"


@contextlib.contextmanager
def opened(source: Any) -> Iterator[socket.socket]:
    """The socket of whatever has a descriptor, which stays its own."""
    raw = socket.socket(fileno=source.fileno())
    try:
        yield raw
    finally:
        raw.detach()


def is_ours(source: Any) -> bool:
    """Keepalive as by default, and a user timeout because it is watched."""
    with opened(source) as raw:
        return keepalive(raw) == (1, 5, 1, 6) and user_timeout(raw) == 11_000


def both(first: int, second: int) -> str:
    """A target of two ports on loopback."""
    return f"static://127.0.0.1:{first},127.0.0.1:{second}"


def declare_dead(target: str, port: int) -> None:
    """Let the table hold, by what dials have met, that an endpoint is dead."""
    address = literal("127.0.0.1", port)
    assert address is not None
    service = service_of(Target(target), kernel())
    for _ in range(5):
        service.failed(address, kernel().now())


def raised_by(call: Callable[[], object]) -> Exception:
    """The error of a call that is meant to fail."""
    try:
        call()
    except Exception as error:  # noqa: BLE001  the test looks at it
        return error
    raise AssertionError("nothing was raised")
