"""The words of passive health, and its figures: what counts, how much of it, and for how long.

Sources: Envoy's outlier detection (gateway errors apart from other faults, five in a row, times
that grow and are capped), resilience4j and Linkerd (a trial before the return), Envoy's slow
start; the figures are DESIGN section 6's, made for the small traffic of one process. Refuses what
is inert or harmful for a Service of two to five pods: deviations from the mean of all endpoints,
and a cap of ten per cent of them (peers, traps 1 and 2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum

__all__ = ["Ejected", "Evidence", "Fault", "HealthPlan", "Returned", "Rule", "Standing", "rules"]


class Fault(Enum):
    """What an endpoint did wrong; the value is in words."""

    CONNECT = "failed connect"  # refused, unreachable, or unanswered to the end
    SILENT = "unanswered dial"  # given up because another was faster: weaker than CONNECT
    SUSPECT = "silent connection"  # the kernel's evidence against an established connection
    RESET = "connection broken before a response"
    FIRST_BYTE = "response that did not begin in time"
    GATEWAY = "gateway error"  # 502, 503, 504
    ERROR = "server error"  # another 5xx
    SLOW = "slow answer"  # good, but later than `HealthPlan.latency`


class Evidence(Enum):
    """What an endpoint is out on. Panic overrides ANSWERS, and not DEATH."""

    ANSWERS = "answers"
    DEATH = "death"


class Standing(Enum):
    """Whether an endpoint is one of the first choices, the last ones, or tried just now."""

    IN = "in"
    OUT = "out"
    TRIAL = "trial"


class Rule(Enum):
    """By which rule an endpoint is put out; the value is the word that users write."""

    CONNECT_FAILURES = "connect_failures"
    SUSPECT = "suspect"
    FIRST_BYTE = "first_byte"
    RESETS = "resets"
    GATEWAY_ERRORS = "gateway_errors"
    FAILURE_RATE = "failure_rate"
    LATENCY = "latency"
    NODE = "node"
    CHECK = "check"


def rules(words: Iterable[Rule | str]) -> frozenset[Rule]:
    """Rules by their words. ValueError for a word that is none, naming those there are."""
    if isinstance(words, str):
        raise ValueError(f"rules: {words!r} is one word; write a set, such as {{{words!r}}}")
    try:
        return frozenset(Rule(word) for word in words)
    except ValueError as error:
        known = ", ".join(rule.value for rule in Rule)
        raise ValueError(f"rules: {error}; the rules are {known}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPlan:
    """What puts an endpoint out, how long, and how it returns. Durations in seconds.

    In a row, with nothing better between: `connect_failures` (dials failed), `suspicions`
    (connections silent), `first_byte_timeouts`, `resets`, `gateway_errors`. Over the last
    `window`: `failure_rate` of at least `least_requests` requests. `latency`: an answer that
    begins later than so after the request's end is slow, and `failure_rate` of slow ones puts
    the endpoint out; None: a slow endpoint is the balancer's business alone.

    Out for `base`, doubled each time up to `cap`, each time by chance up to `jitter` of it more
    or less. Then one trial. Back, its weight grows from `least_weight` to all in `slow_start`.
    `good_answers` in a row end an ejection on answers where panic goes on asking the endpoint.
    `count_only`: rules that only say what they would have done, and their words are taken too.

    ValueError for a figure that cannot be meant.
    """

    connect_failures: int = 3
    suspicions: int = 3
    first_byte_timeouts: int = 3
    resets: int = 5
    gateway_errors: int = 5
    failure_rate: float = 0.5
    least_requests: int = 10
    window: int = 10
    latency: float | None = None
    base: float = 5.0
    cap: float = 60.0
    jitter: float = 0.2
    good_answers: int = 5
    slow_start: float = 10.0
    least_weight: float = 0.1
    count_only: AbstractSet[Rule | str] = frozenset()

    def __post_init__(self) -> None:
        for name in _COUNTS:
            self._check(name, 1, 1_000_000, whole=True)
        self._check("window", 1, 60, whole=True)  # its counters are a list of its seconds
        self._check("failure_rate", 0.01, 1)
        self._check("base", 0.001, 86_400)
        self._check("cap", self.base, 86_400)
        self._check("jitter", 0, 0.99)
        self._check("slow_start", 0, 86_400)
        self._check("least_weight", 0.001, 1)
        if self.latency is not None:
            self._check("latency", 0.001, 86_400)
        object.__setattr__(self, "count_only", rules(self.count_only))

    def _check(self, name: str, least: float, most: float, *, whole: bool = False) -> None:
        value = getattr(self, name)
        kinds = int if whole else (int, float)
        right = isinstance(value, kinds) and not isinstance(value, bool)
        if not right or not least <= value <= most:
            kind = "a whole number" if whole else "a number"
            (default,) = (field.default for field in dataclasses.fields(self) if field.name == name)
            shown = 0.25 if default is None else default
            raise ValueError(
                f"{name}: {value!r} is not {kind} from {least:g} to {most:g}, such as {shown!r}"
            )


_COUNTS = (
    *("connect_failures", "suspicions", "first_byte_timeouts", "resets", "gateway_errors"),
    *("least_requests", "good_answers"),
)


@dataclass(frozen=True, slots=True)
class Ejected:
    """An endpoint has been put out, or would have been (`enforced` is False: a dry run).

    `until`: when its trial is due, on the caller's clock; `math.inf`: when its check passes.
    `times`: 1 for the shortest time out, one more for each doubling; falls while it is well.
    """

    rule: Rule
    evidence: Evidence
    why: str
    until: float
    times: int
    enforced: bool


@dataclass(frozen=True, slots=True)
class Returned:
    """An endpoint is one of the first choices again, after so many seconds."""

    why: str
    after: float
