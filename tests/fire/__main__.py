"""Plays incidents from the command line.

python -m tests.fire                        new incidents for a minute
python -m tests.fire --seconds 600          for ten
python -m tests.fire --seed 17              this one, with everything that happened
python -m tests.fire --digests 40           the first 40 on every backend, each as a digest of its
                                            transcript: the same on every Python
python -m tests.fire "Incident(seed=17, asks=((Ask(),),))"    one as a failure has printed it
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import sys
import time

from tests.fire.incident import Incident, draw, read
from tests.fire.invariants import judge
from tests.fire.players import play
from tests.fire.report import account, breaches, everywhere

EVERY = 5.0  # seconds between two lines of progress


def say(text: str) -> None:
    """A line for whoever waits."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """The exit status is 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fire", description=__doc__)
    parser.add_argument("incident", nargs="?", help="an expression, as a failure has printed it")
    parser.add_argument("--seed", type=int, help="play the incident of this seed")
    parser.add_argument("--seconds", type=float, default=60.0, help="of real time, for new ones")
    parser.add_argument("--from", type=int, dest="first", help="the first seed (else the clock's)")
    parser.add_argument("--digests", type=int, metavar="N", help="digests of N transcripts")
    given = parser.parse_args()
    if given.digests is not None:
        return digests(given.digests)
    if given.incident is not None or given.seed is not None:
        return replay(draw(given.seed) if given.incident is None else read(given.incident))
    return fuzz(given.seconds, int(time.time()) if given.first is None else given.first)


def replay(incident: Incident) -> int:
    """One incident, with its transcript."""
    played = play(incident, traced=True)
    found = judge(played)
    say(played.cluster.net.transcript.text())
    for call in played.calls:
        say(str(call))
    say("\n".join(found) or "nothing amiss")
    return bool(found)


def digests(number: int) -> int:
    """What the first incidents are on every backend. Without TLS, whose keys are not the seed's."""
    for incident in map(draw, range(number)):
        if incident.place.serves == "tls":
            continue
        for backend, one in everywhere(incident).items():
            text = play(one, traced=True).cluster.net.transcript.text()
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            say(f"{incident.seed:4} {backend:8} {len(text):9} {digest}")
    return 0


def fuzz(seconds: float, first: int) -> int:
    """New incidents, one after the other, until the time is over or something is found."""
    say(f"seeds from {first}; again: python -m tests.fire --from {first}")
    begun = told = time.monotonic()
    calls = 0
    for seed in itertools.count(first):
        now = time.monotonic()
        if now - begun >= seconds or now - told >= EVERY:
            told = now
            say(f"{now - begun:6.0f} s  {seed - first:6} incidents  {calls:8} calls")
        if now - begun >= seconds:
            return 0
        incident = draw(seed)
        found, made = breaches(incident)
        calls += made
        if found:
            say(account(incident, found))
            return 1
    raise AssertionError("there is always another seed")


if __name__ == "__main__":
    sys.exit(main())
