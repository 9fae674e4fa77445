"""What a race tells of dials and look-ups that fail, and of an empty bucket."""

from __future__ import annotations

import errno
import socket

import pytest

from outlast.net.dial import DialMemory
from outlast.net.dial_news import DialEnded, DialNews, LookupEnded, RedialRefused
from tests.net.racing import near, play
from tests.net.scripted import MUTE, SILENT, Path, Scripted, Told, refused, shake

LIVE = Path(0.001)
A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def ends(news: list[DialNews]) -> list[tuple[str, str, int | None]]:
    return [
        (each.address.host, each.phase, each.errno) for each in news if isinstance(each, DialEnded)
    ]


def test_a_refusal_is_told_with_its_number_and_its_time() -> None:
    news: list[DialNews] = []
    play(Scripted({A: refused(0.002), B: LIVE}), [A, B], told=news.append)
    assert ends(news) == [(A, "connect", errno.ECONNREFUSED)]
    (refusal,) = news
    assert isinstance(refusal, DialEnded)
    assert refusal.seconds == near(0.002)
    assert refusal.why == "Connection refused"
    assert refusal.local_port


def test_one_that_was_late_is_told_when_another_has_won_and_one_that_was_not_is_not() -> None:
    news: list[DialNews] = []
    play(Scripted({A: SILENT, B: Path(0.25)}), [A, B], delay=0.25, told=news.append)
    assert ends(news) == [(A, "connect", None)]
    news.clear()
    play(Scripted({A: Path(0.3), B: SILENT}), [A, B], delay=0.25, told=news.append)
    assert news == []  # 50 ms are no time
    news.clear()
    play(Scripted({A: Path(0.3), B: Path(0.001)}), [A, B], delay=0.25, told=news.append)
    assert ends(news) == [(A, "connect", None)]
    news.clear()
    play(Scripted({A: SILENT, B: SILENT, C: Path(0.001)}), [A, B, C], told=news.append)
    assert [host for host, _, _ in ends(news)] == [A, B]


def test_those_that_are_out_at_the_deadline_are_told_with_how_far_they_came() -> None:
    news: list[DialNews] = []
    net = Scripted({A: SILENT, B: MUTE})
    lost = play(net, [A, B], timeout=0.6, finish=shake, told=news.append).lost
    assert lost.timed_out
    assert lost.phase == "handshake"
    told = [end for end in ends(news) if end[0] == A]
    assert set(told) == {(A, "connect", None)}
    assert (B, "handshake", None) in ends(news)
    assert len(ends(news)) == len(net.dials)


def test_nothing_is_told_twice_of_one_that_gave_way() -> None:
    news: list[DialNews] = []
    net = Scripted({A: SILENT})
    lost = play(net, [A], timeout=4.0, delay=0.1, told=news.append).lost
    assert lost.phase == "connect"
    assert len(ends(news)) == len(net.dials)
    assert len({each.local_port for each in news if isinstance(each, DialEnded)}) == len(net.dials)


def test_an_empty_bucket_is_told_once_in_a_race() -> None:
    memory = DialMemory(0.0)
    while memory.take(0.0):
        pass
    news: list[DialNews] = []
    play(Scripted({A: SILENT}), [A], timeout=5.0, delay=0.05, memory=memory, told=news.append)
    assert len([each for each in news if isinstance(each, RedialRefused)]) == 1


@pytest.mark.parametrize(
    "error", [None, socket.gaierror(socket.EAI_NONAME, "Name or service not known")]
)
def test_look_ups_are_told(error: OSError | None) -> None:
    news: list[DialNews] = []
    net = Scripted({A: LIVE}, [Told([A] if error is None else error, 0.05)])
    outcome = play(net, name="db.test", told=news.append)
    (lookup,) = news
    assert isinstance(lookup, LookupEnded)
    assert lookup.name == "db.test"
    assert lookup.seconds == near(0.05)
    if error is None:
        assert [each.host for each in lookup.addresses] == [A]
        assert not lookup.error
    else:
        assert lookup.error == "Name or service not known"
        assert outcome.lost.phase == "lookup"
