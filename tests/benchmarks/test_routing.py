"""The page of the router's job: it says what was measured, and why a row was not."""

from __future__ import annotations

from benchmarks.routing.__main__ import page
from benchmarks.routing.one_run import Found, Times
from benchmarks.routing.rows import ROWS

TIMES = Times(3.0, 13.0, 33.0)
FOUND = Found(
    calls=1234,
    errors=5,
    p50=0.012,
    p99=0.21,
    slowest=1.5,
    learnt=[0.01, 0.2, 0.4, 0.39],
    last=[0.24, 0.26, 0.25, 0.25],
)


def line_of(text: str, name: str) -> str:
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {name} |"))
    return line


def test_a_row_has_its_figures() -> None:
    text = page({"outlast": FOUND}, {}, TIMES, "a machine", smoke=False)
    figures = "| 1,234 | 5 | 12 ms | 210 ms | 1.5 s | 1.0% | 20.0% | 24.0% |"
    assert line_of(text, "**outlast, static**").endswith(figures)
    assert "a machine" in text


def test_a_row_without_figures_says_why() -> None:
    text = page({}, {"envoy-tuned": "envoy is missing"}, TIMES, "a machine", smoke=True)
    names = {row.key: row.name for row in ROWS}
    assert "envoy is missing" in line_of(text, names["envoy-tuned"])
    assert "the run failed" in line_of(text, names["httpx"])
    assert "make bench-routing BENCH_ARGS=--smoke" in text
