"""What the demo says: in 80 columns, with and without a terminal, in ASCII where it must."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import Future

import pytest
from rich.console import Console

from outlast.cli import screen
from outlast.cli.record import Run
from tests.cli import made_up


def said(run: Run, width: int = 80, *, encoding: str = "utf-8", terminal: bool = False) -> str:
    """The account of a run, as it reaches a terminal or a file."""
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding) as file:
        console = Console(
            file=file,
            width=width,
            force_terminal=terminal,
            color_system="truecolor" if terminal else None,
            highlight=False,
        )
        screen.account(console, run)
        file.flush()
        return raw.getvalue().decode(encoding)


def test_the_account() -> None:
    lines = [line.rstrip() for line in said(made_up.run()).splitlines()]
    assert lines[:6] == [
        "                 0    5    10 s",
        "                    ▼ node b loses power",
        "                         ▼ endpoint <leaves>",
        "httpx, pooled    ▇▇▇·····1·",
        "outlast, pooled  ▇▇▇▇▇▇▇▇▇▇",
        "httpx, new       ▇▇▇·····2·",
    ]
    assert [line for line in lines if line.startswith(("client", "httpx,", "outlast,"))][-5:] == [
        "client           requests  errors  hung     p50     p99  slowest  over 100 ms",
        "httpx, pooled          31       1     0  2.0 ms   5.0 s    5.0 s            1",
        "outlast, pooled       101       0     0  2.0 ms  2.0 ms   250 ms            1",
        "httpx, new             33       2     1  2.0 ms   5.0 s    5.0 s            3",
        "outlast, new          101       0     0  2.0 ms  2.0 ms   150 ms            1",
    ]
    assert "errors of httpx, new: 2 ConnectTimeout" in lines
    assert max(map(len, lines)) <= 80


def test_one_error_and_the_slowest_request_are_told() -> None:
    text = said(made_up.run())
    assert "an error of httpx, pooled, sent at 3.2 s, after 5.0 s, in full:" in text
    assert "httpx.ConnectTimeout('')" in text
    assert "the slowest request of outlast, pooled, sent at 3.1 s, took 250 ms; its report:" in text
    assert text.count("outlast's time line") == 1


def test_colours_only_where_there_is_a_terminal() -> None:
    assert "\x1b[" not in said(made_up.run())
    assert "\x1b[" in said(made_up.run(), terminal=True)
    assert "yellow" in said(made_up.run(), terminal=True)


def test_a_terminal_without_unicode_gets_ascii() -> None:
    text = said(made_up.run(), encoding="ascii")
    assert "httpx, pooled    ###_____1_" in text


def test_a_narrow_terminal_gets_a_shorter_line() -> None:
    line = next(line for line in said(made_up.run(), 24).splitlines() if "outlast, new" in line)
    assert len(line.rstrip()) <= 24


# --- while it runs ----------------------------------------------------------------------------


def ending(work: Future[None], times: list[float]) -> Callable[[], float]:
    """A clock that shows these times; after the last one the work is done."""

    def clock() -> float:
        now = times.pop(0)
        if not times:
            work.set_result(None)
            times.append(now)
        return now

    return clock


def progress(terminal: bool, times: list[float], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(screen, "_REFRESH", 0.001)
    run, work, file = made_up.run(), Future[None](), io.StringIO()
    console = Console(file=file, width=80, force_terminal=terminal, highlight=False, _environ={})
    shown = screen.Progress(console, run.series, run.happenings, run.seconds)
    shown.follow([work], ending(work, times))
    return file.getvalue()


def test_a_terminal_gets_a_line_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    text = progress(True, [0.5, 2.9, 10.2], monkeypatch)
    rows = [line for line in text.splitlines() if "outlast, new" in line]
    bars = ["".join(c for c in row if c in "▁▂▃▄▅▆▇·") for row in rows]
    # Nothing in the first half second; the last frame may be drawn twice.
    assert list(dict.fromkeys(len(bar) for bar in bars)) == [0, 2, 10]
    assert "waiting now" in text


def test_a_file_gets_a_line_every_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = progress(False, [0.5, 5.1, 5.6, 10.2], monkeypatch).splitlines()
    assert [line.split()[:2] for line in lines[2:-1]] == [
        ["3", "s"],
        ["8", "s"],
        ["5", "s"],
        ["10", "s"],
    ]
    assert lines[4] == "   5 s  30/0/1            101/1/0           30/0/2            101/1/0"


def test_a_failed_load_ends_the_show(monkeypatch: pytest.MonkeyPatch) -> None:
    run, still, failed = made_up.run(), Future[None](), Future[None]()
    failed.set_exception(RuntimeError("nft is broken"))
    console = Console(file=io.StringIO(), width=80)
    screen.Progress(console, run.series, run.happenings, 10).follow([still, failed], lambda: 0.0)
