"""Slow answers over lines that lose packets, through the transports on a kernel: nobody is cut off.

`OUTLAST_FULL=1` (make liveness) has a thousand requests, each acknowledged and answered after a
minute; without it there are fifty, and four seconds. The same in virtual time, with delay and
with lines that are much worse: tests/fire/test_lossy_lines.py.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable

import anyio
import httpx
import pytest

import outlast
from outlast.testing import KernelLab
from tests.lab.test_liveness import FULL, loss
from tests.lab.test_liveness_http import under_load

COUNT, WAIT = (1000, 60.0) if FULL else (50, 4.0)
PACE = 0.02  # seconds between two requests
FEW = 10  # may be tried at once before anything is learnt of a line: `core.tolerance.HASTY`
MOST = 0.05  # of the requests may be tried a second time, under 5 % of loss each way


def words_of(outcome: httpx.Response | httpx.TransportError) -> list[str]:
    """What the reports say of its attempts."""
    report = outlast.report_of(outcome)
    return [] if report is None else [event.what for event in report.of_phase("request")]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("share", [0.0, 0.05] if FULL else [0.05])
def test_slow_answers(lab: KernelLab, figures: Callable[[str], None], share: float) -> None:
    """Dials too meet the loss. An answer that began is never cut off, a request that was
    acknowledged never given up."""
    node = lab.node("far")
    pod = node.pod()
    pod.wait_ready()
    ends: Counter[str] = Counter()
    said: list[str] = []

    async def one(client: httpx.AsyncClient) -> None:
        try:
            outcome: httpx.Response | httpx.TransportError
            outcome = await client.get(f"{pod.url}?delay={WAIT:g}")
            ends[str(outcome.status_code)] += 1
        except httpx.TransportError as error:
            outcome = error
            ends[type(error).__name__] += 1
        said.extend(words_of(outcome))

    async def main() -> None:
        limits = httpx.Limits(max_connections=2 * COUNT)
        timeout = httpx.Timeout(None, connect=60.0)
        transport = outlast.AsyncTransport(limits=limits)
        async with httpx.AsyncClient(transport=transport, timeout=timeout) as client:
            async with anyio.create_task_group() as group:
                for _ in range(COUNT):
                    group.start_soon(one, client)
                    await anyio.sleep(PACE)

    with lab.running(), loss(node, share) if share else contextlib.nullcontext():
        anyio.run(main)
    suspects = sum(text.startswith("suspect") for text in said)
    second = pod.counts()["requests"] - COUNT
    figures(
        f"{COUNT} answers of {WAIT:g} s, {share:.0%} lost each way: {dict(ends)}, {suspects} "
        f"suspect, {second} second attempts, {under_load()}"
    )
    assert ends == {"200": COUNT}, said
    assert all("suspect" in text or "answered" in text for text in said), "nothing was aborted"
    if not share:
        assert (suspects, second) == (0, 0)
    else:
        assert second <= (MOST * COUNT if FULL else FEW)
