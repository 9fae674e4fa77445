"""Looks at a run in real time: nobody may hold virtual time up, and a turn may not be lost.

Three things go wrong in real time only. A thread that has the turn computes, sleeps or waits for
something real for longer than `patience`: the run is given up, and the thread and its line are
named. Things happen without end at one instant (a handler that yields and yields, a sleep of a
nanosecond), so that virtual time does not pass over them: the same, more patiently. A thread that
has the turn waits for other threads (a join, a future), or has ended, because it is a plain thread
that knows of no turns: then another gets it.

Source: signal(7): a signal ends a system call of the main thread, and its handler may raise.
Refuses to interrupt a thread that a debugger looks at.
"""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from types import FrameType

from outlast.testing.simnet.stall import (
    SimStalled,
    debugged,
    frame_of,
    idle,
    place_of,
    within_a_loop,
)
from outlast.testing.simnet.turns import Party, Turns

__all__ = ["Watchdog"]

QUICK = 0.001  # seconds between two looks while plain threads take part
LOOKS = 16  # looks within the time of patience, else
CRAWL = 1000  # microseconds of virtual time that pass in any run,
PATIENCES = 10  # within so many times the patience: thousands may do something at one instant
SAMPLES = 30  # looks at a thread that moves, for the line that tells most
APART = 0.001  # real seconds between two of them


class Watchdog:
    """Watches one run from a thread of its own, between `start` and `stop`."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._bell = threading.Event()
        self._over = False
        self._thread = threading.Thread(
            target=self._watch, name="outlast-simnet-watch", daemon=True
        )
        self._handler: object = None
        self._seen: tuple[int, ...] = ()
        self._looked = 0.0
        self._still = 0.0  # real seconds in which nothing has happened,
        self._crawled = 0.0  # and in which virtual time has hardly moved
        self._crawls_from = 0

    def start(self) -> int:
        """Begin, before the run does; the thread's number."""
        self._turns.on_claim = self._bell.set
        if _signals():
            self._handler = signal.signal(signal.SIGURG, self._raise)
        self._thread.start()
        return self._thread.ident or 0

    def stop(self) -> None:
        """End, after the run has."""
        self._over = True
        self._bell.set()
        self._thread.join()
        if _signals() and self._handler is not None:
            signal.signal(signal.SIGURG, self._handler)  # type: ignore[arg-type]  # as it was given

    def _raise(self, _number: int, frame: FrameType | None) -> None:
        """In the main thread: the line that holds time up raises. In the middle of an event loop's
        own work an error would do harm: there it is told when the loop wants to rest."""
        if self._turns.failure is not None and not within_a_loop(frame):
            raise self._turns.failure.anew()

    def _watch(self) -> None:
        turns = self._turns
        while not self._over:
            self._bell.wait(QUICK if turns.plain else turns.patience / LOOKS)
            self._bell.clear()
            if turns.running and not self._over:
                if turns.plain:
                    self._move_turn()
                self._look()

    # -- a turn that is lost ---------------------------------------------------------------

    def _move_turn(self) -> None:
        """Take the turn from a thread that has ended or waits for others, if it is wanted."""
        turns = self._turns
        victim = turns.holder
        if victim is None or not self._gives_way(victim):
            return
        before = _mark(victim)
        with turns.lock:
            if turns.holder is not victim:
                return
            turns.holder = None  # from here on it has to ask
        other = None
        with turns.lock:
            if turns.unheld:
                other = turns.next_after(victim) if _mark(victim) == before else None
                turns.holder = other or victim
                victim.outside = other is not None
        if other is not None:
            turns.outsiders.ran()  # what the thread did last, others may have to hear of
            other.gate.release()

    @staticmethod
    def _gives_way(victim: Party) -> bool:
        return not victim.thread.is_alive() or idle(frame_of(victim.ident))

    # -- a run that is held up -------------------------------------------------------------

    def _look(self) -> None:
        turns, now = self._turns, time.monotonic()
        # However long the whole process was stopped, or the machine had no time for it.
        passed = min(now - self._looked, 2 * turns.patience / LOOKS)
        self._looked = now
        seen = (turns.timeline.now, turns.events, turns.passes, id(turns.holder))
        holder = turns.holder
        self._still = self._still + passed if holder is not None and seen == self._seen else 0.0
        self._seen = seen
        moved = abs(turns.timeline.now - self._crawls_from) >= CRAWL
        self._crawled = 0.0 if moved or holder is None else self._crawled + passed
        if moved:
            self._crawls_from = turns.timeline.now
        if holder is None or max(self._still, self._crawled / PATIENCES) < turns.patience:
            return
        # Only now: to walk the stack of a thread that runs is not safe in every Python (3.11).
        if debugged(frame_of(holder.ident)):
            self._still = self._crawled = 0.0
        elif self._still >= turns.patience:
            self._give_up(holder, f"in real time, for {turns.patience:g} s")
        else:
            self._give_up(holder, f"without end, for {PATIENCES * turns.patience:g} s")

    def _give_up(self, victim: Party, how: str) -> None:
        turns = self._turns
        self._still = self._crawled = 0.0
        first = turns.first
        if first is None:
            return
        if turns.failure is None:
            why = f"{victim.name} is busy, asleep or waiting {how}, and virtual time with it"
            turns.failure = SimStalled(turns.told(why, {victim: _where(victim)}))
        if victim is not first:
            victim.ending = True
            with turns.lock:
                turns.holder = first
            if first.parked:
                first.woken = True
                first.gate.release()
                return
        _interrupt(first)


def _where(party: Party) -> str:
    """Where a thread stands: of several looks the one that shows the most of the program's own
    lines. An event loop's thread is in the loop's own most of the time."""
    deepest, place = place_of(party.ident)
    for _ in range(SAMPLES):
        time.sleep(APART)
        depth, other = place_of(party.ident)
        if depth > deepest:
            deepest, place = depth, other
    return place


def _mark(party: Party) -> tuple[int, int]:
    """Changes when a thread moves."""
    frame = frame_of(party.ident)
    return (0, 0) if frame is None else (id(frame), frame.f_lasti)


def _signals() -> bool:
    main = threading.current_thread() is threading.main_thread()
    return main and hasattr(signal, "SIGURG") and hasattr(signal, "pthread_kill")


def _interrupt(party: Party) -> None:
    """Have SimStalled raised where the thread stands; once it is back in Python, where signals
    do not reach it."""
    if party.thread is threading.main_thread() and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(party.ident, signal.SIGURG)
    else:
        raised = ctypes.py_object(SimStalled)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(party.ident), raised)
