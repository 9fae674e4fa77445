"""The dialler against a scripted network, in virtual time: exact instants, and what it leaves."""

from __future__ import annotations

import errno
import math
import socket
import ssl
from collections.abc import Sequence
from typing import Any

import pytest

from outlast.core.report import Report
from outlast.net.dial import DialError, DialMemory
from outlast.net.options import LocalRefusal
from outlast.net.race_driver import dial
from outlast.net.run import run_sync
from outlast.net.seam import Ready, Stream, Wait
from tests.net.drivers import Driver
from tests.net.racing import Watcher, near, play, race, request
from tests.net.scripted import MUTE, SILENT, Path, Scripted, Told, refused, shake

WORLDS = ["sync", "asyncio", "trio"]
A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
LIVE = Path(0.001)
UNREACHABLE = Path(0.003, errno.EHOSTUNREACH)


# --- winners and losers -----------------------------------------------------------------------


def test_families_take_turns() -> None:
    v6 = ["fd00::1", "fd00::2"]
    net = Scripted(dict.fromkeys([*v6, A, B], SILENT), [Told([*v6, A, B])])
    play(net, name="db.test", timeout=0.8)
    assert [host for _, host in net.dials] == ["fd00::1", A, "fd00::2", B]


def test_a_late_error_of_the_only_address_is_followed_by_a_dial() -> None:
    net = Scripted({A: [Path(0.1, errno.EHOSTUNREACH), LIVE]})
    outcome = play(net, [A])
    assert outcome.took == near(0.101)


class Slow(Scripted):
    """Its user is held up whenever it looks at the clock."""

    def now(self) -> float:
        self.time += 0.2
        return self.time


def test_a_dial_has_its_time_though_its_process_was_held_up() -> None:
    net = Slow({A: LIVE})
    assert race(Driver("sync", net), request(net, [A])).winner == A
    assert len(net.dials) == 1


def test_who_is_held_up_beyond_the_deadline_looks_once() -> None:
    net = Slow({A: Path(0.0)})
    assert race(Driver("sync", net), request(net, [A], timeout=1.0)).winner == A


@pytest.mark.parametrize("world", WORLDS)
def test_a_loser_that_stands_too_is_kept_as_a_spare(world: str) -> None:
    net = Scripted({A: Path(0.5), B: Path(0.25)})
    outcome = play(net, [A, B], world=world)
    assert outcome.took == 0.5
    assert outcome.won is not None
    assert {outcome.winner, *(spare.stream.address.host for spare in outcome.won.spare)} == {A, B}


def test_losers_are_aborted_only_if_they_were_never_answered() -> None:
    net = Scripted({A: SILENT, B: MUTE, C: Path(0.001)})
    finish = shake
    outcome = play(net, [A, B, C], finish=finish)
    assert outcome.winner == C
    ends = {stream.address.host: stream.end for stream in net.streams}
    assert ends[A] == ("aborted", near(outcome.took))
    assert ends[B] == ("closed", near(outcome.took))


def test_a_refused_certificate_ends_the_race_at_once() -> None:
    wrong = ssl.SSLCertVerificationError(1, "certificate verify failed: wrong name")
    net = Scripted({A: Path(0.001, handshake=0.002, broken=wrong)})
    outcome = play(net, [A], finish=shake)
    assert outcome.took == near(0.003)
    assert outcome.lost.cause is wrong
    assert not outcome.lost.timed_out
    assert len(net.dials) == 1


def test_a_server_that_leaves_in_the_handshake_is_dialled_again() -> None:
    left = ConnectionResetError(errno.ECONNRESET, "TLS handshake: the peer closed the connection")
    net = Scripted({A: [Path(0.001, handshake=0.002, broken=left), LIVE]})
    outcome = play(net, [A], finish=shake)
    assert outcome.took == near(0.004)


@pytest.mark.parametrize("error", [ValueError("no host name"), LookupError(), KeyboardInterrupt()])
def test_what_is_no_failure_of_the_network_is_raised_as_it_is(error: BaseException) -> None:
    net = Scripted({A: SILENT, B: LIVE, C: LIVE})

    async def finish(stream: Stream) -> Stream:
        raise error

    with pytest.raises(type(error)) as failure:
        play(net, [A, B, C], finish=finish)
    assert failure.value is error
    assert not net.open


def test_the_winners_own_time_is_learnt_and_not_the_races() -> None:
    memory = DialMemory(0.0)
    net = Scripted({A: SILENT, B: Path(0.010, handshake=0.3)})
    outcome = play(net, [A, B], memory=memory, finish=shake, timeout=9.0)
    assert outcome.won is not None
    assert outcome.won.rtt == near(0.010)
    assert memory.figures() == (near(0.030), near(0.9))


def test_after_a_dial_was_won_an_address_may_refuse_more_often() -> None:
    memory = DialMemory(0.0)
    assert not memory.lately(0.0)
    memory.won(0, 5.0)
    assert memory.lately(65.0)
    assert not memory.lately(65.1)
    for known, dials in ((DialMemory(0.0), 8), (memory, 24)):
        net = Scripted({A: refused()})
        assert play(net, [A], memory=known).won is None
        assert len(net.dials) == dials


# --- cancellation -----------------------------------------------------------------------------


class Thrown(BaseException):
    """As an event loop throws it in."""


class Cancelling(Scripted):
    """Cancels the wait with that number."""

    number = 0

    def wait(self, wait: Wait) -> Ready:
        """See `Network.wait`."""
        if self.waits == self.number:
            raise Thrown
        return super().wait(wait)


