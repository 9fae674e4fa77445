"""How connections end: FIN, RST, both halves, and ends that get lost."""

from __future__ import annotations

import errno

import pytest

from outlast.testing.simnet.packet import FIN
from outlast.testing.simnet.sockets import SimSocket
from outlast.testing.simnet.states import (
    CLOSE_WAIT,
    CLOSED,
    ESTABLISHED,
    FIN_WAIT1,
    FIN_WAIT2,
    TIME_WAIT,
)
from tests.simnet.scene import NODELAY, Program, Scene, about, echo


def pair() -> tuple[Scene, SimSocket, SimSocket]:
    """Both ends of a connection, and nobody who reads by himself."""
    program = Program()
    scene = Scene(program)
    sock = scene.connection(NODELAY)
    program.reads = False
    return scene, sock, program.accepted[0]


def code_of(sock: SimSocket, *, write: bool = False) -> int | None:
    try:
        if write:
            sock.send(b"x")
        else:
            sock.recv(1)
    except OSError as error:
        return error.errno
    return None


def test_fin_there_and_back() -> None:
    scene, sock, peer = pair()
    sock.send(b"last words")
    sock.close()
    scene.run(0.01)
    assert peer.state == CLOSE_WAIT
    assert (peer.recv(100), peer.recv(100), peer.recv(100)) == (b"last words", b"", b"")
    assert sock.state == FIN_WAIT2
    peer.close()
    scene.run(0.01)
    assert sock.state == TIME_WAIT
    assert peer.state == CLOSED
    scene.run(61.0)
    assert not scene.client.connections
    assert not scene.a.kernel.connections


def test_half_a_connection_goes_on() -> None:
    scene, sock, peer = pair()
    sock.send(b"request")
    sock.shutdown_write()
    scene.run(0.01)
    assert (peer.recv(100), peer.recv(100)) == (b"request", b"")
    assert peer.send(b"answer") == 6
    scene.run(0.01)
    assert sock.recv(100) == b"answer"
    assert code_of(sock, write=True) == errno.EPIPE
    peer.close()
    scene.run(0.01)
    assert sock.recv(100) == b""


def test_a_shutdown_wakes_the_reader() -> None:
    _, sock, _ = pair()
    told: list[int] = []
    sock.on_change = lambda: told.append(1)
    sock.shutdown()
    assert told
    assert sock.readable()
    assert sock.recv(1) == b""


def test_an_abort_is_a_reset() -> None:
    scene, sock, peer = pair()
    sock.abort()
    sock.abort()
    scene.run(0.01)
    assert peer.state == CLOSED
    assert (peer.readable(), peer.writable()) == (True, True)
    assert code_of(peer) == errno.ECONNRESET
    assert peer.recv(1) == b"", "an error is told once"
    assert code_of(peer, write=True) == errno.EPIPE


def test_what_came_before_a_reset_is_read_first() -> None:
    scene, sock, peer = pair()
    sock.send(b"all there is")
    scene.run(0.01)
    sock.abort()
    scene.run(0.01)
    assert peer.recv(100) == b"all there is"
    assert code_of(peer) == errno.ECONNRESET


def test_unread_bytes_make_a_close_a_reset() -> None:
    scene, sock, peer = pair()
    peer.send(b"unread")
    scene.run(0.01)
    sock.close()
    scene.run(0.01)
    assert code_of(peer) == errno.ECONNRESET


def test_linger_zero_makes_a_close_a_reset() -> None:
    scene, sock, peer = pair()
    sock.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")
    sock.close()
    scene.run(0.01)
    assert code_of(peer) == errno.ECONNRESET


def test_an_answer_to_who_has_closed_is_answered_with_a_reset() -> None:
    scene, sock, peer = pair()
    sock.close()
    scene.run(0.01)
    assert peer.send(b"too late") == 8
    scene.run(0.01)
    assert code_of(peer, write=True) == errno.EPIPE  # a reset in CLOSE_WAIT


def test_a_dial_over_a_connection_that_only_the_peer_knows() -> None:
    """Its challenge is answered with RST, and the next SYN is a new connection (RFC 9293 3.5.1)."""
    scene, sock, peer = pair()
    scene.world.client.black_hole(towards=False)
    sock.abort()
    scene.run(0.1)
    scene.world.client.heal()
    assert peer.state == ESTABLISHED
    again = scene.client.connect(scene.pod.endpoint, source=sock.local, label="again")
    assert scene.when(again.writable, 5.0) == about(1.0001, 0.001)
    assert (again.state, peer.state) == (ESTABLISHED, CLOSED)


