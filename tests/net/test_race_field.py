"""Reports from the field that the dialler answers, named by their ids; in virtual time."""

from __future__ import annotations

import errno
import math

import pytest

from outlast.net.dial import DialMemory
from tests.net.racing import near, play
from tests.net.scripted import MUTE, SILENT, Path, Scripted, Told, refused, shake

WORLDS = ["sync", "asyncio", "trio"]
A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
LIVE = Path(0.001)
UNREACHABLE = Path(0.003, errno.EHOSTUNREACH)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.incident("FR-03")
def test_fr03_a_new_socket_to_the_same_address_wins(world: str) -> None:
    net = Scripted({A: [SILENT, LIVE]})
    outcome = play(net, [A], world=world)
    assert (outcome.winner, outcome.took) == (A, near(0.251))
    assert len({stream.local_port for stream in net.streams}) == 2


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.incident("FR-04")
def test_fr04_the_first_of_two_addresses_is_silent(world: str) -> None:
    net = Scripted({A: SILENT, B: LIVE}, [Told([A, B])])
    outcome = play(net, name="db.test", timeout=3.0, world=world)
    assert (outcome.winner, outcome.took) == (B, near(0.251))
    assert net.streams[0].end == ("aborted", near(0.251))


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.incident("FR-05")
def test_fr05_ten_silent_addresses_are_all_tried_within_one_timeout(world: str) -> None:
    hosts = [f"10.0.0.{n}" for n in range(10)]
    net = Scripted(dict.fromkeys(hosts, SILENT), [Told(hosts)])
    outcome = play(net, name="db.test", timeout=5.0, world=world)
    assert outcome.took == 5.0
    assert outcome.lost.timed_out
    assert {host for _, host in net.dials} == set(hosts)


@pytest.mark.incident("FR-06")
def test_fr06_one_deadline_for_look_up_dials_and_handshake() -> None:
    """Three stages that each would use the whole of it."""
    for told, paths in (
        (Told([A], math.inf), LIVE),
        (Told([A], 3.0), SILENT),
        (Told([A], 3.0), MUTE),
        (Told([A], 1.0), [Path(1.5, handshake=math.inf), SILENT]),
    ):
        net = Scripted({A: paths}, [told])
        outcome = play(net, name="db.test", timeout=5.0, finish=shake)
        assert outcome.took == 5.0
        assert outcome.lost.timed_out


@pytest.mark.incident("FR-07")
def test_fr07_refused_and_silent_are_told_apart() -> None:
    told = play(Scripted({A: refused()}), [A]).lost
    assert (told.timed_out, told.errno) == (False, errno.ECONNREFUSED)
    assert "refused" in str(told)
    told = play(Scripted({A: SILENT}), [A]).lost
    assert (told.timed_out, told.errno) == (True, errno.ETIMEDOUT)
    assert "no answer" in str(told)


@pytest.mark.incident("FR-09")
def test_fr09_an_unreachable_node_costs_no_time() -> None:
    net = Scripted({A: UNREACHABLE, B: LIVE})
    outcome = play(net, [A, B])
    assert (outcome.winner, outcome.took) == (B, near(0.004))


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.incident("FR-10")
def test_fr10_each_redial_takes_another_port_until_one_works(world: str) -> None:
    net = Scripted({A: [UNREACHABLE] * 4 + [LIVE]})
    outcome = play(net, [A], world=world)
    assert outcome.took == near(4 * 0.003 + 0.001)
    assert len({stream.local_port for stream in net.streams}) == 5


@pytest.mark.parametrize("old", [UNREACHABLE, refused(), SILENT], ids=["113", "rst", "silent"])
@pytest.mark.incident("FR-11")
def test_fr11_when_all_addresses_fail_the_name_is_asked_again(old: Path) -> None:
    net = Scripted({A: old, B: LIVE}, [Told([A]), Told([B])])
    outcome = play(net, name="db.test")
    assert outcome.winner == B
    assert outcome.took < (1.3 if old is SILENT else 0.1)
    assert len(net.lookups) == 2


@pytest.mark.incident("FR-12")
def test_fr12_an_empty_answer_is_a_gap_and_not_the_end() -> None:
    """A name that has had an address before: asked again each half second."""
    memory = DialMemory(0.0)
    net = Scripted({A: refused(), B: LIVE}, [Told([A]), Told(), Told(), Told([B])])
    first = play(net, name="db.test", memory=memory, timeout=1.0)
    assert first.lost.timed_out
    net.lookups.clear()
    again = play(net, name="db.test", memory=memory, timeout=10.0)
    assert again.winner == B
    assert again.took < 2.0


NOTHING_SENT = [
    *("EINVAL", "ENETUNREACH", "EACCES", "EPERM", "EHOSTUNREACH", "ECONNREFUSED", "ETIMEDOUT"),
    *("EADDRNOTAVAIL", "ENOPROTOOPT", "ECONNRESET", "EHOSTDOWN", "ENETDOWN", "EAFNOSUPPORT"),
]


@pytest.mark.parametrize("late", [0.0, 0.1, 3.2])
@pytest.mark.parametrize("name", NOTHING_SENT)
@pytest.mark.incident("FR-14")
def test_fr14_any_error_of_the_connect_phase_moves_on(name: str, late: float) -> None:
    """At once in the call, or late: the next address is dialled at that very moment."""
    failing = Path(late, getattr(errno, name), at_once=not late)
    net = Scripted({A: failing, B: LIVE})
    outcome = play(net, [A, B], delay=10.0)
    assert (outcome.winner, outcome.took) == (B, near(late + 0.001))
    assert next(event.errno for event in outcome.report) == getattr(errno, name)


@pytest.mark.incident("FR-61")
def test_fr61_a_list_given_by_the_caller_is_raced_too() -> None:
    net = Scripted({A: SILENT, B: SILENT})
    play(net, [A, B], timeout=0.6)
    assert net.dials == [(0.0, A), (0.25, B), (0.5, A)]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.incident("FR-62")
def test_fr62_three_addresses_of_one_family_two_of_them_silent(world: str) -> None:
    net = Scripted({A: SILENT, B: SILENT, C: LIVE})
    outcome = play(net, [A, B, C], world=world)
    assert (outcome.winner, outcome.took) == (C, near(0.501))
    assert net.dials == [(0.0, A), (0.25, B), (0.5, C)]


@pytest.mark.parametrize("handshake", [0.0, math.inf])
@pytest.mark.incident("FR-66")
def test_fr66_a_stalled_handshake_is_bounded_and_raced(handshake: float) -> None:
    """The server accepts and says nothing: another dial after half a second, one deadline."""
    again = Path(0.001, handshake=handshake)
    net = Scripted({A: [MUTE, again]})
    outcome = play(net, [A], timeout=3.0, finish=shake)
    assert net.dials[1] == (near(0.501), A)
    if handshake:
        assert outcome.took == 3.0
        assert outcome.lost.timed_out
    else:
        assert outcome.took == near(0.502)
    assert net.streams[0].end is not None
    assert net.streams[0].end[0] == "closed", "it had answered: ended in good order"
