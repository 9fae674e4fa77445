"""What has to be true of every incident, whatever befalls the cluster.

1. A request that is not safe arrives at no pod twice: neither one that is not idempotent, nor one
   whose body cannot be produced again.
2. Every call ends by its deadline, or within the sum of what its timeouts allow.
3. Nothing is left: places, sockets, waits, tasks; in the end no connection in the kernel either.
4. In a calm incident every safe call succeeds, within `SOON`; one that is not safe fails only if it
   was sent; and if nothing befalls the cluster none fails at all.
5. Attempts stay within `attempts` per call and the retry budget per target; dials within what the
   re-dial bucket holds, and no race has more open than it may.
6. Threads, asyncio and trio decide the same; see `test_incidents`.
7. Nobody gets another's answer, a body that is not all there, or an answer of nobody.
8. No server has reason to complain, and no caller meets an error that httpx does not document, or
   one that does not say how far its request got.

What 4 leaves out: an answer that breaks off once it has begun; it is never asked for again. And a
machine that has acknowledged a request and dies before it answers costs `DYING` more. And a call
from under which its own caller pulled the connections until one attempt was left, or none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from outlast.core.budget import WINDOW
from outlast.core.classify import Progress
from tests.fire.dials import dials_open, dials_paid
from tests.fire.players import PIECES, Played, Told

__all__ = ["SOON", "judge"]

STEP = 5e-6  # seconds; the clock of the simulation counts microseconds
SOON = 3.0  # seconds that a safe call may take in a calm incident (as FR-01 asks for)
DYING = 4.0  # seconds until a peer that had the request is suspect
RATIO, RESERVE = 0.2, 3 * WINDOW  # of the retry budget


def judge(played: Played) -> list[str]:
    """Every breach, in words; empty if all is well."""
    checks = (_once, _in_time, _saved, _attempts, _budget, dials_open, dials_paid, _bodies, _words)
    found = [breach for check in checks for breach in check(played)]
    found += [f"3: left behind: {what}" for what in played.left]
    found += [f"8: {what}" for what in (*played.crashed, *played.cluster.books.complaints)]
    return found


def _once(played: Played) -> Iterator[str]:
    applied = played.cluster.applied
    for call in played.calls:
        times = applied[call.name]
        if times > 1 and not call.ask.safe:
            yield f"1: {call.name} arrived {times} times: {call}"
        if times == 0 and isinstance(call.result, int):
            yield f"7: {call.name} was answered and has arrived nowhere: {call}"


# -- time --------------------------------------------------------------------------------------


def _in_time(played: Played) -> Iterator[str]:
    for call in played.calls:
        took, limit = call.ended - call.begun, _limit(call)
        if took > limit + STEP:
            yield f"2: {call.name} took {took:.6f} s of {limit:g} s: {call}"


def _limit(call: Told) -> float:
    """Seconds that a call may take. While the caller's own body pauses nobody can end it."""
    ask = call.ask
    own = PIECES * ask.gap if ask.body == "stream" else 0.0
    limits = [math.inf if ask.deadline is None else ask.deadline + ask.gap]
    if ask.cancel is not None:
        limits.append(ask.cancel)
    parts = (ask.connect, ask.pool, ask.read, ask.write)
    if None not in parts:
        connect, pool, read, write = (part or 0.0 for part in parts)
        pieces = 50_000 // 1448  # each may come within the read timeout; most come together
        waits = 0.25 if "retry_after" not in ask.query else 10.0
        once = pieces * read if "size" in ask.query else 2 * read
        tries = ask.attempts * (write * (1 + PIECES) + once + waits)
        limits.append(connect + pool + tries + own)
    return min(limits)


# -- calm incidents ----------------------------------------------------------------------------


