"""Threads of the simulation: real ones, of which one runs at a time, in a fixed order.

Refuses to be daemons: a run that ends with threads still there ends them, see `Turns.end`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from outlast.net.seam import WAKE, Wait
from outlast.testing.simnet.stall import SimOver, SimStalled

if TYPE_CHECKING:
    from outlast.testing.simnet.simulation import Simulation

__all__ = ["SimThread"]

T = TypeVar("T")


class SimThread(Generic[T]):
    """A thread that works in virtual time. Made by `SimNet.thread`."""

    def __init__(self, simulation: Simulation, work: Callable[[], T], name: str) -> None:
        self.name = name
        self.error: BaseException | None = None
        self.asked = False  # somebody has waited for it
        self._simulation = simulation
        self._results: list[T] = []
        self._done = simulation.waiter()
        simulation.turns.launch(lambda: self._live(work), name)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._done.woken

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, at most `timeout` seconds of virtual time; whether it has."""
        simulation = self._simulation
        until = float("inf") if timeout is None else simulation.now() + timeout
        simulation.wait(Wait(((self._done, WAKE),), until))
        return self.done

    def result(self) -> T:
        """Wait until it has ended; what it returned. Raises what it raised."""
        self.join()
        self.asked = True
        if self.error is not None:
            raise self.error
        return self._results[0]

    def _live(self, work: Callable[[], T]) -> None:
        try:
            self._results.append(work())
        except (SimOver, SimStalled):
            raise
        except BaseException as error:
            self.error = error
            if not isinstance(error, (Exception, SystemExit)):
                raise
        finally:
            self._done.wake()
