"""Sockets of another process: borrowed, known by their cookies, given back; and processes whose
numbers are used again."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from outlast.core.liveness import ESTABLISHED
from outlast.net.options import Keepalive
from outlast.shims.run.explain import Explainer
from outlast.shims.run.patience import Patience
from outlast.shims.run.processes import Processes, Task, cookie_of
from outlast.shims.run.watching import HeldInProgram

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection to ourselves."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        with (
            socket.create_connection(server.getsockname(), 5) as ours,
            server.accept()[0] as theirs,
        ):
            theirs.settimeout(5)
            yield ours, theirs


def held(sock: socket.socket, *, wanted: bool = False, number: int = 2) -> HeldInProgram:
    here = Task(os.getpid(), os.getpid(), os.pidfd_open(os.getpid()), whole=True)
    explainer = Explainer(wanted=wanted, number=number)
    return HeldInProgram(here, sock.fileno(), cookie_of(sock), "10.0.0.1:80", explainer)


def test_a_connection_is_looked_at_and_not_kept(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    watched = held(ours)
    state = watched.state()
    assert state is not None
    assert state.state == ESTABLISHED
    assert watched.linked()
    assert held(ours).keepalive is None
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    assert watched.keepalive is not None
    watched.set_keepalive(Keepalive(1, 1, 1))
    watched.limit(3.0)
    assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0
    ours.close()
    assert theirs.recv(1) == b""  # nobody else has kept it open
    assert watched.state() is None
    assert watched.gone


def test_a_number_that_is_used_again_is_another_connection(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    watched = held(ours)
    with closing(socket.socket()) as other:
        os.dup2(other.fileno(), ours.fileno())
        watched.end()
        assert watched.gone
    assert theirs.recv(1) == b""  # closed by the number's new use, and not reset


def test_the_end_reaches_both_sides_and_is_told(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    reader, writer = os.pipe()
    held(ours, wanted=True, number=writer).end()
    os.close(writer)
    with open(reader, encoding="utf-8") as told:
        assert "10.0.0.1:80: dead: connection reset" in told.read()
    with pytest.raises(ConnectionResetError):
        theirs.recv(1)
    with pytest.raises(OSError) as caught:
        ours.recv(1)
    assert caught.value.errno in (errno.ECONNRESET, errno.ENOTCONN)


def test_a_process_that_has_ended_is_held_no_longer() -> None:
    processes = Processes()
    here = processes.live(os.getpid())
    assert here.process == os.getpid()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.read(reader, 1)
        os._exit(0)
    held_child = processes.live(child)
    assert processes.whole(held_child).process == child
    os.write(writer, b"x")
    os.waitpid(child, 0)
    for each in (reader, writer):
        os.close(each)
    with pytest.raises(OSError, match="No such process"):
        processes.borrow(child, 0)
    with pytest.raises(OSError):
        processes.whole(held_child)


def test_who_has_an_event_loop_is_not_kept_waiting() -> None:
    processes = Processes()
    patience = Patience(processes)
    here = processes.live(os.getpid())
    assert patience.of(here)
    patience.loops(here)
    assert not patience.of(here)
    assert not patience.of(processes.live(os.getpid()))
