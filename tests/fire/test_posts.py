"""Five hundred random incidents of POSTs alone; ten thousand: python -m tests.fire.posts."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.core.classify import Progress
from outlast.core.report import Report
from tests.fire.cluster import Cluster
from tests.fire.incident import Ask, Incident
from tests.fire.players import Played, Told, play
from tests.fire.posts import Figures, draw_posts, hung, judge_posts

INCIDENTS = 500
TOGETHER = 50  # in one test

# httpx itself leaves generators behind where an answer is not read to its end; trio tells of it.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator .* was garbage collected")


@pytest.mark.timeout(300)  # a second or two; the machine may be busy
@pytest.mark.parametrize("first", range(0, INCIDENTS, TOGETHER))
def test_none_is_applied_twice_none_hangs_and_every_error_is_true(first: int) -> None:
    figures = Figures()
    for seed in range(first, first + TOGETHER):
        played = play(draw_posts(seed))
        figures.add(played)
        found = judge_posts(played)
        if found:
            again = f"python -m tests.fire.posts --seed {seed}"
            pytest.fail("\n".join((again, *found)), pytrace=False)
    assert figures.twice == 0
    assert figures.posts > 100
    assert sum(figures.ends.values()) > 0, "nothing has happened"


def test_all_are_posts_and_only_the_library_ends_those_of_calm_incidents() -> None:
    calm = 0
    for seed in range(40):
        incident = draw_posts(seed)
        assert draw_posts(seed) == incident
        for ask in (ask for worker in incident.asks for ask in worker):
            assert not ask.safe
            assert (ask.method, ask.connect, ask.pool) == ("POST", 5.0, 10.0)
            assert (ask.read is None) is incident.calm
        calm += incident.calm
    assert 10 < calm < 30


def made_up(result: int | str, progress: Progress, **more: Any) -> Told:
    """A call whose request went out a second after it had begun."""
    report = Report(0.0)
    report.add(1.0, "pool", "reused")
    report.add(2.0, "request", "the end", progress=progress)
    told = Told("w1", "w1-0", Ask(method="POST", body="bytes", size=3), 0.0, report=report)
    told.result, told.ended = result, 2.0
    for name, value in more.items():
        setattr(told, name, value)
    return told


@pytest.mark.parametrize(
    ("call", "applied", "found"),
    [
        (made_up("ReadError", Progress.SENT, said="sent, no response"), 1, ""),
        (made_up("ReadError", Progress.SENT, said="sent, no response"), 2, "1: w1-0 arrived 2"),
        (made_up("ReadError", Progress.SENT, said="it failed"), 0, "8: w1-0 does not say"),
        (made_up("ConnectError", Progress.NOT_SENT, said="nothing was sent"), 0, ""),
        (made_up("ConnectError", Progress.NOT_SENT, said="nothing was sent"), 1, "1: w1-0 has"),
        (made_up(200, Progress.SENT, ended=12.9), 1, ""),
        (made_up(200, Progress.SENT, ended=13.1), 1, "2: w1-0 hung 12.100 s"),
    ],
)
def test_a_breach_is_found(call: Told, applied: int, found: str) -> None:
    cluster = Cluster(Incident(asks=((call.ask,),)))
    cluster.books.applied["w1-0"] = applied
    breaches = judge_posts(Played(cluster.incident, cluster, [call]))
    assert bool(breaches) is bool(found)
    assert all(each.startswith(found) for each in breaches[:1])


def test_how_long_it_hung_leaves_out_what_others_need() -> None:
    call = made_up(200, Progress.SENT, ended=10.0)
    cluster = Cluster(Incident(asks=((call.ask,),)))
    played = Played(cluster.incident, cluster, [call])
    assert hung(call, played) == 9.0
    cluster.net.log += [
        (0.5, "a: heal"),
        (4.0, "a: heal"),
        (5.0, "a: power off"),
        (11.0, "a: heal"),
    ]
    assert hung(call, played) == 6.0
    call.ask = Ask(method="POST", query="delay=5", body="stream", gap=0.3)
    assert hung(call, played) == pytest.approx(0.1)
