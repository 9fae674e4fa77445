"""The policy: every figure a user may set, its default and its check.

One frozen value. A transport has one; a block (`override`) and a single call
(`extensions={"outlast": {...}}`) merge fields over it. Defaults are DESIGN section 6's. Refuses
unknown fields and wrong values with a ValueError that names the field and shows a right form.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outlast.core.backoff import Backoff
from outlast.core.latency import RFC_MINIMUM
from outlast.net.options import Keepalive

__all__ = ["Policy", "current_override", "override", "seconds"]

SHORTEST = 0.001  # seconds; what the kernel counts user timeouts in
LONGEST = 1e9  # seconds, some 30 years; what is longer is a mistake
METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2: a token
RETRY_STATUS = frozenset({429, 502, 503, 504})
USER_TIMEOUT = 11.0  # seconds
BACKOFF = Backoff()
KEEPALIVE = Keepalive()


def seconds(value: object, name: str) -> float:
    """`value` in seconds: a number, or "5s", "250ms", "2m". ValueError naming `name`."""
    number: float = math.nan
    if isinstance(value, str):
        for unit, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0)):
            if value.endswith(unit):
                number = _number(value[: -len(unit)]) * factor
                break
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value) if abs(value) < LONGEST else math.inf
    if not 0 <= number < LONGEST:
        raise ValueError(f"{name}: {value!r} is no duration; write seconds (2.5), '5s' or '250ms'")
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _duration(value: object, name: str) -> float:
    return seconds(value, name)


def _positive(value: object, name: str) -> float:
    number = seconds(value, name)
    if not number:
        raise ValueError(f"{name}: must be more than 0 seconds, such as 2.5 or '250ms'")
    return number


def _user_timeout(value: object, name: str) -> float:
    number = seconds(value, name)
    if 0 < number < SHORTEST:
        raise ValueError(f"{name}: {value!r} is less than 1 ms; write 11, '250ms', or 0 for off")
    return number


def _optional(value: object, name: str) -> float | None:
    return None if value is None else _positive(value, name)


def _attempt_delay(value: object, name: str) -> float | None:
    number = _optional(value, name)
    if number is not None and number < RFC_MINIMUM:
        raise ValueError(
            f"{name}: {value!r} is less than 10 ms, which RFC 8305 section 5 forbids; "
            "write 0.05 or '50ms', or None to adapt to the target"
        )
    return number


def _count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100:
        raise ValueError(f"{name}: {value!r} is not a whole number from 1 to 100")
    return value


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name}: {value!r} is not True or False")
    return value


def _optional_flag(value: object, name: str) -> bool | None:
    return None if value is None else _flag(value, name)


def _statuses(value: object, name: str) -> frozenset[int]:
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise ValueError(f"{name}: {value!r} is no set of status codes, such as {{502, 503}}")
    found = list(value)
    for status in found:
        if isinstance(status, bool) or not isinstance(status, int) or not 100 <= status <= 599:
            raise ValueError(f"{name}: {status!r} is not a status code from 100 to 599")
    return frozenset(found)


def _unsafe(value: object, name: str) -> Mapping[str, frozenset[int]]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}: {value!r} does not map methods, such as {{'POST': {{503}}}}")
    found: dict[str, frozenset[int]] = {}
    for key, item in value.items():
        method = _method(key, name)
        found[method] = found.get(method, frozenset()) | _statuses(item, f"{name}[{key!r}]")
    return found


def _method(value: object, name: str) -> str:
    if not isinstance(value, str) or not METHOD.fullmatch(value):
        raise ValueError(f"{name}: {value!r} is no method, such as 'POST'")
    return value.upper()


def _backoff(value: object, name: str) -> Backoff:
    if not isinstance(value, Backoff):
        raise ValueError(f"{name}: {value!r} is no Backoff, such as Backoff(base=0.025, cap=0.25)")
    return value


def _keepalive(value: object, name: str) -> Keepalive | None:
    if value is None or isinstance(value, Keepalive):
        return value
    if isinstance(value, (tuple, list)) and len(value) == 3:
        return Keepalive(*value)
    raise ValueError(f"{name}: {value!r} is neither None nor (idle, interval, count) in seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How calls behave when something fails. Durations in seconds; "5s", "250ms" or "2m" may be
    given too, and become seconds. Hashable, and equal to others of the same figures.

    attempts: requests of which a byte was written, at most, per call.
    deadline: for the whole call, body included; None for none.
    retry_status: statuses that are repeated, for safe requests.
    unsafe_status: method to statuses that are repeated though the method is not idempotent.
    idempotent: True or False overrules the method and the Idempotency-Key header.
    backoff: the wait before a repeated request.
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
    idle_expiry: idle connections are dropped after so long.
    max_age: connections are retired after so long, give or take 20 %.
    """

    attempts: int = 3
    deadline: float | None = None
    retry_status: AbstractSet[int] = RETRY_STATUS
    unsafe_status: Mapping[str, AbstractSet[int]] = dataclasses.field(default_factory=dict)
    idempotent: bool | None = None
    backoff: Backoff = BACKOFF
    retry_after_limit: float = 10.0
    connect_timeout: float = 5.0
    attempt_delay: float | None = None
    open_attempts: int = 4
    keepalive: Keepalive | None = KEEPALIVE
    user_timeout: float = USER_TIMEOUT
    watch: bool = True
    first_byte: float | None = None
    repeat_unacknowledged: bool = False
    idle_expiry: float = 60.0
    max_age: float = 300.0

    if TYPE_CHECKING:  # what may be given; the fields say what it becomes

        def __init__(
            self,
            *,
            attempts: int = ...,
            deadline: float | str | None = ...,
            retry_status: Iterable[int] = ...,
            unsafe_status: Mapping[str, Iterable[int]] = ...,
            idempotent: bool | None = ...,
            backoff: Backoff = ...,
            retry_after_limit: float | str = ...,
            connect_timeout: float | str = ...,
            attempt_delay: float | str | None = ...,
            open_attempts: int = ...,
            keepalive: Keepalive | tuple[int, int, int] | None = ...,
            user_timeout: float | str = ...,
            watch: bool = ...,
            first_byte: float | str | None = ...,
            repeat_unacknowledged: bool = ...,
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
    "attempts": _count,
    "deadline": _optional,
    "retry_status": _statuses,
    "unsafe_status": _unsafe,
    "idempotent": _optional_flag,
    "backoff": _backoff,
    "retry_after_limit": _duration,
    "connect_timeout": _positive,
    "attempt_delay": _attempt_delay,
    "open_attempts": _count,
    "keepalive": _keepalive,
    "user_timeout": _user_timeout,
    "watch": _flag,
    "first_byte": _optional,
    "repeat_unacknowledged": _flag,
    "idle_expiry": _positive,
    "max_age": _positive,
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


def current_override() -> Mapping[str, Any] | None:
    """The fields of the blocks that this call stands in; None outside of any."""
    return _override.get()
