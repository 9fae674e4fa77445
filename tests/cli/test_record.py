"""What is remembered of a request: its outcome, the slowest one's story, the hung ones."""

from __future__ import annotations

from outlast.cli.record import Outcome, Sample, Series, Story
from tests.cli import made_up


def test_a_request_is_recorded_when_it_ends() -> None:
    series = Series("httpx", "new")
    first, second = series.begin(1.0), series.begin(1.5)
    assert (series.waiting, series.samples) == (2, [])
    series.end(second, 1.6, "told")
    assert series.samples == [Sample(1.5, 1.6 - 1.5)]
    series.end(first, 6.0, "told", "ConnectTimeout")
    assert series.samples[1:] == [Sample(1.0, 5.0, Outcome.ERROR, "ConnectTimeout")]
    assert series.waiting == 0


def test_the_slowest_and_the_first_error_are_told() -> None:
    series = Series("httpx", "new")
    for took, text, error in ((1.0, "a", ""), (3.0, "b", "E"), (2.0, "c", "E"), (3.0, "d", "")):
        series.end(series.begin(0.0), took, text, error)
    told = Story(Sample(0.0, 3.0, Outcome.ERROR, "E"), "b")
    assert series.slowest == told
    assert series.first_error == told


def test_what_has_no_answer_at_the_end_is_hung() -> None:
    series = Series("httpx", "new")
    series.begin(8.0)
    series.end(series.begin(8.0), 8.5, "")
    series.hang_up(11.0)
    assert series.samples == [Sample(8.0, 0.5), Sample(8.0, 3.0, Outcome.HUNG)]
    assert series.waiting == 0


def test_a_run_lasts_until_its_last_answer() -> None:
    run = made_up.run()
    assert run.length == 11.0  # a hung request was given up then
    assert all(sample.ended <= run.length for series in run.series for sample in series.samples)
