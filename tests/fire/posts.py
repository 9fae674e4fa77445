"""Random incidents in which every request is a POST without a key: nothing may be sent again.

The cluster and what befalls it are those of `incident.draw`. In a calm incident nobody sets a read
or write timeout, so that only the library ends a request whose machine has died; in the others,
where programs hang too, the caller's own timeouts are there.

python -m tests.fire.posts                 ten thousand of them; a few minutes
python -m tests.fire.posts --count 500 --from 7000
python -m tests.fire.posts --seed 17       this one, with all that was found
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from outlast.core.classify import Progress
from outlast.testing.pod_http import behaviour_of
from tests.fire.incident import Ask, Incident, draw
from tests.fire.invariants import judge
from tests.fire.players import PIECES, Played, Told, play

__all__ = ["LONGEST", "Figures", "draw_posts", "judge_posts"]

LONGEST = 12.0  # seconds that a POST may hang once it is sent, besides its service time
CONNECT, POOL = 5.0, 10.0  # seconds
SLACK = 0.5  # seconds: probes before the request, and the ends of timers
TOGETHER = 100  # incidents between two lines of progress
MENDED = re.compile(r"(: heal|: power on|: thaw|: start|: delay 0 s|has room)$|^joined").search


def draw_posts(seed: int) -> Incident:
    """The incident of a seed."""
    incident = draw(seed)
    asks = tuple(
        tuple(_post(ask, calm=incident.calm) for ask in worker) for worker in incident.asks
    )
    return dataclasses.replace(incident, asks=asks)


def _post(ask: Ask, *, calm: bool) -> Ask:
    body, size = (ask.body, ask.size) if ask.body else ("bytes", 3)
    ask = dataclasses.replace(
        ask, method="POST", key=False, body=body, size=size, connect=CONNECT, pool=POOL
    )
    if calm:
        return dataclasses.replace(ask, read=None, write=None, deadline=None, first_byte=None)
    return dataclasses.replace(ask, read=ask.read or 5.0, write=ask.write or 5.0)


# -- what has to be true -----------------------------------------------------------------------


@dataclass
class Figures:
    """What many incidents have come to."""

    incidents: int = 0
    posts: int = 0
    answered: int = 0
    twice: int = 0
    longest: float = 0.0  # seconds, see `hung`
    ends: Counter[str] = field(default_factory=Counter)

    def add(self, played: Played) -> None:
        """One more."""
        self.incidents += 1
        applied = played.cluster.applied
        for call in played.calls:
            self.posts += 1
            self.answered += isinstance(call.result, int)
            self.twice += applied[call.name] > 1
            self.longest = max(self.longest, hung(call, played))
            if call.said and call.report is not None:
                self.ends[str(call.report.progress)] += 1

    def __str__(self) -> str:
        told = ", ".join(f"{number} {what}" for what, number in self.ends.most_common())
        return (
            f"{self.incidents} incidents, {self.posts} POSTs: {self.answered} answered, "
            f"{self.twice} applied twice; errors that say: {told}; the longest hung "
            f"{self.longest:.1f} s"
        )


def judge_posts(played: Played) -> list[str]:
    """Every breach: those of all incidents, and those of a POST."""
    return [*judge(played), *_untrue(played), *_hanging(played)]


def _untrue(played: Played) -> Iterator[str]:
    """Who says that nothing was sent has to be right."""
    applied = played.cluster.applied
    for call in played.calls:
        unsent = call.report is not None and call.report.progress is Progress.NOT_SENT
        if call.said and unsent and applied[call.name]:
            yield f"1: {call.name} has arrived, and its error says that nothing was sent: {call}"


def _hanging(played: Played) -> Iterator[str]:
    for call in played.calls:
        waited = sent_at(call) - call.begun
        if waited > CONNECT + POOL + SLACK:
            yield f"2: {call.name} waited {waited:.3f} s for a connection: {call}"
        if (seconds := hung(call, played)) > LONGEST:
            yield f"2: {call.name} hung {seconds:.3f} s: {call}"


def sent_at(call: Told) -> float:
    """When its last attempt had a connection; its end, if none ever had."""
    ready = [event.at for event in call.report or () if event.what in ("new", "reused")]
    return call.begun + ready[-1] if ready else call.ended


def hung(call: Told, played: Played) -> float:
    """Seconds that it took once it could be sent, without what the server and the caller's own body
    need. Whoever comes back meanwhile acknowledges again, and sends an answer that was lost again
    in its own time: from then on it counts anew."""
    ask, sent = call.ask, sent_at(call)
    own = PIECES * ask.gap if ask.body == "stream" else 0.0
    back = [at for at, what in played.cluster.net.log if sent < at < call.ended and MENDED(what)]
    since = max(back, default=sent)
    return call.ended - since - behaviour_of(f"?{ask.query}").delay - own


# -- the command -------------------------------------------------------------------------------


def say(text: str) -> None:
    """A line for whoever waits."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """The exit status is 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fire.posts", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="incidents")
    parser.add_argument("--from", type=int, dest="first", default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one alone")
    given = parser.parse_args()
    first, count = (given.first, given.count) if given.seed is None else (given.seed, 1)
    figures, broken = Figures(), 0
    for seed in range(first, first + count):
        played = play(draw_posts(seed))
        figures.add(played)
        found = judge_posts(played)
        broken += bool(found)
        if found:
            say("\n".join((f"seed {seed}: python -m tests.fire.posts --seed {seed}", *found)))
        if (seed + 1 - first) % TOGETHER == 0:
            say(str(figures))
    say(str(figures))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
