"""Churn: everything comes and goes for a while, and nothing grows.

    python -m tests.stress.churn [SECONDS [SEED [SECONDS OF A ROUND]]]

Rounds of work (`actors`), and after each, with everything at rest, a look: memory, descriptors,
threads, objects, and what a request costs. At the end the looks are a table, and the last third of
them is compared with the second. Exit code 0: nothing has grown, nothing went wrong.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import anyio.lowlevel
import httpx
import trio

from outlast.http import reading
from outlast.http.engine import MAX_ORIGINS
from outlast.target import Origin
from tests.stress.actors import World
from tests.stress.chaos import Chaos
from tests.stress.load import PATIENT, at_rest, in_threads

ROUND = 15.0  # seconds of work between two looks
SETTLE = 10.0  # seconds for look-ups and children to end
BATCH, BATCHES = 40, 7  # requests whose cost is measured; the quickest batch counts
ONLY_WHILE_IN_USE = ("Answer", "Attempt", "CallContext", "Lookup", "Ticket", "RawConnection")


# By which factor, and how much more besides, the last third may have of what the second has.
ALWAYS = (("descriptors", 1.0, 2.0), ("threads", 1.0, 1.0), ("objects", 1.02, 200.0))
BOUNDS = (*ALWAYS, ("rss", 1.05, 3.0), ("blocks", 1.01, 2000.0), ("cost", 1.25, 0.05))
FEW = 5  # looks in a third; below it memory and cost have not settled yet


@dataclass(frozen=True, slots=True)
class Look:
    """What there was when everything was at rest. `cost`: CPU of a request in ms."""

    seconds: float
    calls: int
    busy_cpu: float  # ms of CPU per call in the round
    rss: float  # MiB
    blocks: int  # of memory that Python holds
    objects: int  # of this library
    descriptors: int  # without those of idle connections
    threads: int
    cost: float

    def line(self) -> str:
        return (
            f"{self.seconds:7.0f} {self.calls:8d} {self.busy_cpu:8.2f} {self.rss:8.1f} "
            f"{self.blocks:9d} {self.objects:8d} {self.descriptors:6d} {self.threads:8d} "
            f"{self.cost:8.3f}"
        )


HEAD = (
    "seconds    calls  ms/call  RSS MiB    blocks  objects    fds  threads  probe ms\n" + "-" * 79
)


class Churn:
    """One run."""

    def __init__(self, chaos: Chaos, seed: int) -> None:
        self.world = World(chaos, seed)
        self.begun = time.monotonic()
        self.calls = 0
        self.looks: list[Look] = []
        self.faults: list[str] = []
        trio.run(anyio.lowlevel.checkpoint)  # imports what it needs; no fork may come between
        self._fill()

    def _fill(self) -> None:
        """What has a bound is full: the crawler's targets, and those before them."""
        engine, port = self.world.crawler._engine, self.world.chaos.ports[0]
        met = 0
        while met < 2 * MAX_ORIGINS or len(engine._services) < MAX_ORIGINS:
            url = httpx.URL(self.world.new_origin())
            engine.service(Origin("http", url.host, port))
            reading._route("http", url.raw_host, port, None)
            met += 1

    def round(self, seconds: float) -> None:
        """Work for so long, then look."""
        world = self.world
        world.stop.clear()
        timer = threading.Timer(seconds, world.stop.set)
        timer.start()
        cpu = time.process_time()
        in_threads(world.actors(), seconds + 60)
        cpu = time.process_time() - cpu
        timer.cancel()
        timer.join()
        self.look(cpu)

    def look(self, cpu: float) -> None:
        world = self.world
        for number in range(len(world.chaos.ports)):
            world.chaos.tell(f"open {number}")
        seen = world.chaos.tell("mood calm")
        self.faults += world.tally.wrong
        self.faults += [f"{name}: {n}" for name, n in seen.items() if _wrong(name)]
        self._settle()
        self._fill()
        for transport in world.transports:
            self.faults += at_rest(transport)
        calls = sum(world.tally.counts.values())
        done, self.calls = calls - self.calls, calls
        cost = self._cost()
        gc.collect()
        idle = sum(each._engine.pool.counts()["idle"] for each in world.transports)
        objects = census()
        self.faults += leaks(objects, idle)
        self.looks.append(
            Look(
                seconds=time.monotonic() - self.begun,
                calls=calls,
                busy_cpu=1e3 * cpu / max(1, done),
                rss=_rss(),
                blocks=sys.getallocatedblocks(),
                objects=sum(objects.values()),
                descriptors=len(os.listdir("/proc/self/fd")) - idle,
                threads=threading.active_count(),
                cost=cost,
            )
        )

    def _settle(self) -> None:
        """Look-ups that nobody waits for any more end by themselves."""
        until = time.monotonic() + SETTLE
        for thread in threading.enumerate():
            if thread.name == "outlast-lookup":
                thread.join(max(0.0, until - time.monotonic()))

    def _cost(self) -> float:
        """CPU of a request in ms, on the transport that has seen most."""
        client = httpx.Client(transport=self.world.sync[0], timeout=PATIENT)
        url = self.world.chaos.urls[0] + "/probe"
        batches = []
        for _ in range(BATCHES):
            cpu = time.thread_time()
            for _ in range(BATCH):
                client.get(url).raise_for_status()
            batches.append(1e3 * (time.thread_time() - cpu) / BATCH)
        return min(batches)

    def grown(self) -> Iterator[str]:
        """What the last looks have more of than those in the middle."""
        third = len(self.looks) // 3
        if not third:
            return
        middle, last = self.looks[third : 2 * third], self.looks[-third:]
        for name, factor, slack in BOUNDS if third >= FEW else ALWAYS:
            before, after = (
                statistics.median(getattr(each, name) for each in part) for part in (middle, last)
            )
            if after > factor * before + slack:
                yield f"{name} has grown: {before:g} in the middle, {after:g} at the end"

    def close(self) -> None:
        for transport in self.world.transports:
            transport._engine.close()


