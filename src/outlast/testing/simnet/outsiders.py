"""Threads that a simulation does not know: what they do takes real time, and no virtual one.

A worker thread that an event loop has given work, a plain thread that has not met the network yet:
while one of them is at work, virtual time must not jump over what it is about to say. Whether it
is can only be seen from its stack. Threads that were busy when the run began are somebody else's;
so are those of other simulations. Idle ones may belong to a pool, which may give them work.

Refuses to wait for longer than `patience`: whoever is at work then is named (`held`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator

from outlast.testing.simnet.stall import idle, place_of

__all__ = ["Outsiders", "discharge", "enlist"]

# Real seconds between two looks at threads that are not part of the simulation; and the time that
# one which was told something gets to begin with it.
SLICE = 0.0005
GLANCE = 0.0001
CALM = 20  # looks, when nothing else can happen, or for a thread that has just begun
LOOK_EVERY = 256  # waits between two looks at what other threads there are

_simulated: set[int] = set()  # threads of any simulation of this process, its watchdog too


def enlist(ident: int) -> None:
    """A thread takes part in some simulation: no other has to wait for it."""
    _simulated.add(ident)


def discharge(ident: int) -> None:
    """It does so no more."""
    _simulated.discard(ident)


def _places(known: Collection[int], ours: Collection[int]) -> dict[int, tuple[bool, int, int]]:
    """Threads besides `known`, and those of other simulations than `ours`: whether they are idle,
    and a mark that changes when they move."""
    spared = _simulated.difference(ours)
    here = threading.get_ident()
    return {
        ident: (idle(frame), id(frame), frame.f_lasti)
        for ident, frame in sys._current_frames().items()
        if ident != here and ident not in known and ident not in spared
    }


class Outsiders:
    """The other threads of the process, as one simulation sees them."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._known: set[int] = set()
        self._threads = 0
        self._runs = 0  # how often somebody of the simulation has run
        self._looked = -1  # the last of these after which nobody outside was at work
        self._seen: dict[int, tuple[bool, int, int]] = {}
        self.held: list[int] = []  # threads that were at work when patience ended

    def begin(self) -> None:
        """A run begins in this thread."""
        frames = sys._current_frames()
        self._known = {ident for ident, frame in frames.items() if not idle(frame)}
        self._known |= _simulated
        # Some threads have a stack and no name here: `active_count` leaves them out.
        self._threads = sum(thread.ident in self._known for thread in threading.enumerate())
        self._seen = {}
        self.held = []

    def ran(self) -> None:
        """Somebody's program has run: it may have given other threads work."""
        self._runs += 1

    def may_work(self, parties: int, plain: int) -> bool:
        """Whether there may be any that work.

        One look after somebody has run is enough: the timeline itself gives them no work.
        """
        if self._looked == self._runs:
            return False
        ours = self._threads + parties - 1  # the first party is in both
        if plain or threading.active_count() > ours or not self._runs % LOOK_EVERY:
            return True
        self._looked = self._runs
        return False

    def names(self) -> str:
        """Of the threads that were at work too long."""
        return ", ".join(
            thread.name for thread in threading.enumerate() if thread.ident in self.held
        )

    def told(self) -> Iterator[str]:
        """Where they stand."""
        for thread in threading.enumerate():
            if thread.ident in self.held:
                yield f"{thread.name} stands at {place_of(thread.ident or 0)[1]}"

    def wait(
        self,
        inside: Collection[int],
        ours: Collection[int],
        heard: Callable[[float], bool],
        *,
        forever: bool,
    ) -> tuple[bool, bool]:
        """Wait while one of them works: whether one was heard, else whether one has moved.

        `heard` waits for so many seconds for somebody to say something.
        """
        known = self._known.union(inside)
        calm = moved = 0  # looks in a row at which nobody moved; looks at which somebody did
        for _ in range(int(self._patience / SLICE)):
            if heard(SLICE if calm or forever else GLANCE):
                return True, False
            places = _places(known, ours)
            still = places == self._seen and all(resting for resting, _, _ in places.values())
            calm = calm + 1 if still else 0
            moved += not still
            forever = forever or bool(places.keys() - self._seen.keys())
            self._seen = places
            if calm > (CALM if forever and places else 0):
                break
        else:
            self.held = [ident for ident, (resting, _, _) in self._seen.items() if not resting]
        self._looked = self._runs
        return False, bool(moved)
