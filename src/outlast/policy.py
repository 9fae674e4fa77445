"""The policy: every figure a user may set, its default and its check.

One frozen value. A transport has one; a block (`override`) and a single call
(`extensions={"outlast": {...}}`) merge fields over it. Defaults are DESIGN section 6's. Refuses
unknown fields and wrong values with a ValueError that names the field and shows a right form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from outlast import fields as accept
from outlast.core.backoff import Backoff
from outlast.core.budget import BudgetPlan
from outlast.core.call_steps import Repeat
from outlast.core.cookies import CookieName
from outlast.core.health_plan import Rule
from outlast.core.hedge import HedgePlan
from outlast.fields import seconds
from outlast.net.options import Keepalive
from outlast.strategies import Condition, Stop, Wait

__all__ = ["Policy", "current_override", "override", "seconds"]

RETRY_STATUS = frozenset({429, 502, 503, 504})
USER_TIMEOUT = 11.0  # seconds
BACKOFF = Backoff()
KEEPALIVE = Keepalive()
BUDGET = BudgetPlan()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How calls behave when something fails. Durations in seconds; "5s", "250ms" or "2m" may be
    given too, and become seconds. Hashable, and equal to others of the same figures.

    attempts: requests of which a byte was written, at most, per call.
    deadline: for the whole call, body included; None for none.
    attempt_timeout: for one attempt, from its beginning to its response's head; then it is repeated
        if that is safe. "split": an equal share of what is left of the deadline, for each attempt
        that is left; without a deadline there is nothing to split. None: none.
    retry_status: statuses that are repeated, for safe requests.
    unsafe_status: method to statuses that are repeated though the method is not idempotent.
    idempotent: True or False overrules the method and the Idempotency-Key header.
    backoff: the wait before a repeated request: a Backoff, or a wait strategy of tenacity's.
    stop: a stop strategy of tenacity's, beside `attempts` and `deadline`; raise those where it
        alone is to decide. None: those alone.
    retry_if: a retry strategy of tenacity's: which answers are repeated, in place of
        `retry_status`, and which failures are not. It makes nothing safe that is not, and the
        caller's read timeout stays final. None: none.
    retry_budget: (ratio, per_second) of the target's requests that repeats and hedges may cost.
    hedge: when a safe request that is late gets a second attempt beside it: after a delay in
        seconds, or "p95" of the target's response times (any percentile); None or "off" for never.
    retry_after_limit: a longer Retry-After returns the answer at once.
    connect_timeout: for a whole connect when the caller gave none.
    attempt_delay: from one dial of a race to the next, at least 10 ms (RFC 8305 section 5); None
        adapts to the target.
    open_attempts: dials of one race that may be open together.
    keepalive: (idle, interval, count) of TCP keepalive in seconds; None leaves it off.
    user_timeout: how long the kernel may hold unacknowledged data while we watch; 0 for off.
    watch: look for requests that the peer's kernel never acknowledged; and at sockets that are
        handed out, without which no user timeout stands on them.
    first_byte: from a request's end to the first byte of its response; then it is repeated if that
        is safe. None: the caller's read timeout alone, which is final.
    repeat_unacknowledged: also repeat what is not safe to repeat (POST), if the peer's kernel has
        acknowledged no byte of it for about two seconds. The risk: the request may have arrived,
        and only the acknowledgements were lost; then it is acted upon twice. HTTP/1.1 only.
    deadline_header: a header that tells the server how much time is left, `deadline` and
        `attempt_timeout` together; one that the caller has set stays. Its name says in which form:
        `grpc-timeout`, milliseconds where it ends in `-ms`, else seconds. None: none.
    sticky_cookies: cookies that are left out of repeated requests, so that a router draws another
        endpoint: names, patterns of names, or "openshift" for its router's per-route cookie.
    dry_run: rules that only count what they would have done: "retry_unsent", "retry_unanswered",
        "retry_status", "retry_suspect", "hedge", or all of them by "repeats"; and rules of ejection
        ("gateway_errors" ...), or all of them by "ejections".
    idle_expiry: idle connections are dropped after so long.
    max_age: connections are retired after so long, give or take 20 %.
    """

    attempts: int = 3
    deadline: float | None = None
    attempt_timeout: float | Literal["split"] | None = None
    retry_status: AbstractSet[int] = RETRY_STATUS
    unsafe_status: Mapping[str, AbstractSet[int]] = dataclasses.field(default_factory=dict)
    idempotent: bool | None = None
    backoff: Backoff | Wait = BACKOFF
    stop: Stop | None = None
    retry_if: Condition | None = None
    retry_budget: BudgetPlan = BUDGET
    hedge: HedgePlan | None = None
    retry_after_limit: float = 10.0
    connect_timeout: float = 5.0
    attempt_delay: float | None = None
    open_attempts: int = 4
    keepalive: Keepalive | None = KEEPALIVE
    user_timeout: float = USER_TIMEOUT
    watch: bool = True
    first_byte: float | None = None
    repeat_unacknowledged: bool = False
    deadline_header: str | None = None
    sticky_cookies: AbstractSet[CookieName] = frozenset()
    dry_run: AbstractSet[Repeat | Rule] = frozenset()
    idle_expiry: float = 60.0
    max_age: float = 300.0

    if TYPE_CHECKING:  # what may be given; the fields say what it becomes

        def __init__(
            self,
            *,
            attempts: int = ...,
            deadline: float | str | None = ...,
            attempt_timeout: float | str | None = ...,
            retry_status: Iterable[int] = ...,
            unsafe_status: Mapping[str, Iterable[int]] = ...,
            idempotent: bool | None = ...,
            backoff: Backoff | Wait = ...,
            stop: Stop | None = ...,
            retry_if: Condition | None = ...,
            retry_budget: BudgetPlan | tuple[float, float] = ...,
            hedge: HedgePlan | float | str | None = ...,
            retry_after_limit: float | str = ...,
            connect_timeout: float | str = ...,
            attempt_delay: float | str | None = ...,
            open_attempts: int = ...,
            keepalive: Keepalive | tuple[int, int, int] | None = ...,
            user_timeout: float | str = ...,
            watch: bool = ...,
            first_byte: float | str | None = ...,
            repeat_unacknowledged: bool = ...,
            deadline_header: str | None = ...,
            sticky_cookies: CookieName | Iterable[CookieName] = ...,
            dry_run: str | Repeat | Rule | Iterable[str | Repeat | Rule] = ...,
            idle_expiry: float | str = ...,
            max_age: float | str = ...,
        ) -> None:
            """Each field by its name."""

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            object.__setattr__(self, name, check(getattr(self, name), name))

    def __hash__(self) -> int:
        values = (getattr(self, name) for name in _CHECKS)
        return hash(tuple(frozenset(v.items()) if isinstance(v, Mapping) else v for v in values))

    def merged(self, fields: Mapping[str, Any]) -> Policy:
        """This policy with `fields` over it. ValueError for unknown fields and wrong values."""
        check_fields(fields)
        return dataclasses.replace(self, **fields)


