"""Runs that never took place, for the tests of what is made of them."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.cli.record import Happening, Outcome, Run, Sample, Series, Story


def series(library: str, connections: str, samples: Sequence[Sample]) -> Series:
    """A client that saw these requests, the slowest and the first error told by a word."""
    made = Series(library, connections)
    made.samples += samples
    ended = [sample for sample in samples if sample.outcome is not Outcome.HUNG]
    if ended:
        made.slowest = Story(max(ended, key=lambda sample: sample.took), f"{library}'s time line")
    errors = [sample for sample in samples if sample.outcome is Outcome.ERROR]
    if errors:
        made.first_error = Story(errors[0], f"httpx.{errors[0].error}('')")
    return made


def steady(until: float, took: float = 0.002) -> list[Sample]:
    """Ten answers a second."""
    return [Sample(number / 10, took) for number in range(int(until * 10))]


def run() -> Run:
    """Ten seconds, four clients; plain httpx has errors and hung requests."""
    failed = Sample(3.2, 5.0, Outcome.ERROR, "ConnectTimeout")
    hung = Sample(8.5, 2.5, Outcome.HUNG)
    return Run(
        seconds=10,
        series=(
            series("httpx", "pooled", [*steady(3), failed]),
            series("outlast", "pooled", [*steady(10), Sample(3.1, 0.25)]),
            series("httpx", "new", [*steady(3), failed, failed, hung]),
            series("outlast", "new", [*steady(10), Sample(4.2, 0.15)]),
        ),
        happenings=(Happening(3.0, "node b loses power"), Happening(8.0, "endpoint <leaves>")),
        where="a place & another",
        load="a load",
    )
