"""The verdict over a connection: what is evidence, what is not, and when it is looked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outlast.core.liveness import CLOSED, Awaits, Liveness, Sample, Watch
from outlast.core.tolerance import Tolerance
from tests.core.peer import SLOW, UNACKED, Peer, looks, on_time, waiting, watch_of

ALIVE, QUIET, SUSPECT, DEAD = Liveness
NOTHING, RESPONSE, ROOM = Awaits


def judged(sample: Sample | None, at: float = 0.1, *, alternative: bool = True) -> Watch:
    """The watch after a first look, taken on time."""
    watch = watch_of()
    on_time(watch, sample, at, alternative=alternative)
    return watch


def taught(*, late: int = 0, lost: int = 0) -> Tolerance:
    """An endpoint that has shown so much: `lost` of 100 segments."""
    tolerance = Tolerance()
    for _ in range(late):
        tolerance.late()
    tolerance.count(100, lost)
    return tolerance


# --- evidence ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample", "at", "alternative", "verdict", "why"),
    [
        (UNACKED, 0.1, True, SUSPECT, "not acknowledged for 0.100 s"),
        (UNACKED, 0.099, True, ALIVE, ""),
        (UNACKED, 0.1, False, ALIVE, ""),
        (replace(UNACKED, heard=1.5), 1.6, False, QUIET, ""),
        (replace(UNACKED, rtt=0.05), 0.199, True, ALIVE, ""),
        (replace(UNACKED, rtt=0.05), 0.2, True, SUSPECT, "not acknowledged for 0.200 s"),
        (replace(UNACKED, backoff=2, heard=1.5), 1.6, False, QUIET, ""),
        (
            replace(UNACKED, backoff=3, heard=1.7),
            1.7,
            False,
            SUSPECT,
            "repeated 3 times and not acknowledged",
        ),
        (
            replace(UNACKED, backoff=4, heard=99.0),
            3.4,
            True,
            SUSPECT,
            "repeated 4 times and not acknowledged",
        ),
        (replace(UNACKED, backoff=6, heard=99.0), 10.9, True, SUSPECT, None),
        (replace(UNACKED, backoff=6, heard=99.0), 11.0, True, DEAD, None),
        (replace(UNACKED, acked=1), 0.1, True, ALIVE, ""),  # acknowledged in part
        (replace(UNACKED, unacked=0), 0.1, True, ALIVE, ""),  # nothing in flight
        (SLOW, 0.3, True, ALIVE, ""),
        (replace(SLOW, heard=0.999), 1.2, True, ALIVE, ""),
        (replace(SLOW, heard=1.0), 1.2, True, QUIET, ""),
        (replace(SLOW, heard=300.0), 300.0, True, QUIET, ""),  # however long ago
        (replace(SLOW, heard=300.0), 0.9, True, ALIVE, ""),  # nothing was owed to us before
        (replace(SLOW, probes=2, heard=2.1), 2.2, True, QUIET, ""),
        (
            replace(SLOW, probes=3, heard=3.1),
            3.2,
            False,
            SUSPECT,
            "2 keepalive probes without an answer",
        ),
        (replace(SLOW, probes=5, heard=10.9, received=99.0), 12.0, False, SUSPECT, None),
        (replace(SLOW, probes=5, heard=11.0, received=99.0), 12.0, False, DEAD, None),
        (replace(SLOW, probes=5, heard=99.0, received=99.0), 10.9, False, SUSPECT, None),
        (replace(UNACKED, window=0), 9.0, True, ALIVE, ""),  # lives, and does not read
        (replace(UNACKED, window=0, backoff=5, heard=4.0), 9.0, True, QUIET, ""),
        (replace(SLOW, window=0, backoff=5, probes=1), 9.0, True, ALIVE, ""),
        (replace(SLOW, window=0, probes=9, heard=10.9), 99.0, True, QUIET, ""),
        (replace(SLOW, state=CLOSED), 0.1, True, DEAD, "the connection has ended"),
        (None, 0.1, True, ALIVE, ""),  # the platform does not tell
    ],
)
def test_what_is_evidence(
    sample: Sample | None, at: float, alternative: bool, verdict: Liveness, why: str | None
) -> None:
    watch = judged(sample, at, alternative=alternative)
    assert watch.verdict is verdict
    assert why is None or watch.why == why


@pytest.mark.parametrize(("lost", "probes"), [(0, 3), (1, 4), (5, 5), (10, 5), (30, 6)])
def test_loss_asks_for_more_probes(lost: int, probes: int) -> None:
    for sent in range(8):
        watch = watch_of(tolerance=taught(lost=lost))
        verdict = on_time(watch, replace(SLOW, probes=sent, heard=2.9), 3.0)
        assert verdict is (SUSPECT if sent >= probes else QUIET), sent


@pytest.mark.parametrize(
    ("awaits", "late", "patience"),
    [(RESPONSE, 0, 0.1), (RESPONSE, 1, 0.1), (RESPONSE, 2, 0.25), (ROOM, 0, 0.25), (ROOM, 2, 0.25)],
)
def test_how_late_an_ack_may_be(awaits: Awaits, late: int, patience: float) -> None:
    """An upload under way is given more time: a lost tail takes a whole timeout."""
    watch = watch_of(awaits, tolerance=taught(late=late))
    assert watch.next_look == patience
    assert on_time(watch, UNACKED, patience - 0.001, alternative=True) is ALIVE
    assert on_time(watch, UNACKED, patience, alternative=True) is SUSPECT


def test_death_is_never_declared_where_nobody_wants_it() -> None:
    watch = Watch(0.0, acked=0)
    watch.sent(0.0)
    assert on_time(watch, replace(UNACKED, backoff=9, heard=9999.0), 3600.0) is SUSPECT
    assert watch.user_timeout == 0.0


def test_death_is_reckoned_from_when_the_data_left() -> None:
    """Not from when the wait began, nor from when the peer was heard last."""
    watch = watch_of()
    watch.expect(RESPONSE, 5.0)
    assert on_time(watch, replace(UNACKED, backoff=5, heard=99.0), 11.0) is DEAD


# --- movement ---------------------------------------------------------------------------------


def test_each_acknowledgement_starts_the_clock_anew() -> None:
    """An upload of which the peer takes a little every 90 ms."""
    watch = watch_of(RESPONSE)
    now, acked = 0.0, 0
    for _ in range(50):
        now, acked = now + 0.09, acked + 1000
        assert on_time(watch, replace(UNACKED, acked=acked), now, alternative=True) is ALIVE
        watch.sent(now)
    assert on_time(watch, replace(UNACKED, acked=acked), now + 0.099, alternative=True) is ALIVE
    assert on_time(watch, replace(UNACKED, acked=acked), now + 0.1, alternative=True) is SUSPECT


def test_more_sent_does_not_put_the_judgement_off() -> None:
    watch = watch_of()
    for tenth in range(1, 10):
        watch.sent(tenth / 100)
    assert on_time(watch, UNACKED, 0.1, alternative=True) is SUSPECT


def test_requests_before_this_one_may_be_under_way_still() -> None:
    watch = Watch(0.0, acked=5000)
    watch.sent(0.0)
    watch.expect(RESPONSE, 0.0)
    on_time(watch, replace(UNACKED, acked=4000), 0.05, alternative=True)
    assert on_time(watch, replace(UNACKED, acked=5000), 0.1, alternative=True) is ALIVE
    assert on_time(watch, replace(UNACKED, acked=5000), 0.2, alternative=True) is SUSPECT


def test_without_a_word_of_when_it_was_sent_the_first_look_begins_the_clock() -> None:
    watch = Watch(0.0)
    on_time(watch, replace(UNACKED, acked=7), 1.0, alternative=True)
    on_time(watch, replace(UNACKED, acked=7, unacked=0), 1.01, alternative=True)
    assert on_time(watch, replace(UNACKED, acked=7), 1.05, alternative=True) is ALIVE
    assert on_time(watch, replace(UNACKED, acked=7), 1.149, alternative=True) is ALIVE
    assert on_time(watch, replace(UNACKED, acked=7), 1.151, alternative=True) is SUSPECT


@pytest.mark.parametrize("how", ["acknowledged", "answered", "half acknowledged"])
def test_late_acks_that_proved_harmless_are_learnt_from(how: str) -> None:
    tolerance = Tolerance()
    for _ in range(2):
        assert tolerance.patience(0.0) == 0.1
        watch = watch_of(tolerance=tolerance)
        assert on_time(watch, UNACKED, 0.1, alternative=True) is SUSPECT
        if how == "answered":
            watch.answered()
            watch.answered()  # once is enough
        else:
            rest = int(how == "half acknowledged")
            assert on_time(watch, replace(SLOW, unacked=rest), 0.15, alternative=True) is ALIVE
            watch.answered()
    assert tolerance.patience(0.0) == 0.25


def test_of_many_that_wait_at_once_most_are_given_the_longer_time() -> None:
    """A thousand requests over a lossy network: ten in a hundred meet a late ACK at first."""
    tolerance = Tolerance()
    watches = [watch_of(tolerance=tolerance) for _ in range(1000)]
    for number, watch in enumerate(watches):
        lost = number % 10 == 0
        watch.look(UNACKED if lost else SLOW, 0.1, alternative=True)
    suspect = [watch for watch in watches if watch.verdict is SUSPECT]
    assert 38 <= len(suspect) <= 40
    late = next(w for n, w in enumerate(watches) if n % 10 == 0 and w.verdict is not SUSPECT)
    assert late.next_look == 0.25
    assert late.look(UNACKED, 0.249, alternative=True) is ALIVE
    assert late.next_look == 0.25
    assert late.look(UNACKED, 0.25, alternative=True) is SUSPECT
    assert suspect[0].look(UNACKED, 0.2, alternative=True) is SUSPECT, "once suspect it stays so"
    late.expect(RESPONSE, 10.0)
    assert late.next_look == 10.1


def test_other_evidence_teaches_nothing_of_late_acks() -> None:
    tolerance = Tolerance()
    for _ in range(3):
        watch = watch_of(tolerance=tolerance)
        assert on_time(watch, replace(UNACKED, backoff=3), 3.0, alternative=True) is SUSPECT
        assert on_time(watch, SLOW, 3.1, alternative=True) is ALIVE
        watch.answered()
    assert tolerance.patience(0.0) == 0.1


# --- loss -------------------------------------------------------------------------------------


def test_lost_answers_to_probes_are_counted_once_the_peer_is_heard_again() -> None:
    tolerance = Tolerance()
    peer = Peer()
    watch = waiting(peer, tolerance)
    looks(watch, peer, 10.0)
    assert tolerance.loss == 0.0
    peer.lost = 2  # two probes in a row; the third is answered
    assert SUSPECT not in looks(watch, peer, 4.1)
    looks(watch, peer, 4.0)
    assert tolerance.loss == pytest.approx(2 / 20)
    assert tolerance.probes == 5


@pytest.mark.parametrize(
    ("before", "after", "sent", "answered", "lost"),
    [
        (0, 0, 4, 4, 0),
        (0, 0, 4, 2, 2),
        (0, 1, 4, 3, 0),  # the last one's answer is on its way
        (0, 2, 4, 1, 1),
        (1, 0, 3, 4, 0),  # the answer on its way came
        (1, 0, 3, 3, 1),  # it never came
        (0, 0, 3, 4, 0),  # a probe of the peer's own
    ],
)
def test_what_counts_as_a_lost_probe(
    before: int, after: int, sent: int, answered: int, lost: int
) -> None:
    tolerance = Tolerance()
    watch = watch_of(tolerance=tolerance)
    first = replace(SLOW, probes=before, heard=0.5, segments_out=50, segments_in=50)
    on_time(watch, first, 2.0)
    on_time(
        watch,
        replace(
            first, probes=after, segments_out=50 + sent, segments_in=50 + answered, received=999.0
        ),
        6.0,
    )
    assert tolerance.loss == pytest.approx(lost / 20)


def test_what_a_dead_peer_does_not_answer_is_no_loss() -> None:
    tolerance = Tolerance()
    peer = Peer()
    watch = waiting(peer, tolerance)
    looks(watch, peer, 5.3)
    peer.alive = False
    assert looks(watch, peer, 10.0)[-1] is SUSPECT
    assert tolerance.loss == 0.0


def test_repeats_that_were_acknowledged_are_losses() -> None:
    tolerance = Tolerance()
    peer = Peer()
    watch = waiting(peer, tolerance)
    looks(watch, peer, 1.0)
    before = replace(SLOW, segments_out=100, segments_in=100, heard=0.001)
    on_time(watch, before, 2.0)
    on_time(watch, replace(before, acked=2000, segments_out=140, segments_in=120, resent=4), 3.0)
    assert tolerance.loss == pytest.approx(4 / 130, rel=0.2)


def test_data_that_the_peer_sends_is_no_loss() -> None:
    """A response of many segments, acknowledged by few of ours, or the other way round."""
    tolerance = Tolerance()
    watch = watch_of(tolerance=tolerance)
    first = replace(SLOW, heard=0.0, received=0.0)
    on_time(watch, first, 1.0)
    on_time(watch, replace(first, segments_out=50, segments_in=20), 2.0)
    assert tolerance.loss == 0.0


# --- is it me? --------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [0.251, 3.0, 3600.0])
def test_a_look_that_comes_late_finds_nobody_suspect(late: float) -> None:
    watch = watch_of()
    now = watch.next_look + late
    assert watch.look(UNACKED, now, alternative=True) in (ALIVE, QUIET)
    assert watch.look(UNACKED, now + 0.099, alternative=True) in (ALIVE, QUIET)
    assert watch.look(UNACKED, now + 0.1, alternative=True) is SUSPECT


def test_a_look_that_is_a_little_late_counts() -> None:
    watch = watch_of()
    assert watch.look(UNACKED, watch.next_look + 0.249, alternative=True) is SUSPECT


@pytest.mark.parametrize(
    "sample", [replace(UNACKED, backoff=4, heard=6.0), replace(SLOW, probes=4, heard=6.0)]
)
def test_what_has_arrived_during_a_stall_is_taken_in_first(sample: Sample) -> None:
    watch = watch_of()
    assert watch.look(sample, 10.0) is QUIET
    assert watch.next_look == 10.1
    assert watch.look(sample, 10.05) is QUIET
    assert watch.look(sample, 10.1) is SUSPECT
    watch = watch_of()
    assert watch.look(sample, 10.0) is QUIET
    assert watch.look(replace(SLOW, heard=0.05), 10.1) is ALIVE


def excused(sample: Sample) -> Watch:
    """Our link was down: what was suspect at 10 s is so no more."""
    watch = watch_of()
    assert on_time(watch, sample, 10.0) is SUSPECT
    watch.excuse(10.0, sample)
    assert (watch.verdict, watch.why) == (QUIET, "")
    return watch


def test_repeats_that_our_own_link_lost_do_not_count_until_there_is_one_more() -> None:
    before = replace(UNACKED, backoff=4, sent=5.0, heard=6.0)
    watch = excused(before)
    assert on_time(watch, before, 10.5) is QUIET
    more = replace(before, backoff=5, sent=0.01)
    assert on_time(watch, more, 11.0) is QUIET, "its acknowledgement may be on the way"
    assert on_time(watch, replace(more, sent=0.1), 11.1) is SUSPECT


def test_after_an_excuse_a_late_ack_tells_nothing_until_the_peer_was_heard() -> None:
    """Nothing may have been sent since: the kernel repeats up to two seconds later."""
    repeated = replace(UNACKED, backoff=3, sent=0.5, heard=6.0)
    watch = excused(repeated)
    for now in (10.5, 11.0, 11.5):
        watch.next_look = now
        assert watch.look(replace(repeated, heard=now), now, alternative=True) is QUIET
    watch.next_look = 12.0
    assert watch.look(replace(SLOW, heard=0.1), 12.0, alternative=True) is ALIVE
    watch.sent(12.0)
    watch.look(replace(UNACKED, heard=0.2), 12.1, alternative=True)
    assert watch.look(replace(UNACKED, heard=0.4), 12.3, alternative=True) is SUSPECT


def test_probes_that_our_own_link_lost_do_not_count_until_two_more_are_unanswered() -> None:
    silent = replace(SLOW, probes=4, heard=6.0)
    watch = excused(silent)
    assert on_time(watch, replace(silent, probes=5, heard=7.0), 11.0) is QUIET
    assert on_time(watch, replace(silent, probes=6, heard=8.0), 12.0) is SUSPECT


def test_a_peer_that_was_heard_since_has_no_excuse_left() -> None:
    watch = excused(replace(SLOW, probes=4, heard=6.0))
    assert on_time(watch, replace(SLOW, probes=0, heard=0.5), 11.0) is ALIVE
    assert on_time(watch, replace(SLOW, probes=3, heard=1.5), 12.0) is SUSPECT


def test_an_excuse_before_there_was_a_suspicion() -> None:
    watch = watch_of()
    watch.excuse(0.05, UNACKED)
    assert watch.verdict is ALIVE
    assert watch.look(UNACKED, 0.1, alternative=True) is ALIVE
    idle = Watch(0.0)
    idle.excuse(1.0, SLOW)
    assert idle.verdict is ALIVE


def test_time_that_the_owner_spent_elsewhere_is_no_stall() -> None:
    watch = watch_of(ROOM)
    watch.look(replace(SLOW, heard=0.01), 0.25)
    watch.sent(60.0)
    watch.expect(ROOM, 60.0)
    assert watch.look(UNACKED, 60.25, alternative=True) is SUSPECT