_CHECKS: dict[str, Callable[[object, str], object]] = {
    "attempts": accept.count,
    "deadline": accept.optional,
    "attempt_timeout": accept.attempt_timeout,
    "retry_status": accept.statuses,
    "unsafe_status": accept.unsafe,
    "idempotent": accept.optional_flag,
    "backoff": accept.backoff,
    "stop": accept.optional_strategy,
    "retry_if": accept.optional_strategy,
    "retry_budget": accept.retry_budget,
    "hedge": accept.hedge,
    "retry_after_limit": accept.duration,
    "connect_timeout": accept.positive,
    "attempt_delay": accept.attempt_delay,
    "open_attempts": accept.count,
    "keepalive": accept.keepalive,
    "user_timeout": accept.user_timeout,
    "watch": accept.flag,
    "first_byte": accept.optional,
    "repeat_unacknowledged": accept.flag,
    "deadline_header": accept.header,
    "sticky_cookies": accept.cookies,
    "dry_run": accept.dry_run,
    "idle_expiry": accept.positive,
    "max_age": accept.positive,
}


def check_fields(fields: Mapping[str, Any]) -> None:
    """ValueError naming each field that no policy has."""
    unknown = [repr(name) for name in fields if name not in _CHECKS]
    if unknown:
        known = ", ".join(_CHECKS)
        raise ValueError(f"policy: unknown field {', '.join(unknown)}; the fields are {known}")


_override: ContextVar[Mapping[str, Any] | None] = ContextVar("outlast_override", default=None)


@contextmanager
def override(**fields: Any) -> Iterator[None]:
    """Merge policy fields over every call made in this block: this thread's, or this task's.

    Blocks nest; the inner one wins. A call's own `extensions["outlast"]` wins over both.
    Raises ValueError for unknown fields and wrong values.
    """
    Policy().merged(fields)
    outer = _override.get()
    token = _override.set(fields if outer is None else {**outer, **fields})
    try:
        yield
    finally:
        _override.reset(token)


# The fields of the blocks that this call stands in; None outside of any. Each request asks.
current_override: Callable[[], Mapping[str, Any] | None] = _override.get
