"""What the watch over waiting requests costs while nothing is wrong: counted, not timed.

Answers come after 20 or 50 ms, so every request waits, and no wait is long enough to be looked at.
Compared is the library as it is with the same library whose waits nobody watches. Instructions are
counted elsewhere: python -m benchmarks.speed.instructions --watch.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import outlast
from benchmarks.speed.instructions import unwatch
from outlast.http.attempt import Attempt
from outlast.testing import KernelLab
from tests.house.sources import ROOT
from tests.lab.asker import MARK, PROGRAM
from tests.lab.test_liveness_http import FULL
from tests.lab.wire import PATIENCE

WORLDS = ("threads", "asyncio", "trio") if FULL else ("threads", "asyncio")
ASKED = 50  # requests under strace
# How much memory a process takes is Python's affair and differs from run to run.
MEMORY = frozenset({"brk", "mmap", "munmap", "madvise", "mremap", "mprotect"})


def can_trace() -> str | None:
    """Why system calls cannot be counted; None if they can."""
    strace = shutil.which("strace")
    if strace is None:
        return "strace is not installed"
    command = [strace, "-o", "/dev/null", "true"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return tried.stderr.strip()[:200] if tried.returncode else None


def calls(folder: Path, world: str, how: str, url: str) -> Counter[str]:
    """The system calls of a client between its marks, by name."""
    trace = folder / f"{world}{how}"
    command = ["strace", "-f", "-o", str(trace), *PROGRAM, world, url, str(ASKED)]
    command += [how] if how else []
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=6 * PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    between = trace.read_text(encoding="utf-8", errors="replace").split(f'"{MARK}"')
    assert len(between) == 3
    names = re.findall(r"^\d+ +(\w+)\(", between[1], re.MULTILINE)
    return Counter(name for name in names if name not in MEMORY and "access" not in name)


def test_no_system_call_more(
    lab: KernelLab, figures: Callable[[str], None], tmp_path: Path
) -> None:
    """In threads and in event loops; on trio too with OUTLAST_FULL (make liveness)."""
    reason = can_trace()
    if reason is not None:
        pytest.skip(f"system calls are not counted: {reason}")
    pod = lab.node("a").pod()
    pod.wait_ready()
    runs = [(world, how) for world in WORLDS for how in ("", "unwatched")]
    with lab.running(), ThreadPoolExecutor(2) as pool:
        url = f"{pod.url}?delay=0.02"
        jobs = [pool.submit(calls, tmp_path, *run, url) for run in runs]
        found = dict(zip(runs, (job.result() for job in jobs), strict=True))
    for world in WORLDS:
        watched, unwatched = found[world, ""], found[world, "unwatched"]
        told = ", ".join(f"{name} {n / ASKED:g}" for name, n in sorted(watched.items()))
        figures(
            f"system calls of {ASKED} requests, {world}: watched {watched.total()}, "
            f"unwatched {unwatched.total()}; each: {told}"
        )
    for world in WORLDS:
        assert found[world, ""] == found[world, "unwatched"], world


# -- timers ------------------------------------------------------------------------------------


class Loop(asyncio.SelectorEventLoop):
    """Knows how many of its timers were armed at once."""

    most = 0

    def __init__(self) -> None:
        super().__init__()
        self._timers: set[asyncio.TimerHandle] = set()

    def call_at(  # type: ignore[override]  # the stub's types of `args`
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = super().call_at(when, callback, *args, context=context)
        now = self.time()
        self._timers = {t for t in self._timers if not t.cancelled() and t.when() > now} | {timer}
        self.most = max(self.most, len(self._timers))
        return timer


@pytest.mark.parametrize("at_once", [1, 20])
def test_one_timer_for_each_wait_at_most(
    lab: KernelLab, figures: Callable[[str], None], at_once: int
) -> None:
    """The one that ends the wait; a thread has none, for poll(2) ends by itself."""
    pod = lab.node("a").pod()
    pod.wait_ready()

    async def work(client: httpx.AsyncClient) -> None:
        for _ in range(5):
            assert (await client.get(f"{pod.url}?delay=0.05")).status_code == 200

    async def main() -> None:
        transport = outlast.AsyncTransport()
        async with httpx.AsyncClient(transport=transport, timeout=60.0) as client:
            await asyncio.gather(*(client.get(pod.url) for _ in range(at_once)))
            loop.most = 0
            await asyncio.gather(*(work(client) for _ in range(at_once)))

    with lab.running():
        loop = Loop()
        try:
            loop.run_until_complete(main())
        finally:
            loop.close()
    figures(f"timers armed at once, {at_once} requests at once on asyncio: {loop.most}")
    assert loop.most <= at_once


# -- packets -----------------------------------------------------------------------------------


def segments() -> tuple[int, int]:
    """TCP segments that this thread's network namespace has sent and received, repeats too; and
    the keepalive probes among them."""
    snmp, netstat = (_counters(name) for name in ("snmp", "netstat"))
    told = snmp["Tcp"]
    return told["InSegs"] + told["OutSegs"] + told["RetransSegs"], netstat["TcpExt"]["TCPKeepAlive"]


def _counters(name: str) -> dict[str, dict[str, int]]:
    """Pairs of lines: names, then values."""
    lines = Path(f"/proc/thread-self/net/{name}").read_text(encoding="ascii").splitlines()
    found = {}
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        group, *rest = names.split()
        found[group.rstrip(":")] = dict(zip(rest, map(int, values.split()[1:]), strict=True))
    return found


def exchanged(url: str) -> tuple[int, int]:
    """Segments that 200 requests on four connections in use have taken, and probes among them."""

    async def work(client: httpx.AsyncClient) -> None:
        for _ in range(50):
            assert (await client.get(f"{url}?delay=0.02")).status_code == 200

    async def main() -> tuple[int, int]:
        transport = outlast.AsyncTransport()
        async with httpx.AsyncClient(transport=transport, timeout=60.0) as client:
            await asyncio.gather(*(client.get(f"{url}?delay=0.02") for _ in range(4)))
            before = segments()
            await asyncio.gather(*(work(client) for _ in range(4)))
            after = segments()
            return after[0] - before[0], after[1] - before[1]

    return asyncio.run(main())


def test_no_packet_more_on_connections_in_use(
    lab: KernelLab, figures: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one probe. Whether an ACK goes with the answer or alone is the kernels' affair: where the
    machine is busy the answer may come too late to take it along."""
    pod = lab.node("a").pod()
    pod.wait_ready()
    with lab.running():
        watched, probes = exchanged(pod.url)
        with monkeypatch.context() as patch:
            patch.setattr(Attempt, "_pull", Attempt._pull)
            unwatch()
            unwatched, _ = exchanged(pod.url)
    figures(f"segments of 200 requests: watched {watched}, unwatched {unwatched}; {probes} probes")
    assert probes == 0
    assert abs(watched - unwatched) < 200
