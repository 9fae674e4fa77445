"""Connections that others open are found by their descriptors, and watched."""

from __future__ import annotations

import contextlib
import gc
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outlast.net.kernel import kernel
from outlast.shims.adapters.dialler import Dialler
from outlast.shims.adapters.lookout import look_out
from outlast.target import Target, parse_target
from tests.net.pairs import PATIENCE, keepalive, user_timeout
from tests.shims.adapters.looks import LINUX

pytestmark = pytest.mark.skipif(not LINUX, reason="/proc and option numbers")


class Owner:
    """Something that lives as long as a channel."""


@contextlib.contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
        yield sock


def soon(truth: Callable[[], bool]) -> bool:
    """Whether it becomes true within a few looks."""
    until = kernel().now() + 4.0
    while not truth() and kernel().now() < until:
        threading.Event().wait(0.02)
    return truth()


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """Of two listeners."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        with socket.create_server(("127.0.0.1", 0)) as two:
            yield one.getsockname()[1], two.getsockname()[1]


def test_what_leads_to_the_target_is_watched_and_nothing_else(ports: tuple[int, int]) -> None:
    owner = Owner()
    with connected(ports[0]) as before, connected(ports[1]) as other:
        look_out(owner, Target(f"static://127.0.0.1:{ports[0]}"), Dialler())
        with connected(ports[0]) as after:
            for sock in (before, after):
                assert soon(lambda sock=sock: user_timeout(sock) == 11_000)  # type: ignore[misc]  # bound now
                assert keepalive(sock) == (1, 5, 1, 6)
            assert (keepalive(other)[0], user_timeout(other)) == (0, 0)
    del owner


def test_a_name_is_looked_up(ports: tuple[int, int]) -> None:
    owner = Owner()
    with connected(ports[0]) as sock:
        look_out(owner, parse_target(f"dns://localhost:{ports[0]}"), Dialler())
        assert soon(lambda: user_timeout(sock) == 11_000)
    del owner


def test_the_job_ends_with_the_last_owner(ports: tuple[int, int]) -> None:
    from outlast.shims.adapters.lookout import _lookout

    gc.collect()  # owners that other tests have left in a cycle
    owner: Any = Owner()
    look_out(owner, Target(f"static://127.0.0.1:{ports[0]}"), Dialler())
    assert _lookout._running
    del owner
    assert soon(lambda: not _lookout._running)


PROGRAM = """
import os, socket, sys
from outlast.shims.adapters.dialler import Dialler
from outlast.shims.adapters.lookout import _lookout, look_out
from outlast.target import Target
class Owner: pass
owner = Owner()
look_out(owner, Target("static://127.0.0.1:9"), Dialler())
if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
assert not _lookout._running
look_out(owner, Target("static://127.0.0.1:9"), Dialler())
assert _lookout._running
os._exit(7)
"""


def test_a_child_begins_anew() -> None:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    assert subprocess.run(command, timeout=20, check=False).returncode == 7