def _saved(played: Played) -> Iterator[str]:
    if not played.incident.calm:
        return
    for call in played.calls:
        took = call.ended - call.begun
        if not call.ask.safe:
            if call.result != 200 and not _may_fail(played, call):
                yield f"4: {call.name} has failed: {call}"
            continue
        if _begun(call):
            continue
        if call.result != 200:
            if _pulled(call) < call.ask.attempts - 1:
                yield f"4: {call.name} has failed: {call}"
        elif took > SOON + DYING * _dying(call):
            yield f"4: {call.name} took {took:.3f} s: {call}"


def _may_fail(played: Played, call: Told) -> bool:
    """Whether one that is not safe may fail: it was sent to somebody who was struck; or a server
    was leaving, and has said in the middle of a streamed body that it did not act on it."""
    if call.ask.body == "stream" and "GOAWAY" in call.said:
        return True
    sent = call.report is not None and call.report.progress > Progress.NOT_SENT
    return sent and bool(played.incident.blows)


def _begun(call: Told) -> bool:
    """Whether it has failed in the middle of an answer."""
    report = call.report
    return report is not None and report.progress >= Progress.RESPONSE_BEGUN and bool(call.said)


def _pulled(call: Told) -> int:
    """How many of its attempts were ended by `drop(abort=True)`: what the caller asked for."""
    ended = {e.attempt for e in call.report or () if "dropped by the caller" in e.what}
    return len(ended)


def _dying(call: Told) -> int:
    """How many of its attempts were acknowledged by machines that died then."""
    return sum("probes" in event.what for event in call.report or ())


# -- budgets -----------------------------------------------------------------------------------


def _attempts(played: Played) -> Iterator[str]:
    applied = played.cluster.applied
    for call in played.calls:
        if applied[call.name] > call.ask.attempts:
            yield f"5: {call.name} arrived {applied[call.name]} times: {call}"
        sent = {e.attempt for e in call.report or () if e.progress is not Progress.NOT_SENT}
        if len(sent) > call.ask.attempts:
            yield f"5: {call.name} was sent {len(sent)} times: {call}"


def _budget(played: Played) -> Iterator[str]:
    """In whole seconds, as the budget counts."""
    calls: Counter[int] = Counter()
    repeats: Counter[int] = Counter()
    started = played.cluster.net.now() - played.cluster.net.elapsed()
    for call in played.calls:
        calls[int(started + call.begun)] += 1
        for event in call.report or ():
            if ": repeated" in event.what and "nothing was sent" not in event.what:
                repeats[int(started + call.begun + event.at)] += 1
    for second in repeats:
        window = range(second - WINDOW + 1, second + 1)
        spent, allowed = sum(repeats[s] for s in window), sum(calls[s] for s in window)
        if spent > RATIO * allowed + RESERVE:
            yield f"5: {spent} repeats for {allowed} calls in the {WINDOW} s to second {second}"


# -- answers -----------------------------------------------------------------------------------


def _bodies(played: Played) -> Iterator[str]:
    for call in played.calls:
        body, ask = call.body, call.ask
        if body is None:
            continue
        size = ask.size // PIECES * PIECES if ask.body == "stream" else ask.size
        if body.get("id", call.name) != call.name:
            yield f"7: {call.name} got the answer of {body['id']}: {call}"
        if body.get("length", size) != size:
            yield f"7: of {call.name} came {body['length']} bytes instead of {size}: {call}"


# -- words -------------------------------------------------------------------------------------

OUTCOMES = {
    Progress.NOT_SENT: ("nothing was sent", "nothing sent", "was not processed"),
    Progress.SENT: ("sent, no response", "the request was sent", "part of the request was sent"),
    Progress.RESPONSE_BEGUN: ("response begun",),
    Progress.BODY: ("body under way",),
}


def _words(played: Played) -> Iterator[str]:
    for call in played.calls:
        if not call.said or call.report is None:
            continue
        if not any(words in call.said for words in OUTCOMES[call.report.progress]):
            yield f"8: {call.name} does not say that its request was {call.report.progress}: {call}"
