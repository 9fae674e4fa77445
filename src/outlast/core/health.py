"""Whether one endpoint is well: what counts against it, when it is out, how it comes back.

Faults are counted apart by kind, in a row and over a window. A successful connect takes back what
connects have said, and never what requests have: a program may accept and never answer. An answer
takes back both; a bad one too, as far as silence goes.

Out means last, not gone (DESIGN section 6). Two steps lead there:

- *Aside*: one failed connect, one suspect connection or one overdue response, and the endpoint is
  last for one `base`, without a word to anybody: others are there to be asked first, and when it
  is the only one nothing changes. The first sign of life ends it.
- *Ejected*: by the rules of `HealthPlan`, for the time that `core.time_out` tells. Then one trial,
  one at a time: success returns the endpoint, with slow start; failure ejects it for longer.

What comes before the time is up counts too: a good answer refutes evidence of death at once, and
`good_answers` in a row refute evidence from answers, which only arrive because panic or the want
of others goes on asking. Then there is no slow start: the endpoint was carrying its load all the
time, and taking that away would throw it on others. What an active check has ended only a check
begins again (HAProxy); its success ends any ejection at once (Envoy).

Refuses to know of other endpoints: panic, order and shares are the balancer's. Not thread-safe.
"""

from __future__ import annotations

import math
from random import Random

from outlast.core.budget import WindowCount
from outlast.core.health_plan import (
    Ejected,
    Evidence,
    Fault,
    HealthPlan,
    Returned,
    Rule,
    Standing,
    rules,
)
from outlast.core.time_out import Ladder, Shadow, spread

__all__ = [
    "Ejected",
    "Evidence",
    "Fault",
    "Health",
    "HealthPlan",
    "Returned",
    "Rule",
    "Standing",
    "rules",
]

# Which row a fault lengthens, and the figure that ends it.
_ROWS = {
    Fault.CONNECT: (Rule.CONNECT_FAILURES, "connect_failures"),
    Fault.SILENT: (Rule.CONNECT_FAILURES, "connect_failures"),
    Fault.SUSPECT: (Rule.SUSPECT, "suspicions"),
    Fault.FIRST_BYTE: (Rule.FIRST_BYTE, "first_byte_timeouts"),
    Fault.RESET: (Rule.RESETS, "resets"),
    Fault.GATEWAY: (Rule.GATEWAY_ERRORS, "gateway_errors"),
}
_ANSWERED = frozenset({Fault.GATEWAY, Fault.ERROR, Fault.SLOW})
# A reset is no evidence of death: a living kernel has sent it.
_DEADLY = frozenset({Fault.CONNECT, Fault.SILENT, Fault.SUSPECT, Fault.FIRST_BYTE})
# One of them is enough to be asked last. An unanswered dial was perhaps only slower than another.
_ASIDE = _DEADLY - {Fault.SILENT}
# Ended requests. A dial is none: a race makes many for one request, and a virtual address with one
# dead backend of two would be ejected for its failed half. A suspect request has not ended.
_REQUESTS = frozenset({Fault.RESET, Fault.FIRST_BYTE, Fault.GATEWAY, Fault.ERROR})
_BY_CONNECT = frozenset({Rule.CONNECT_FAILURES, Rule.SUSPECT, Rule.NODE})  # a connect refutes these
_BY_ANSWER = _BY_CONNECT | {Rule.FIRST_BYTE}  # one answer these
_BY_CONNECT_CHECK = _BY_CONNECT | {Rule.CHECK}
_BY_CHECK = frozenset(Rule)