def census() -> Counter[str]:
    """How many objects of this library there are, by class."""
    found: Counter[str] = Counter()
    for thing in gc.get_objects():
        kind = type(thing)
        if kind.__module__.startswith("outlast."):
            found[kind.__name__] += 1
    return found


def leaks(objects: Counter[str], idle: int) -> Iterator[str]:
    """Objects that nobody can have any use for."""
    for name in ("Connection", "KernelStream"):
        if objects[name] > idle:
            yield f"{objects[name]} of {name}, and {idle} idle connections"
    for name in ONLY_WHILE_IN_USE:
        if objects[name]:
            yield f"{objects[name]} of {name}, and nobody calls"


def _wrong(name: str) -> bool:
    return name == "twice POST" or name.startswith("protocol error")


def _rss() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def churn(seconds: float, seed: int, round_seconds: float = ROUND) -> list[str]:
    """Churn for so long; what went wrong, or has grown."""
    say(f"churn for {seconds:g} s, seed {seed}")
    say(HEAD)
    with Chaos(seed) as chaos:
        run = Churn(chaos, seed)
        run.look(0.0)
        run.looks.clear()
        while time.monotonic() - run.begun < seconds and not run.faults:
            run.round(round_seconds)
            say(run.looks[-1].line())
        run.close()
        faults = [*run.faults, *run.grown()]
        say("")
        say(f"forked processes: {run.world.forks}; servers' tricks: {tricks(chaos)}")
        say(f"outcomes: {dict(run.world.tally.counts.most_common())}")
    return faults


def tricks(chaos: Chaos) -> dict[str, int]:
    """What the servers have done to us."""
    return dict(Counter(chaos.tell("counts")).most_common())


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    given = sys.argv[1:]
    seconds = float(given[0]) if given else 600.0
    seed = int(given[1]) if len(given) > 1 else time.time_ns() % (1 << 30)
    round_seconds = float(given[2]) if len(given) > 2 else ROUND
    faults = churn(seconds, seed, round_seconds)
    for fault in faults:
        say(f"FAULT: {fault}")
    say("nothing has grown, nothing went wrong" if not faults else f"{len(faults)} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
