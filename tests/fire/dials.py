"""What an incident's dials may cost: how many a race has open, and what the re-dial bucket pays.

Reckoned from what the simulated network has seen (who dialled, when, how many were unanswered) and
from the calls' reports (which attempt dialled from which port, and which dial won), with figures of
its own: those of docs/how-it-decides.md, "Budgets". What cannot be told, as the dials of a call
that was cancelled and has no report, counts in the library's favour.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from outlast.net.address import Address
from tests.fire.cluster import Dial
from tests.fire.players import Played, Told

__all__ = ["dials_open", "dials_paid"]

OPEN = 4  # unanswered dials of a race, where fewer addresses keep one each
BASE, MOST, REFILL, WINDOW = 50, 1000, 10.0, 10.0  # of the bucket: tokens, a second, seconds
APART = 1.0  # seconds from one dial to the next that nobody has to pay for
ROUNDING = 1e-6


def dials_open(played: Played) -> Iterator[str]:
    """A worker has one race at a time, and a dial is open until it is answered or given up."""
    ways = played.cluster.ways
    most = max(OPEN, ways + 1 if ways > 1 else 0)
    for dial in played.cluster.net.dials:
        if dial.open > most:
            yield f"5: race: {dial.worker} has {dial.open} unanswered dials at {dial.elapsed:.6f}"


def dials_paid(played: Played) -> Iterator[str]:
    """Every dial of a race but the first costs one token; a race that wins gets all back and one
    more. What is tried without one is each address once, or comes a second after the last."""
    races = list(_races(played))
    happened = [(at, race, place) for race in races for place, (at, _) in enumerate(race.dials)]
    happened += [(race.won, race, -1) for race in races if race.won is not None]
    bucket = _Bucket(spare=sum(call.report is None for call in played.calls))
    for at, race, place in sorted(happened, key=lambda one: (one[0], one[2] >= 0)):
        bucket.until(at)
        if place < 0:
            bucket.win(race.paid)
        elif place and at != race.won and bucket.pay():
            race.paid += 1
        elif place and at != race.won and not race.may_wait_for_nothing(place):
            yield f"5: bucket: nothing pays for dial {place + 1} of {race.name}"


@dataclass
class _Race:
    """The dials of one attempt, each by its time and address, and when one of them has won."""

    name: str
    dials: list[tuple[float, Address]] = field(default_factory=list)
    won: float | None = None
    paid: int = 0

    def may_wait_for_nothing(self, place: int) -> bool:
        """Whether a dial may start without a token."""
        at, address = self.dials[place]
        known = {where for _, where in self.dials[:place]}
        return address not in known or at >= self.dials[place - 1][0] + APART - ROUNDING


class _Bucket:
    """What of it can be known. What happens in the same instant has no order: it holds whatever
    is given back in an instant from the first moment of that."""

    def __init__(self, *, spare: int) -> None:
        """`spare`: races that nothing tells of, and that may have been won."""
        self._level = float(BASE + spare)
        self._spare = spare
        self._at = 0.0
        self._wins: deque[float] = deque()

    def until(self, at: float) -> None:
        """Time passes."""
        if at > self._at:
            while self._wins and self._wins[0] <= self._at - WINDOW:
                self._wins.popleft()
            most = min(MOST, BASE + self._spare + len(self._wins))
            self._level = min(most, self._level + REFILL * (at - self._at))
            self._at = at

    def win(self, paid: int) -> None:
        """A race is won that had paid so much."""
        self._level += paid + 1
        self._wins.append(self._at)

    def pay(self) -> bool:
        """Pay for one dial; False if there is nothing left."""
        if self._level < 1 - ROUNDING:
            return False
        self._level -= 1
        return True


def _races(played: Played) -> Iterator[_Race]:
    dials: dict[str, list[Dial]] = {}
    for dial in played.cluster.net.dials:
        dials.setdefault(dial.worker, []).append(dial)
    for call in played.calls:
        if call.report is not None:
            mine = [each for each in dials.get(call.worker, ()) if call.has(each.elapsed)]
            yield from _races_of(call, mine)


def _races_of(call: Told, dials: list[Dial]) -> Iterable[_Race]:
    races: dict[int, _Race] = {}
    attempts: dict[int, int] = {}
    won: dict[int, float] = {}
    assert call.report is not None
    for event in call.report.events:
        if event.phase in ("connect", "handshake"):
            attempts[event.local_port] = event.attempt
        if event.what.startswith("connected in"):
            won[event.attempt] = call.report.started + event.at
    for dial in dials:
        number = attempts.get(dial.port)
        if number is not None:
            race = races.setdefault(number, _Race(f"{call.name}#{number}", won=won.get(number)))
            race.dials.append((dial.at, dial.address))
    return races.values()