def cancelled_at(number: int) -> Cancelling | None:
    """The network after a race that was cancelled at that wait; None if it ended before."""
    paths: dict[str, Any] = {
        A: [SILENT, refused(0.05), Path(0.75)],
        B: [MUTE, Path(0.2, handshake=0.05)],
        C: [UNREACHABLE, Path(0.5, handshake=0.2)],
    }
    net = Cancelling(paths, [Told([A, B], 0.1), Told([A, B, C], 0.1)])
    net.number = number
    wanted = request(net, name="db.test", finish=shake, timeout=9.0)
    report = Report(0.0)
    try:
        won = run_sync(net, dial(net, wanted, report))
    except Thrown:
        return net
    assert {won.stream, *(spare.stream for spare in won.spare)} == net.open
    return None


def test_a_cancellation_at_any_wait_leaves_nothing_open() -> None:
    number = 0
    while (net := cancelled_at(number)) is not None:
        assert not net.open, f"cancelled at wait {number}"
        number += 1
    assert number > 8, "the race has been cancelled at every wait of it"


# --- what is told to whoever keeps the endpoint table -----------------------------------------


def test_who_keeps_the_table_hears_of_it_and_says_whom_to_dial_first() -> None:
    watcher = Watcher(first=B)
    net = Scripted({A: LIVE, B: UNREACHABLE}, [Told([A, B])])
    outcome = play(net, name="db.test", watcher=watcher)
    assert outcome.winner == A
    assert watcher.trail == [f"resolved {A} {B}", f"failed {B}", f"connected {A}"]


def test_a_loser_is_evidence_only_if_it_had_its_time() -> None:
    watcher = Watcher()
    net = Scripted({A: SILENT, B: SILENT, C: Path(0.1)})
    play(net, [A, B, C], watcher=watcher)
    assert watcher.trail == [f"silent {A}", f"silent {B}", f"connected {C}"]
    watcher.trail.clear()
    play(Scripted({A: Path(0.3), B: SILENT}), [A, B], watcher=watcher)
    assert watcher.trail == [f"connected {A}"], "B had 50 ms"


def test_a_vip_that_answered_another_dial_is_not_silent() -> None:
    watcher = Watcher()
    play(Scripted({A: [SILENT, LIVE]}), [A], watcher=watcher)
    assert watcher.trail == [f"connected {A}"]


@pytest.mark.parametrize(
    "code", ["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EADDRNOTAVAIL", "EADDRINUSE"]
)
def test_what_this_machine_lacks_is_no_evidence_against_an_endpoint(code: str) -> None:
    watcher = Watcher()
    lacking = Path(code=getattr(errno, code), at_once=True)
    outcome = play(Scripted({A: lacking, B: lacking}), [A, B], watcher=watcher)
    assert outcome.lost.errno == getattr(errno, code)
    assert not outcome.lost.timed_out
    assert watcher.trail == []


class Refusing(Scripted):
    """A machine that refuses the caller's own socket option, in the network's words."""

    def dial(self, *_: Any) -> Stream:
        """See `Network.dial`."""
        self.dials.append((self.time, "refused"))
        raise LocalRefusal(errno.ENOPROTOOPT, "socket option (6, 250, 1): Protocol not available")


def test_a_refused_option_of_the_callers_own_ends_the_race_at_once() -> None:
    watcher = Watcher()
    net = Refusing()
    outcome = play(net, [A, B], watcher=watcher)
    assert outcome.took == 0.0
    assert "socket option (6, 250, 1)" in str(outcome.lost)
    assert len(net.dials) == 2, "once for each address"
    assert watcher.trail == []


# --- words ------------------------------------------------------------------------------------


def lost(net: Scripted, hosts: Sequence[str] = (), **more: Any) -> DialError:
    return play(net, hosts, **more).lost


def test_an_error_tells_what_happened_where_and_how_far_it_got() -> None:
    error = lost(Scripted({A: SILENT, B: UNREACHABLE}), [A, B], timeout=0.26)
    assert str(error) == (
        f"connect timed out after 0.26 s and 3 dials to {A}:80, {B}:80: No route to host; "
        "nothing was sent"
    )
    error = lost(Scripted({A: refused()}, [Told([A])]), name="db.test")
    assert "connect failed after" in str(error)
    assert f"db.test:80 ({A}:80): Connection refused" in str(error)


def test_a_hung_look_up_is_told_as_one() -> None:
    error = lost(Scripted({}, [Told([A], math.inf)]), name="db.test", timeout=2.0)
    assert error.timed_out
    assert "connect timed out after 2.00 s" in str(error)
    assert "the look-up of db.test has not been answered" in str(error)


@pytest.mark.parametrize("passing", [False, True])
def test_a_failed_look_up_is_told_as_one(passing: bool) -> None:
    """A name that does not exist ends it at once; a server that may answer later does not."""
    code, text = (socket.EAI_AGAIN, "try again") if passing else (socket.EAI_NONAME, "unknown")
    error = lost(Scripted({}, [Told(socket.gaierror(code, text))]), name="db.test", timeout=2.0)
    assert error.timed_out is passing
    assert isinstance(error.cause, socket.gaierror)
    assert text in str(error)
    assert "db.test:80" in str(error)


def test_the_report_has_every_step() -> None:
    net = Scripted({A: SILENT, B: UNREACHABLE, C: LIVE}, [Told([A, B, C], 0.1)])
    report = play(net, name="db.test").report
    assert [(event.phase, event.address, event.errno) for event in report] == [
        ("lookup", "db.test:80", None),
        ("connect", f"{B}:80", errno.EHOSTUNREACH),
        ("connect", f"{C}:80", None),
        ("connect", f"{A}:80", None),
    ]
    assert [event.local_port for event in report][1:] == [40_002, 40_003, 40_001]
    assert [event.at for event in report] == [near(0.1), near(0.353), near(0.354), near(0.354)]
