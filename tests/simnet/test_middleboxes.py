"""Boxes in the way: those that forget, and those that speak for the dead."""

from __future__ import annotations

import errno

import pytest

from outlast.testing.simnet.states import ESTABLISHED
from tests.simnet.scene import NODELAY, Program, Scene, echo, keepalive


def test_a_box_that_is_new_knows_nobody() -> None:
    scene = Scene(Program(echo))
    old = scene.connection(NODELAY)
    scene.a.middlebox()
    old.send(b"x")
    scene.run(5.0)
    assert (old.state, old.tcp_info().backoff) == (ESTABLISHED, 4)
    new = scene.connection(NODELAY, label="new")
    new.send(b"x")
    scene.run(0.1)
    assert new.recv(10) == b"x"


@pytest.mark.parametrize(("silence", "passes"), [(349.0, True), (351.0, False)])
def test_an_idle_flow_is_forgotten(silence: float, passes: bool) -> None:
    scene = Scene(Program(echo))
    scene.a.middlebox(idle=350.0)
    sock = scene.connection(NODELAY)
    scene.run(silence)
    sock.send(b"x")
    scene.run(1.0)
    assert (sock.recv(10) == b"x") == passes
    assert sock.state == ESTABLISHED, "nobody is told"


def test_keepalive_keeps_the_flow() -> None:
    scene = Scene(Program(echo))
    scene.a.middlebox(idle=350.0)
    sock = scene.connection(NODELAY, *keepalive(300, 10, 3))
    scene.run(4000.0)
    sock.send(b"x")
    scene.run(0.1)
    assert sock.recv(10) == b"x"


def test_a_box_that_resets_what_it_does_not_know() -> None:
    scene = Scene(Program(echo))
    box = scene.a.middlebox(resets=True)
    sock = scene.connection(NODELAY)
    box.forget()
    sock.send(b"x")
    assert scene.end_of(sock, 1.0)[0] == errno.ECONNRESET


@pytest.mark.parametrize("fault", ["power_off", "black_hole"])
def test_a_box_that_acknowledges_for_the_dead(fault: str) -> None:
    scene = Scene(Program(echo))
    scene.a.middlebox(acknowledges=True)
    sock = scene.connection(NODELAY, *keepalive(5, 1, 3))
    sock.send(b"x")
    scene.run(0.1)
    assert sock.recv(10) == b"x"
    getattr(scene.a, fault)()
    sock.send(b"is anybody there?")
    scene.run(0.1)
    info = sock.tcp_info()
    assert (sock.outq, info.backoff, info.unacked) == (0, 0, 0)
    scene.run(3600.0)
    assert (sock.state, sock.recv(1)) == (ESTABLISHED, None), "only a deadline sees it"
    new = scene.dial(label="new")
    assert scene.when(new.writable, 20.0) is None, "it accepts nothing"


def test_a_box_that_accepts_for_the_dead() -> None:
    scene = Scene(Program(echo))
    scene.a.middlebox(accepts=True)
    scene.a.power_off()
    sock = scene.connection(NODELAY, *keepalive(5, 1, 3))
    sock.send(b"x")
    scene.run(600.0)
    assert (sock.state, sock.outq, sock.recv(1)) == (ESTABLISHED, 0, None)


def test_an_idle_time_is_checked() -> None:
    with pytest.raises(ValueError, match="idle=350"):
        Scene().a.middlebox(idle=0)
