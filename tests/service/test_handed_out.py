"""Sockets and streams that were handed out are watched, weakly, as long as they are open."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from anyio.abc import ByteStream, SocketAttribute

import outlast
from outlast import Liveness, Policy, report_of
from tests.net.kernel_world import KernelListener, KernelWorld
from tests.net.pairs import PATIENCE, fill, user_timeout

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO and option numbers")


@pytest.fixture
def world() -> Iterator[KernelWorld]:
    """The kernel network and a far side on loopback."""
    made = KernelWorld()
    yield made
    made.close()


@pytest.fixture
def live(world: KernelWorld) -> KernelListener:
    """A listener."""
    return world.listen()


@contextlib.contextmanager
def connected(live: KernelListener, **fields: Any) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A socket that is handed out, and its peer."""
    policy = Policy(**fields) if fields else None
    with outlast.create_connection(live.address.pair, PATIENCE, policy=policy) as near:
        live.sock.settimeout(PATIENCE)
        far, _ = live.sock.accept()
        far.settimeout(PATIENCE)
        with far:
            yield near, far


def notes(source: object) -> Sequence[str]:
    report = report_of(source)
    assert report is not None
    return report.notes


# --- what stands ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "milliseconds", "note"),
    [
        ({}, 11_000, "watched: user timeout 11 s while its window is open"),
        ({"user_timeout": 20}, 20_000, "watched: user timeout 20 s while its window is open"),
        (
            {"user_timeout": 2.5, "keepalive": None},
            2_500,
            "watched: user timeout 2.5 s while its window is open",
        ),
        (
            {"keepalive": (60, 10, 6)},
            120_000,
            "watched: user timeout 120 s while its window is open",
        ),
        ({"user_timeout": 0}, 0, "not watched, by Policy(user_timeout=0): no user timeout"),
        ({"watch": False}, 0, "not watched, by Policy(watch=False): no user timeout"),
    ],
)
def test_the_policy_decides_and_the_report_says_so(
    live: KernelListener, fields: dict[str, Any], milliseconds: int, note: str
) -> None:
    with connected(live, **fields) as (near, _):
        assert type(near) is socket.socket
        assert user_timeout(near) == milliseconds
        assert note in notes(near)


def test_a_block_decides_too(live: KernelListener) -> None:
    with outlast.override(watch=False), connected(live) as (near, _):
        assert user_timeout(near) == 0


def test_where_the_platform_tells_nothing_no_user_timeout_stands(
    live: KernelListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.net.kernel.KernelNetwork.tells", False)
    with connected(live) as (near, _):
        assert user_timeout(near) == 0
        assert "not watched: this platform does not tell enough; no user timeout" in notes(near)


def test_where_the_system_gives_no_thread_no_user_timeout_stands(
    live: KernelListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("outlast.net.kernel.KernelNetwork.spawn", refuse)
    monkeypatch.setattr("outlast.net.sentry._sentries", weakref.WeakKeyDictionary())
    with connected(live) as (near, _):
        assert user_timeout(near) == 0
        assert "not watched: can't start new thread; no user timeout" in notes(near)


@pytest.mark.anyio
@pytest.mark.parametrize("fields", [{}, {"watch": False}])
async def test_streams(live: KernelListener, fields: dict[str, Any]) -> None:
    async with await outlast.connect_tcp(*live.address.pair, policy=Policy(**fields)) as stream:
        sock = stream.extra(SocketAttribute.raw_socket)
        assert user_timeout(sock) == (0 if fields else 11_000)
        assert any("watched" in note for note in notes(stream))
        watched = outlast.watch(stream)
        assert watched.verdict is Liveness.ALIVE
        assert outlast.watch(sock) is watched


def test_reports_are_found_by_what_carries_them(live: KernelListener) -> None:
    with connected(live) as (near, far):
        report = report_of(near)
        assert report is not None
        assert report.of_phase("connect")
        assert report_of(far) is None
    for nothing in (None, "text", 7, object()):
        assert report_of(nothing) is None


# --- the watch --------------------------------------------------------------------------------


def test_the_watch_of_a_socket_is_found_through_what_is_made_of_it(live: KernelListener) -> None:
    with connected(live) as (near, _):
        watched = outlast.watch(near)
        assert watched.verdict is Liveness.ALIVE
        context = ssl.create_default_context()
        with context.wrap_socket(near, server_hostname="x", do_handshake_on_connect=False) as tls:
            assert near.fileno() == -1
            assert outlast.watch(tls) is watched
            assert watched.check() is Liveness.ALIVE
            assert not watched.over
            assert user_timeout(tls) == 11_000
        watched.check()
        assert watched.over


def test_a_reader_that_pauses_is_not_given_up(live: KernelListener) -> None:
    with connected(live, user_timeout=1.0, keepalive=None) as (near, far):
        watched = outlast.watch(near)
        taken = fill(near)
        for _ in range(400):
            watched.check()
            if not user_timeout(near):
                break
            threading.Event().wait(0.005)
        assert user_timeout(near) == 0
        while taken:
            taken -= len(far.recv(1 << 20))
        for _ in range(400):
            watched.check()
            if user_timeout(near):
                break
            threading.Event().wait(0.005)
        assert user_timeout(near) == 1000
        assert watched.verdict is Liveness.ALIVE


def test_a_close_is_not_held_up(live: KernelListener) -> None:
    with connected(live) as (near, far):
        near.close()
        assert far.recv(1) == b""


@pytest.mark.anyio
async def test_a_stream_that_is_closed_is_not_held_open(
    live: KernelListener, world: KernelWorld
) -> None:
    stream: ByteStream = await outlast.connect_tcp(*live.address.pair)
    far, _ = live.sock.accept()
    far.settimeout(PATIENCE)
    with far:
        watched = outlast.watch(stream)
        await stream.aclose()
        assert far.recv(1) == b""
        watched.check()
        assert watched.over


PROGRAM = """
import socket, sys, threading
import outlast
server = socket.create_server(("127.0.0.1", 0))
sock = outlast.create_connection(server.getsockname(), timeout=10)
assert any(thread.name == "outlast-background" for thread in threading.enumerate())
print("bye")
"""


def test_a_process_with_open_sockets_ends() -> None:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "bye\n", "")