def test_a_dial_that_is_given_up_leaves_nothing() -> None:
    scene = Scene()
    scene.a.black_hole()
    sock = scene.dial()
    sock.close()
    assert not scene.client.connections
    assert code_of(sock) == errno.EBADF


def test_an_end_that_never_comes_back_is_not_waited_for() -> None:
    scene, sock, _ = pair()
    sock.close()
    scene.run(0.01)
    assert sock.state == FIN_WAIT2
    scene.run(60.0)
    assert sock.state == CLOSED


def test_a_lost_fin_is_sent_again() -> None:
    scene, sock, peer = pair()
    seen: list[int] = []

    def first(segment: object) -> bool:
        if getattr(segment, "flags", 0) & FIN:
            seen.append(1)
        return len(seen) == 1

    scene.a.kernel.link.away.rules.append(first)
    peer.close()
    scene.run(0.1)
    assert sock.state == ESTABLISHED
    scene.run(1.0)
    assert sock.recv(1) == b""


def test_a_fin_that_is_always_lost_leaves_the_client_alone() -> None:
    """The server has forgotten the connection; the client hears of it when it writes."""
    scene, sock, peer = pair()
    scene.a.lose_fins()
    peer.close()
    scene.run(300.0)
    assert (sock.state, peer.state) == (ESTABLISHED, CLOSED)
    sock.send(b"request")
    scene.run(0.1)
    assert code_of(sock) == errno.ECONNRESET


def test_close_without_an_answer_ends() -> None:
    scene, sock, _ = pair()
    scene.a.black_hole()
    sock.close()
    scene.run(1.0)
    assert sock.state == FIN_WAIT1
    scene.run(300.0)
    assert sock.state == CLOSED


@pytest.mark.parametrize("how", ["kill", "reset"])
def test_a_pod_that_ends(how: str) -> None:
    scene = Scene(Program(echo))
    sock = scene.connection(NODELAY)
    sock.send(b"x")
    scene.run(0.1)
    assert sock.recv(10) == b"x"
    getattr(scene.pod, how)()
    scene.run(0.1)
    if how == "kill":
        assert sock.recv(1) == b""
        sock.send(b"x")
        scene.run(0.1)
        assert (sock.recv(1), code_of(sock, write=True)) == (b"", errno.EPIPE)
    else:
        assert code_of(sock) == errno.ECONNRESET
    assert scene.end_of(scene.dial(label="new"), 1.0)[0] == errno.ECONNREFUSED
    scene.pod.start()
    assert scene.connection(label="newer").state == ESTABLISHED


def test_a_pod_that_is_stopped_finishes_first() -> None:
    scene = Scene(Program(echo))
    sock = scene.connection(NODELAY)
    scene.pod.stop()
    assert scene.end_of(scene.dial(label="new"), 1.0)[0] == errno.ECONNREFUSED
    sock.send(b"x")
    scene.run(0.1)
    assert (sock.recv(10), sock.recv(10)) == (b"x", None)
    scene.run(1.0)
    assert (sock.recv(10), scene.pod.running) == (b"", False)
    assert [what for _, what in scene.world.log] == ["a-1: stop", "a-1: exit"]
    scene.pod.start()
    scene.run(60.0)
    assert scene.pod.running, "the grace period was that of the process before"


def test_a_pod_that_does_not_stop_is_killed() -> None:
    scene = Scene(Program(echo))
    sock = scene.connection(NODELAY)
    scene.pod.stop(grace=0.5)
    scene.run(0.6)
    assert (sock.recv(10), scene.pod.running) == (b"", False)
    with pytest.raises(ValueError, match="grace"):
        scene.pod.stop(grace=-1)


def test_a_frozen_pod_accepts_and_is_mute() -> None:
    scene = Scene(Program(echo))
    sock = scene.connection(NODELAY)
    scene.a.freeze()
    new = scene.connection(label="new")
    for each in (sock, new):
        each.send(b"hello")
    scene.run(10.0)
    assert [each.outq for each in (sock, new)] == [0, 0], "its kernel has it"
    assert [each.recv(10) for each in (sock, new)] == [None, None]
    scene.a.thaw()
    scene.run(0.1)
    assert [each.recv(10) for each in (sock, new)] == [b"hello", b"hello"]


def test_a_socket_that_is_closed_refuses() -> None:
    _, sock, _ = pair()
    sock.close()
    sock.close()
    sock.abort()
    assert code_of(sock) == errno.EBADF
    assert code_of(sock, write=True) == errno.EBADF
    assert sock.readable()
    assert sock.writable()
