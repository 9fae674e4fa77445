"""Which idle connections may be used, which can be asked, and what the answer means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outlast.core.liveness import CLOSED, Sample
from outlast.core.probe import Probed, TcpProbe, Trust, may_probe, trust

IDLE = Sample(
    unacked=0, acked=900, window=64_000, rtt=0.001, backoff=0, heard=3.2, received=4.0, sent=4.0
)
FRESH = replace(IDLE, heard=0.4)
CLOSE_WAIT = 8
VERIFIED, PROBE, REPLACE = Trust


@pytest.mark.parametrize(
    ("sample", "may"),
    [
        (IDLE, True),
        (replace(IDLE, heard=1.0), False),
        (replace(IDLE, heard=1.001), True),
        (replace(IDLE, received=0.9), False),
        (replace(IDLE, unacked=1), False),  # keepalive rests while data is under way
        (replace(IDLE, unsent=1), False),
        (replace(IDLE, state=CLOSED), False),
        (replace(IDLE, state=CLOSE_WAIT), False),
        (replace(IDLE, probes=2), True),
        (None, False),
    ],
)
def test_what_can_be_probed(sample: Sample | None, may: bool) -> None:
    assert may_probe(sample) is may


@pytest.mark.parametrize(
    ("heard", "sample", "suspect", "expected"),
    [
        (0.3, None, False, VERIFIED),  # no look is needed
        (1.0, IDLE, False, VERIFIED),
        (0.3, None, True, REPLACE),  # what was heard a moment ago proves nothing now
        (0.3, FRESH, True, REPLACE),
        (5.0, IDLE, False, PROBE),
        (5.0, IDLE, True, PROBE),
        (5.0, FRESH, False, VERIFIED),  # it has answered a keepalive probe just now
        (5.0, FRESH, True, REPLACE),
        (5.0, None, False, REPLACE),  # the platform does not tell
        (5.0, replace(IDLE, unacked=1), False, REPLACE),
        (5.0, replace(IDLE, state=CLOSED), False, REPLACE),
        (5.0, replace(FRESH, state=CLOSE_WAIT), False, REPLACE),
    ],
)
def test_what_may_be_done_before_an_unsafe_request(
    heard: float, sample: Sample | None, suspect: bool, expected: Trust
) -> None:
    assert trust(heard, sample, suspect=suspect) is expected


@pytest.mark.parametrize(
    ("rtt", "looks"),
    [
        (0.0, [0.004, 0.008, 0.012, 0.018, 0.027, 0.0405, 0.05]),
        (0.02, [0.02, 0.03, 0.045, 0.0675, 0.08]),
        (0.1, [0.1, 0.15, 0.225, 0.3375, 0.4]),
    ],
)
def test_a_dead_peer_is_unknown_after_four_round_trips(rtt: float, looks: list[float]) -> None:
    probe = TcpProbe(replace(IDLE, rtt=rtt), 0.0)
    found = []
    while True:
        now = probe.next_look
        found.append(round(now, 6))
        outcome = probe.look(replace(IDLE, heard=3.2 + now, probes=1), now)
        if outcome is not None:
            break
    assert (outcome, found) == (Probed.UNKNOWN, looks)


@pytest.mark.parametrize(
    ("sample", "outcome"),
    [
        (replace(IDLE, heard=0.0), Probed.ALIVE),
        (replace(IDLE, received=0.0), Probed.ALIVE),
        (replace(IDLE, heard=3.204), None),
        (IDLE, None),
        (replace(IDLE, state=CLOSED, heard=0.0), Probed.GONE),
        (replace(IDLE, state=CLOSE_WAIT, heard=0.0), Probed.ALIVE),  # its FIN makes it readable
        (None, Probed.GONE),
    ],
)
def test_what_an_answer_means(sample: Sample | None, outcome: Probed | None) -> None:
    assert TcpProbe(IDLE, 0.0).look(sample, 0.004) is outcome
