"""Slow answers over lines that lose packets, in virtual time: who lives is not cut off.

Forty requests that wait a minute for their answer; `OUTLAST_FULL=1` (make liveness) has a thousand
and prints what they came to. On the kernel: tests/lab/test_lossy_lines.py.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter

import anyio
import httpx
import pytest

import outlast
from outlast.core.budget import WINDOW
from outlast.testing import SimNet
from tests.fire.worlds import report

FULL = bool(os.environ.get("OUTLAST_FULL"))
COUNT = 1000 if FULL else 40
PACE = 0.02  # seconds between two requests
WAIT = 60.0  # seconds
PATIENCE = 1200 if FULL else 120  # seconds of real time; the machine may be busy
RATIO, RESERVE = 0.2, 3.0  # of the retry budget: a share of the requests, and so many a second
REPEATED = re.compile(r": repeated( \([^()]*\))?$").search  # by us, not "repeated 3 times" by TCP

pytestmark = pytest.mark.timeout(PATIENCE)


class Line:
    """What requests over a line came to."""

    def __init__(self, loss: float, delay: float) -> None:
        self.net = SimNet(patience=PATIENCE)
        self.node = self.net.node("a")
        self.pod = self.node.pod()
        self.loss, self.delay = loss, delay
        self.ends: Counter[str] = Counter()
        self.said: list[str] = []
        self.asked: Counter[int] = Counter()  # by the second of the network's clock
        self.repeats: Counter[int] = Counter()

    async def play(self) -> None:
        limits = httpx.Limits(max_connections=2 * COUNT)
        transport = outlast.AsyncTransport(network=self.net, limits=limits)
        timeout = httpx.Timeout(None, connect=60.0)
        async with httpx.AsyncClient(transport=transport, timeout=timeout) as client:
            self.node.lose(self.loss)
            self.node.delay(self.delay)
            async with anyio.create_task_group() as group:
                for _ in range(COUNT):
                    group.start_soon(self._ask, client)
                    await anyio.sleep(PACE)

    async def _ask(self, client: httpx.AsyncClient) -> None:
        self.asked[int(self.net.now())] += 1
        try:
            answer = await client.get(f"http://{self.pod.address}/?delay={WAIT:g}")
            self.ends[str(answer.status_code)] += 1
            told = report(answer)
        except httpx.TransportError as error:
            self.ends[type(error).__name__] += 1
            told = report(error)
        for event in told.of_phase("request"):
            self.said.append(event.what)
            if REPEATED(event.what) and "nothing was sent" not in event.what:
                self.repeats[int(told.started + event.at)] += 1

    @property
    def killed(self) -> int:
        """Attempts that the kernel has given up."""
        return sum("timed out" in text for text in self.said)

    def tell(self, capsys: pytest.CaptureFixture[str]) -> None:
        if FULL:
            with capsys.disabled():
                sys.stdout.write(
                    f"\n{COUNT} answers of {WAIT:g} s, {self.loss:.0%} lost each way, "
                    f"{self.delay:g} s of delay (simulated): {dict(self.ends)}, "
                    f"{self.repeats.total()} second attempts, {self.killed} killed by the kernel\n"
                )


@pytest.mark.parametrize(("loss", "delay"), [(0.0, 0.0), (0.05, 0.0), (0.05, 0.2)])
def test_nobody_is_cut_off_and_few_are_tried_again(
    loss: float, delay: float, capsys: pytest.CaptureFixture[str]
) -> None:
    line = Line(loss, delay)
    line.net.run(line.play, backend="asyncio")
    line.tell(capsys)
    assert line.ends == {"200": COUNT}
    assert line.killed == 0
    assert line.repeats.total() <= (0.05 if FULL else 0.1) * COUNT * bool(loss)


def test_a_line_that_loses_a_third_costs_no_more_than_the_budget(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """30 % each way, so that half of all round trips fail: the kernel kills some, and whoever
    cannot be tried again says how far it got."""
    line = Line(0.3, 0.0)
    line.net.run(line.play, backend="asyncio")
    line.tell(capsys)
    assert line.ends.total() == COUNT
    for last in line.repeats:
        window = range(last - WINDOW + 1, last + 1)
        asked, spent = (sum(counted[s] for s in window) for counted in (line.asked, line.repeats))
        assert spent <= RATIO * asked + RESERVE * WINDOW
    assert line.ends["200"] >= 0.9 * COUNT
