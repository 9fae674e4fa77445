"""One row of the table, in a process of its own: the lab, the load, and what the client met.

A process each, because a client that hangs for ever (threads of requests do) ends with it, and
because no row shall meet another's memory. Tells its counts on standard output each second, one
JSON object a line, the last of which is the whole record.

Run by `benchmarks.incident`, as `python -m benchmarks.incident.one_run '{"row": ..., ...}'`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import anyio.lowlevel

from benchmarks.incident.proxies import running
from benchmarks.incident.rows import ROWS
from outlast.cli.stage import KernelStage
from tests.lab.load import SLOW, Load, Sample, in_tasks, in_threads

__all__ = ["Order"]

TOLD = 12  # how many slow or failed calls are told at length


@dataclass(frozen=True, slots=True)
class Order:
    """What to run."""

    row: str
    way: str  # "pooled" or "new"
    power_off: float
    leaves: float
    until: float
    place: int = 0  # which of the labs that run at once
    program: str = ""  # where the proxy's program lies


def main(text: str) -> None:
    """Run it, tell it, end at once: hung threads do not keep the process."""
    order = Order(**json.loads(text))
    row = next(row for row in ROWS if row.key == order.row)
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]  # the lab's addresses are behind nobody's proxy
    stage = KernelStage(order.place, power_off=order.power_off, leaves=order.leaves)
    with stage, contextlib.ExitStack() as stack:
        url = stage.url
        if row.proxy is not None:
            url = stack.enter_context(running(row.proxy, order.program, stage.lab, stage.endpoints))
        # Made before the clock starts, with all that it imports; it opens no socket yet.
        made = row.client(url, stage.endpoints, order.way == "pooled")
        asyncio.run(anyio.lowlevel.checkpoint())
        load = Load(row.name)
        stack.enter_context(_telling(load, stage))
        with stage.running():
            if row.threads:
                # Never left: that would wait for what hangs.
                in_threads(load, stage, made.__enter__(), order.until)
            else:
                asyncio.run(_in_tasks(made, load, stage, order.until))
        _tell({"record": _record(load, stage)})
    os._exit(0)


async def _in_tasks(made: Any, load: Load, stage: KernelStage, until: float) -> None:
    call = await made.__aenter__()
    await in_tasks(load, stage, call, until)


@contextlib.contextmanager
def _telling(load: Load, stage: KernelStage) -> Iterator[None]:
    """Tell the counts each second during the block."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(1.0):
            samples = list(load.samples)
            _tell(
                {
                    "at": stage.elapsed(),
                    "calls": len(samples),
                    "errors": sum(sample.error is not None for sample in samples),
                    "slow": sum(sample.took > SLOW for sample in samples),
                    "waiting": len(load.waiting),
                }
            )

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


_one_line = threading.Lock()


def _tell(what: dict[str, Any]) -> None:
    line = json.dumps(what) + "\n"
    with _one_line:
        sys.stdout.write(line)
        sys.stdout.flush()


def _record(load: Load, stage: KernelStage) -> dict[str, Any]:
    now = stage.elapsed()
    samples = sorted(load.samples, key=lambda sample: sample.at)
    worst = sorted(samples, key=lambda s: (s.error is None, -s.took))[:TOLD]
    return {
        "samples": [
            [round(s.at, 4), round(s.took, 5), _kind(s.error) if s.error else ""] for s in samples
        ],
        "hung": [[round(at, 4), round(now - at, 4)] for at in load.waiting],
        "happenings": [asdict(happening) for happening in stage.happenings],
        "stories": [_story(s) for s in worst if s.error is not None or s.took > SLOW],
        "where": stage.where,
    }


def _kind(error: BaseException) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    status = getattr(error, "status", status)
    return f"status {status}" if status else type(error).__name__


def _story(sample: Sample) -> str:
    """A slow or failed call at length, with outlast's report where there is one."""
    head = f"at {sample.at:.3f} s, took {sample.took * 1e3:.0f} ms"
    if sample.error is not None:
        report = getattr(sample.error, "report", None)
        return f"{head}: {sample.error!r}\n{report or ''}".rstrip()
    report = getattr(sample.answer, "extensions", {}).get("outlast")
    return f"{head}\n{report or ''}".rstrip()


if __name__ == "__main__":
    main(sys.argv[1])
