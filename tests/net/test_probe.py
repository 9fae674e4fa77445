"""Probes of idle connections: outcomes and instants, on made-up streams in virtual time.

The kernel's own part is in `conformance_liveness` and in the tests of the lab.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest

from outlast.core.liveness import CLOSED, Sample
from outlast.core.probe import Probed
from outlast.net.options import Keepalive
from outlast.net.probe import probe
from outlast.net.run import run_sync
from outlast.net.seam import Ready, Stream, Wait
from tests.net.scripted import SILENT, Scripted, ScriptedStream, at

ALIVE, GONE, UNKNOWN = Probed
PLANNED = Keepalive(5, 1, 6)
HURRIED = Keepalive(1, 1, 6)
LEAVES = 0.002  # seconds until a probe leaves


@dataclass(frozen=True)
class Idle:
    """An idle connection. The peer's kernel answers a probe `after` seconds, or ends it then."""

    after: float = math.inf
    ends: bool = False
    silence: float = 3.0
    unacked: int = 0
    state: int = 1
    tells: bool = True
    keepalive: Keepalive | None = PLANNED


class IdleStream(ScriptedStream):
    """See `Idle`."""

    def __init__(self, network: Scripted, idle: Idle) -> None:
        super().__init__(network, at("10.0.0.1"), SILENT, 40_000)
        self.idle = idle
        self.keepalive = idle.keepalive
        self.trail: list[Keepalive] = []
        self.answered_at = math.inf

    def set_keepalive(self, keepalive: Keepalive) -> None:
        """See `Stream.set_keepalive`."""
        self.trail.append(keepalive)
        if keepalive == HURRIED:
            self.answered_at = self.network.time + LEAVES + self.idle.after
            if self.idle.ends:
                self.shaken_at = self.answered_at

    def quiet(self) -> bool:
        """See `Stream.quiet`."""
        return self.network.time < self.shaken_at

    def state(self) -> Sample | None:
        """See `Stream.state`."""
        if not self.idle.tells:
            return None
        now = self.network.time
        heard = now - self.answered_at if now >= self.answered_at else self.idle.silence + now
        ended = self.idle.ends and now >= self.answered_at
        state = CLOSED if ended else self.idle.state
        sample = Sample(0, 100, 64_000, 0.001, 0, heard, state)
        return replace(sample, unacked=self.idle.unacked)


def probed(*idle: Idle) -> tuple[list[Probed], float, list[list[Keepalive]]]:
    """The outcomes, how long they took, and what became of keepalive."""
    network = Scripted()
    streams = [IdleStream(network, each) for each in idle]
    outcomes = run_sync(network, probe(network, list[Stream](streams)))
    assert all(stream.end is None for stream in streams)
    return outcomes, round(network.time, 6), [stream.trail for stream in streams]


ASKED = [HURRIED, PLANNED]


@pytest.mark.parametrize(
    ("idle", "outcome", "seconds", "trail"),
    [
        (Idle(after=0.001), ALIVE, 0.004, ASKED),
        (Idle(after=0.009), ALIVE, 0.012, ASKED),
        (Idle(after=0.047), ALIVE, 0.05, ASKED),
        (Idle(), UNKNOWN, 0.05, ASKED),
        (Idle(after=0.0005, ends=True), GONE, 0.0025, ASKED),  # told at once, before any look
        (Idle(silence=0.9), UNKNOWN, 0.0, []),
        (Idle(unacked=1), UNKNOWN, 0.0, []),
        (Idle(state=CLOSED), GONE, 0.0, []),
        (Idle(tells=False), UNKNOWN, 0.0, []),
        (Idle(keepalive=None), UNKNOWN, 0.0, []),  # the caller's own
        (
            Idle(after=0.001, keepalive=Keepalive(7, 2, 3)),
            UNKNOWN,
            0.05,
            [Keepalive(1, 1, 3), Keepalive(7, 2, 3)],
        ),
    ],
)
def test_one_connection(
    idle: Idle, outcome: Probed, seconds: float, trail: list[Keepalive]
) -> None:
    assert probed(idle) == ([outcome], seconds, [trail])


def test_many_are_asked_at_once() -> None:
    several = [Idle(after=0.001), Idle(), Idle(tells=False), Idle(after=0.003, ends=True)]
    outcomes, seconds, trails = probed(*several * 25)
    assert outcomes == [ALIVE, UNKNOWN, UNKNOWN, GONE] * 25
    assert seconds == 0.05
    assert trails == [ASKED, ASKED, [], ASKED] * 25


def test_none_at_all() -> None:
    assert probed() == ([], 0.0, [])


def test_keepalive_is_put_back_whatever_ends_the_wait() -> None:
    network = Scripted()
    stream = IdleStream(network, Idle())
    work = probe(network, [stream])
    assert isinstance(work.send(None), Wait)
    assert stream.trail == [HURRIED]
    work.close()
    assert stream.trail == ASKED


class Ticking(Scripted):
    """A network on which everything is readable, a millisecond later."""

    def wait(self, wait: Wait) -> Ready:
        """See `Network.wait`."""
        self.time += 0.001
        return [source for source, _ in wait.interests]


def test_what_arrives_for_a_layer_below_is_no_end() -> None:
    """Such as a session ticket of TLS: readable, and as quiet as before."""
    network = Ticking()
    stream = IdleStream(network, Idle(after=0.01))
    assert run_sync(network, probe(network, [stream])) == [ALIVE]
    assert round(network.time, 6) == 0.012