class Health:
    """One endpoint's health. Times are seconds of one clock that never goes back.

    To be read: `standing`; `evidence`, `rule` and `why` while it is not IN; `until`, when its
    trial is due; `last_success`, the last good answer; `suspect`, whether no connection to it is
    to be trusted unasked; `ejections`, how many there were; `full_at`, when slow start ends.
    Each of them may change with each call, also where that returns None.
    """

    __slots__ = (
        *("_aside", "_clean", "_faults", "_good", "_ladder", "_requests", "_rows", "_shadow"),
        *("_since", "_slow", "ejections", "evidence", "full_at", "last_success", "plan", "rule"),
        *("standing", "suspect", "until", "why"),
    )

    def __init__(self, plan: HealthPlan) -> None:
        self.plan = plan
        self.standing = Standing.IN
        self.evidence: Evidence | None = None
        self.rule: Rule | None = None
        self.why = ""
        self.until = -math.inf
        self.last_success = -math.inf
        self.suspect = False
        self.ejections = 0
        self.full_at = -math.inf
        self._since = -math.inf  # out since
        self._aside = False
        self._clean = True  # nothing at all is held against it: the short way for good answers
        self._good = 0  # answers in a row while it is ejected
        self._rows: dict[Rule, int] | None = None  # this and the next are made when needed
        self._requests: WindowCount | None = None
        self._faults: WindowCount | None = None
        self._slow: WindowCount | None = None
        self._ladder: Ladder | None = None
        self._shadow: Shadow | None = None

    # -- good news -------------------------------------------------------------------------

    def connected(self, now: float) -> Returned | None:
        """A connection to it stands. Takes back what connects and silent connections have said.

        That ends an ejection on this evidence, too: who dials and asks nothing, such as
        `create_connection`, has no better news. It says nothing of requests.
        """
        if self._clean:
            return None
        self.suspect = False
        if self._rows is not None:
            self._rows.pop(Rule.CONNECT_FAILURES, None)
            self._rows.pop(Rule.SUSPECT, None)
        shadow = self._shadow
        if shadow is not None and shadow.rule in _BY_CONNECT and shadow.due(now):
            self._shadow_returns(shadow, now)
        if self.rule in _BY_CONNECT:
            return self._return("a connection to it stands", now)
        return None

    def succeeded(self, now: float) -> Returned | None:
        """It gave an answer that is no fault."""
        self.last_success = now
        requests = self._requests
        if requests is None:
            requests = self._requests = WindowCount(self.plan.window)
        requests.add(now)
        return None if self._clean else self._cleared(now)

    def _cleared(self, now: float) -> Returned | None:
        self.suspect = False
        self._rows = None
        shadow = self._shadow
        if shadow is not None and shadow.due(now):
            self._shadow_returns(shadow, now)
        if self.standing is Standing.IN:
            self._clean = shadow is None or shadow.rule is None
            return None
        self.evidence = Evidence.ANSWERS
        if self.rule is Rule.CHECK:
            return None
        if self.standing is Standing.TRIAL:
            return self._return("its trial was answered", now)
        if self._aside or self.rule in _BY_ANSWER:
            return self._return("it has answered", now)
        self._good += 1
        if self._good < self.plan.good_answers:
            return None
        return self._return(f"{self._good} good answers in a row", now)

    def checked(
        self,
        up: bool,
        now: float,
        rng: Random,
        *,
        evidence: Evidence | None = None,
        why: str = "",
    ) -> Ejected | Returned | None:
        """An active check says that it is up, or down; to be said as often as you like.

        `evidence`: what the check has met. Up, None or ANSWERS: an answer, which ends every
        ejection; DEATH: a connection only, which ends those that `connected` ends, and a check's.
        Down, None or DEATH: nobody; ANSWERS: somebody whose answer was not as it should be.
        """
        if not up:
            met = evidence or Evidence.DEATH
            return self.eject(Rule.CHECK, met, why or "its check failed", now, rng)
        if self._clean:
            return None
        self.suspect = False
        refuted = _BY_CONNECT_CHECK if evidence is Evidence.DEATH else _BY_CHECK
        if self._shadow is not None and self._shadow.rule in refuted:
            self._shadow_returns(self._shadow, now)
        if self.rule in refuted:
            return self._return(why or "its check passed", now, slowly=True)
        return None

    def _return(self, why: str, now: float, *, slowly: bool = False) -> Returned | None:
        slowly = slowly or self.standing is Standing.TRIAL
        was_aside, after = self._aside, now - self._since
        self.standing, self._aside = Standing.IN, False
        self.evidence = self.rule = None
        self.why = ""
        if was_aside:
            return None
        assert self._ladder is not None
        self._ladder.leave(now)
        self._begin_anew()
        if slowly:
            self.full_at = now + self.plan.slow_start
        return Returned(why, after)

    def _shadow_returns(self, shadow: Shadow, now: float) -> None:
        if shadow.rule is Rule.FAILURE_RATE:  # what it has counted must not count twice
            self._faults = None
        elif shadow.rule is Rule.LATENCY:
            self._slow = None
        shadow.leave(now)

    def _begin_anew(self) -> None:
        """Envoy: counters are cleared by an ejection, and by the return."""
        self._rows = self._requests = self._faults = self._slow = None
        self._good = 0

    # -- bad news --------------------------------------------------------------------------

    def failed(self, fault: Fault, now: float, rng: Random) -> Ejected | None:
        """It has failed. `rng` gives the jitter of the time out.

        None: there is no ejection; the endpoint may have been set aside all the same.
        """
        self._clean = False
        self._count(fault, now)
        if fault in _ANSWERED:
            self._spoke(fault, now)
        elif fault is Fault.SUSPECT:
            self.suspect = True
        if self.standing is not Standing.IN and not self._aside:
            return self._failed_outside(fault, now, rng)
        broken = self._broken(fault, now)
        evidence = Evidence.DEATH if fault in _DEADLY else Evidence.ANSWERS
        if broken is not None and broken[0] not in self.plan.count_only:
            return self._eject(broken[0], evidence, broken[1], now, rng)
        self._set_aside(fault, now, rng)
        shadow = self._shadow
        if shadow is not None and shadow.rule is not None and shadow.due(now):
            why = f"its trial would have failed: {fault.value}"
            return shadow.eject(self.plan, shadow.rule, evidence, why, now, rng)
        return None if broken is None else self._would(broken[0], evidence, broken[1], now, rng)

    def _count(self, fault: Fault, now: float) -> None:
        if fault in _ROWS:
            rule = _ROWS[fault][0]
            rows = self._rows = self._rows or {}
            rows[rule] = rows.get(rule, 0) + 1
        if fault in _REQUESTS or fault is Fault.SLOW:
            requests = self._requests = self._requests or WindowCount(self.plan.window)
            requests.add(now)
        if fault in _REQUESTS:
            faults = self._faults = self._faults or WindowCount(self.plan.window)
            faults.add(now)
        elif fault is Fault.SLOW:
            slow = self._slow = self._slow or WindowCount(self.plan.window)
            slow.add(now)

    def _spoke(self, fault: Fault, now: float) -> None:
        """A bad answer is a sign of life, and of a program that serves."""
        self.suspect = False
        if self._rows is not None:
            gateway = self._rows.get(Rule.GATEWAY_ERRORS, 0)
            # Envoy: any other answer ends the row of gateway errors.
            self._rows = {Rule.GATEWAY_ERRORS: gateway} if fault is Fault.GATEWAY else None
        if self._aside:
            self._return("it has answered", now)

    def _failed_outside(self, fault: Fault, now: float, rng: Random) -> Ejected | None:
        """In its trial, or asked because the others are no better."""
        self._good = 0
        if fault in _ASIDE:
            self.evidence = Evidence.DEATH
        elif fault in _ANSWERED:
            self.evidence = Evidence.ANSWERS
        if self.standing is Standing.OUT:
            return None
        assert self.rule is not None
        evidence = Evidence.DEATH if fault in _DEADLY else Evidence.ANSWERS
        return self._eject(self.rule, evidence, f"its trial failed: {fault.value}", now, rng)

    def _broken(self, fault: Fault, now: float) -> tuple[Rule, str] | None:
        """The rule that this fault has broken, and how, in words."""
        plan = self.plan
        if fault in _ROWS:
            rule, figure = _ROWS[fault]
            assert self._rows is not None
            row = self._rows[rule]
            if row >= getattr(plan, figure):
                return rule, f"{fault.value}, {row} in a row"
        bad, rule, what = self._faults, Rule.FAILURE_RATE, "failed"
        if fault is Fault.SLOW:
            bad, rule, what = self._slow, Rule.LATENCY, "slow"
        elif fault not in _REQUESTS:
            return None
        assert bad is not None
        assert self._requests is not None
        count, total = bad.advance(now), self._requests.advance(now)
        if total < plan.least_requests or count < plan.failure_rate * total:
            return None
        return rule, f"{count} of {total} requests in {plan.window} s: {what}"

    def _set_aside(self, fault: Fault, now: float, rng: Random) -> None:
        """Last for one `base`: the fault asks for it, or has ended the trial after such a time."""
        if fault not in _ASIDE and self.standing is not Standing.TRIAL:
            return
        rule = _ROWS[fault][0]
        if rule in self.plan.count_only and self.standing is not Standing.TRIAL:
            return
        if self.standing is Standing.IN:
            self._since = now
        if self.rule is None or fault is Fault.FIRST_BYTE:  # the one that a connect cannot refute
            self.rule = rule
        self.standing, self._aside = Standing.OUT, True
        self.evidence, self.why = Evidence.DEATH, fault.value
        self.until = now + spread(self.plan.base, self.plan, rng)

    def eject(
        self, rule: Rule, evidence: Evidence, why: str, now: float, rng: Random
    ) -> Ejected | None:
        """It is put out by evidence from elsewhere: its node's, or a check's.

        None where it is ejected already, or in its trial, which will tell; but a check's word then
        holds, too: from now on it is the check that returns it.
        """
        self._clean = False
        inside = self.standing is Standing.IN or self._aside
        if rule in self.plan.count_only:
            return self._would(rule, evidence, why, now, rng) if inside else None
        if inside:
            return self._eject(rule, evidence, why, now, rng)
        if rule is Rule.CHECK:
            self.standing, self.until = Standing.OUT, math.inf
            self.rule, self.evidence, self.why = rule, evidence, why
        return None

    def _eject(self, rule: Rule, evidence: Evidence, why: str, now: float, rng: Random) -> Ejected:
        again = self.standing is not Standing.IN and not self._aside
        if self.standing is Standing.IN:
            self._since = now
        ladder = self._ladder = self._ladder or Ladder()
        seconds, times = ladder.climb(self.plan, now, rng, again=again)
        self.standing, self._aside = Standing.OUT, False
        self.rule, self.evidence, self.why = rule, evidence, why
        self.until = math.inf if rule is Rule.CHECK else now + seconds
        self.full_at = -math.inf
        self.ejections += 1
        self._shadow = None
        self._begin_anew()
        return Ejected(rule, evidence, why, self.until, times, enforced=True)

    def _would(
        self, rule: Rule, evidence: Evidence, why: str, now: float, rng: Random
    ) -> Ejected | None:
        shadow = self._shadow = self._shadow or Shadow()
        if shadow.rule is not None:
            return None
        return shadow.eject(self.plan, rule, evidence, why, now, rng)

    # -- the trial, and the way back -------------------------------------------------------

    def due(self, now: float) -> bool:
        """Whether its time is up, and nobody tries it."""
        return self.standing is not Standing.IN and now >= self.until

    def try_out(self, now: float) -> None:
        """Its one trial begins. ValueError if none is due.

        A trial of which nothing is heard for `cap`, as when its process has forked, is forgotten:
        then the next is due.
        """
        if not self.due(now):
            raise ValueError(f"health: no trial is due ({self.standing.value}); ask due(now) first")
        self.standing = Standing.TRIAL
        self.until = now + self.plan.cap

    def untried(self, now: float) -> None:
        """The trial ended without a word, as a cancelled one does: the next is due at once."""
        if self.standing is Standing.TRIAL:
            self.standing, self.until = Standing.OUT, now

    def weight(self, now: float) -> float:
        """Its share of what an equal takes: from `least_weight` to 1 in slow start, else 1."""
        if now >= self.full_at:
            return 1.0
        plan = self.plan
        elapsed = now - (self.full_at - plan.slow_start)
        return max(plan.least_weight, elapsed / plan.slow_start)  # Envoy, aggression 1
