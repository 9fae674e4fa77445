"""All runs of the table: each in a process of its own, watched while it works, and kept.

Refuses to make a figure up: a run whose process fails has no record, and its words are kept.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.incident.metronome import Metronome
from benchmarks.incident.one_run import Order
from outlast.cli.record import Happening, Outcome, Sample

__all__ = ["Counts", "Record", "Watcher", "kept", "read", "run_all"]

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Counts:
    """How far a run has come."""

    at: float
    calls: int
    errors: int
    slow: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Record:
    """One run, over. `failure` has the process's last words when there is nothing else."""

    order: Order
    samples: list[Sample] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    stories: list[str] = field(default_factory=list)
    where: str = ""
    failure: str = ""
    stall: float = 0.0  # seconds; the machine's own longest meanwhile
    told: dict[str, Any] = field(default_factory=dict)  # all of it, as the process told it


Watcher = Callable[[Order, "Counts | Record | None"], None]
"""Told of a start (None), of counts each second, and of the end. Called by several threads."""


def run_all(orders: Sequence[Order], jobs: int, watcher: Watcher) -> list[Record]:
    """Run them, at most `jobs` at once. An interrupt ends the processes that run."""
    places: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in range(jobs):
        places.put(place)
    processes: set[subprocess.Popen[str]] = set()
    stopped = threading.Event()

    def work(order: Order) -> Record:
        place = places.get()
        try:
            if stopped.is_set():
                return Record(order, failure="not run")
            return _one(replace(order, place=place), watcher, processes, metronome)
        finally:
            places.put(place)

    with Metronome() as metronome, ThreadPoolExecutor(jobs) as threads:
        try:
            return list(threads.map(work, orders))
        finally:
            stopped.set()
            for process in list(processes):
                process.kill()


def _one(
    order: Order, watcher: Watcher, processes: set[subprocess.Popen[str]], metronome: Metronome
) -> Record:
    began = time.monotonic()
    watcher(order, None)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command = [sys.executable, "-m", "benchmarks.incident.one_run", json.dumps(asdict(order))]
    found: Record | None = None
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
        )
        processes.add(process)
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                told = json.loads(line)
                if "record" in told:
                    stall = metronome.longest_since(began)
                    found = read(order, {**told["record"], "stall": stall})
                else:
                    watcher(order, Counts(**told))
        process.wait()
        processes.discard(process)
        errors.seek(0)
        said = errors.read().strip()
    record = found or Record(order, failure=said or f"ended with {process.returncode}")
    watcher(order, record)
    return record


def kept(record: Record) -> dict[str, Any]:
    """As JSON keeps it. `read` has it back from its order, what was told, and its failure."""
    return {"order": asdict(record.order), "told": record.told, "failure": record.failure}


def read(order: Order, told: dict[str, Any], failure: str = "") -> Record:
    """What a run's process has told."""
    if failure:
        return Record(order, failure=failure)
    ended = [
        Sample(begun, took, Outcome.ERROR if error else Outcome.OK, error)
        for begun, took, error in told["samples"]
    ]
    hung = [Sample(begun, took, Outcome.HUNG) for begun, took in told["hung"]]
    return Record(
        order,
        ended + hung,
        [Happening(**happening) for happening in told["happenings"]],
        told["stories"],
        told["where"],
        stall=told["stall"],
        told=told,
    )
