"""When a waiting request is looked at, and what makes it suspect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outlast.core.watch import ResponseWatch, SendState, holds_user_timeout

# A request of 1000 bytes, the first on its connection, 0.25 s after it was sent into a black hole.
DEAD = SendState(unacked=1, acked=0, window=64_000, rtt=0.001, backoff=0, heard=0.568)
SLOW = replace(DEAD, unacked=0, acked=1000, heard=0.204)


def looks(rtt: float, count: int) -> list[float]:
    """When the first looks are due, each taken on time."""
    watch = ResponseWatch(100.0, rtt, 0)
    found = []
    for _ in range(count):
        found.append(round(watch.next_look - 100.0, 6))
        watch.look(SLOW, watch.next_look)
    return found


@pytest.mark.parametrize(
    ("rtt", "due"),
    [
        (0.0, [0.2, 0.6, 1.4, 3.0, 5.0, 7.0]),
        (0.05, [0.2, 0.6, 1.4, 3.0, 5.0, 7.0]),
        (0.1, [0.4, 1.2, 2.8, 4.8]),
        (0.3, [1.2, 3.2, 5.2]),
        (1.0, [4.0, 6.0, 8.0]),
    ],
)
def test_looks_come_at_doubling_gaps_of_two_seconds_at_most(rtt: float, due: list[float]) -> None:
    assert looks(rtt, len(due)) == due


def test_a_late_look_puts_the_next_one_off() -> None:
    watch = ResponseWatch(0.0, 0.0, 0)
    watch.look(SLOW, 1.0)
    assert watch.next_look == 1.4


@pytest.mark.parametrize(
    ("state", "mark", "suspect"),
    [
        (DEAD, 0, True),
        (replace(DEAD, backoff=3, heard=2.3), 0, True),
        (SLOW, 0, False),
        (replace(SLOW, heard=300.0), 0, False),  # acknowledged, however long ago
        (replace(DEAD, acked=1), 0, False),  # acknowledged in part
        (replace(DEAD, acked=5000), 5000, True),  # the requests before were acknowledged
        (replace(DEAD, acked=4000), 5000, True),
        (replace(DEAD, acked=5001), 5000, False),
        (replace(DEAD, window=0), 0, False),  # lives, and does not read
        (replace(DEAD, unacked=0), 0, False),  # nothing in flight
        (None, 0, False),  # the platform does not tell
    ],
)
def test_suspect_is_what_the_peers_kernel_never_acknowledged(
    state: SendState | None, mark: int, suspect: bool
) -> None:
    watch = ResponseWatch(0.0, 0.001, mark)
    assert watch.look(state, watch.next_look) is suspect
    assert watch.next_look == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("window", "probes", "heard", "holds"),
    [
        (64_000, 0, 0.1, True),
        (64_000, 0, 60.0, True),
        (0, 0, 0.1, False),
        (0, 1, 12.0, False),  # the next probe is due after 26 s only
        (0, 2, 60.0, False),
        (0, 3, 10.9, False),
        (0, 3, 11.0, True),
    ],
)
def test_the_user_timeout_is_lifted_while_a_closed_window_is_acknowledged(
    window: int, probes: int, heard: float, holds: bool
) -> None:
    state = replace(SLOW, window=window, probes=probes, heard=heard)
    assert holds_user_timeout(state, 11.0) is holds
