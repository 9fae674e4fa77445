"""What the demo has seen: every request of every client, and what befell the cluster meanwhile.

Times are seconds since the run began. A series is written by the thread that runs the load and may
be read by any other. Refuses nothing; it is a record.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import Enum

__all__ = ["SLOW", "Happening", "Outcome", "Run", "Sample", "Series", "Story"]

# Above it a person notices the wait (Nielsen, Usability Engineering, 1993, chapter 5).
SLOW = 0.1


class Outcome(Enum):
    """How a request ended."""

    OK = "ok"
    ERROR = "error"
    HUNG = "hung"  # still without an answer when the run was over


@dataclass(frozen=True, slots=True)
class Sample:
    """One request: when it was sent, and how long its caller has waited."""

    begun: float
    took: float
    outcome: Outcome = Outcome.OK
    error: str = ""  # the kind, such as "ConnectTimeout"

    @property
    def ended(self) -> float:
        """When its caller had an answer or an error."""
        return self.begun + self.took

    @property
    def slow(self) -> bool:
        """Whether its caller has waited for more than 100 ms."""
        return self.took > SLOW


@dataclass(frozen=True, slots=True)
class Story:
    """One request told at length: the time line of its attempts, or what its error said."""

    sample: Sample
    text: str


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that befell the cluster."""

    at: float
    what: str


class Series:
    """The requests of one client."""

    def __init__(self, library: str, connections: str) -> None:
        self.library = library  # "httpx" or "outlast"
        self.connections = connections  # "pooled" or "new"
        self.samples: list[Sample] = []
        self.slowest: Story | None = None
        self.first_error: Story | None = None
        self._numbers = itertools.count()
        self._waiting: dict[int, float] = {}

    @property
    def name(self) -> str:
        """The client in two words."""
        return f"{self.library}, {self.connections}"

    @property
    def waiting(self) -> int:
        """How many requests are under way."""
        return len(self._waiting)

    def begin(self, now: float) -> int:
        """A request is sent; returns its number for `end`."""
        number = next(self._numbers)
        self._waiting[number] = now
        return number

    def end(self, number: int, now: float, told: object, error: str = "") -> None:
        """Its answer, or its error, has come. `told` as text tells of it at length.

        It is made text only where it is kept, since that takes the processor from the clients.
        """
        begun = self._waiting.pop(number)
        outcome = Outcome.ERROR if error else Outcome.OK
        sample = Sample(begun, now - begun, outcome, error)
        self.samples.append(sample)
        if self.slowest is None or sample.took > self.slowest.sample.took:
            self.slowest = Story(sample, str(told))
        if error and self.first_error is None:
            self.first_error = Story(sample, str(told))

    def hang_up(self, now: float) -> None:
        """The run is over: what has no answer by now is called hung."""
        for begun in self._waiting.values():
            self.samples.append(Sample(begun, now - begun, Outcome.HUNG))
        self._waiting.clear()


@dataclass(frozen=True, slots=True)
class Run:
    """A whole run: its length in seconds, its clients, its events, and where it took place."""

    seconds: float
    series: tuple[Series, ...]
    happenings: tuple[Happening, ...]
    where: str
    load: str

    @property
    def length(self) -> float:
        """Seconds until the last answer or error came, which may be after the load's end."""
        return max([self.seconds, *(one.ended for s in self.series for one in s.samples)])
