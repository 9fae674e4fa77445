"""The trace: a line for what is of note, the same on every run, and nothing without a listener."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from outlast.testing.simnet.packet import Segment
from tests.house.sources import ROOT
from tests.simnet.scene import NODELAY, Program, Scene, echo, keepalive


def incident(seed: int, *, traced: bool = True) -> Scene:
    """Four workers, loss, and a node that dies."""
    scene = Scene(Program(echo), seed=seed, traced=traced)
    b = scene.world.node("b")
    orders = scene.world.service("orders.shop.svc:80", [scene.pod, b.place(Program(echo))])
    scene.world.control_plane(lag=40.0, spread=8.0)
    b.lose(0.1)
    scene.world.at(5.0, scene.a.power_off)
    options = [NODELAY, *keepalive(5, 1, 6)]
    socks = [
        scene.client.connect((orders.host, orders.port), options, label=f"worker {number}")
        for number in range(4)
    ]
    for _ in range(30):
        scene.run(1.0)
        for sock in socks:
            if sock.writable() and not sock.error and sock.state == 1:
                sock.send(b"request")
                sock.recv(1000)
    return scene


def test_a_trace_tells_what_happened() -> None:
    text = "\n".join(incident(3).lines)
    for part in (
        "worker 1: orders.shop.svc:80 draws",
        "worker 1: client sends <10.244.0.1:",
        "SYN 0 bytes>",
        "world: a: power off",
        "worker 1: ESTABLISHED",
        ": lost: <",
        "retransmits (",
        "client: neighbour 10.244.1.2: REACHABLE",
    ):
        assert part in text


def test_the_same_seed_gives_the_same_trace() -> None:
    assert incident(3).lines == incident(3).lines
    assert incident(3).lines != incident(4).lines


PROGRAM = "from tests.simnet.test_trace import incident; print(chr(10).join(incident(3).lines))"


def test_the_same_trace_whatever_the_hashes_are() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=ROOT,
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert [text.decode().splitlines() for text in told] == [incident(3).lines]


def test_the_same_trace_on_every_python() -> None:
    """The world alone, without the library, so that it changes with the model only. For whole
    incidents on every backend: python -m tests.fire --digests 40, under one Python and another."""
    told = "\n".join(incident(3).lines).encode()
    assert hashlib.sha256(told).hexdigest()[:16] == "b3f8abac3a466b76"


def test_nothing_is_formatted_without_a_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    def formatted(_: Segment) -> str:
        raise AssertionError("formatted for nobody")

    monkeypatch.setattr(Segment, "__repr__", formatted)
    incident(3, traced=False)
    with pytest.raises(AssertionError, match="for nobody"):
        incident(3)
