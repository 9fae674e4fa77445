"""What a policy's fields accept, and what becomes of it.

Each check takes a value and its field's name, and returns what the policy keeps: hashable, and
accepted by the same check again, because policies are merged. Refuses everything else with a
ValueError that begins with the name and shows a right form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from outlast.core.backoff import Backoff
from outlast.core.budget import BudgetPlan
from outlast.core.call_steps import Repeat
from outlast.core.cookies import CookieName
from outlast.core.health_plan import Rule
from outlast.core.hedge import HedgePlan
from outlast.core.latency import RFC_MINIMUM
from outlast.net.options import Keepalive
from outlast.strategies import strategy

__all__ = [
    "attempt_delay",
    "attempt_timeout",
    "backoff",
    "cookies",
    "count",
    "dry_run",
    "duration",
    "flag",
    "header",
    "hedge",
    "keepalive",
    "optional",
    "optional_flag",
    "optional_strategy",
    "positive",
    "retry_budget",
    "seconds",
    "statuses",
    "unsafe",
    "user_timeout",
]

SHORTEST = 0.001  # seconds; what the kernel counts user timeouts in
LONGEST = 1e9  # seconds, some 30 years; what is longer is a mistake
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
PERCENTILE = re.compile(r"p([0-9]{1,2}(?:\.[0-9]+)?)")

# HTTP's own headers; a deadline in one of them would break the request.
FRAMING = {
    *("connection", "content-length", "cookie", "expect", "host", "http2-settings", "keep-alive"),
    *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
}
GROUPS: dict[str, frozenset[Repeat | Rule]] = {
    "repeats": frozenset(Repeat),
    "ejections": frozenset(Rule),
}


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


def duration(value: object, name: str) -> float:
    """A duration in seconds, 0 included."""
    return seconds(value, name)


def positive(value: object, name: str) -> float:
    """A duration in seconds, longer than 0."""
    number = seconds(value, name)
    if not number:
        raise ValueError(f"{name}: must be more than 0 seconds, such as 2.5 or '250ms'")
    return number


def user_timeout(value: object, name: str) -> float:
    """A user timeout in seconds; 0 for off."""
    number = seconds(value, name)
    if 0 < number < SHORTEST:
        raise ValueError(f"{name}: {value!r} is less than 1 ms; write 11, '250ms', or 0 for off")
    return number


def optional(value: object, name: str) -> float | None:
    """A duration longer than 0, or None."""
    return None if value is None else positive(value, name)


def attempt_delay(value: object, name: str) -> float | None:
    """A delay that RFC 8305 allows, or None."""
    number = optional(value, name)
    if number is not None and number < RFC_MINIMUM:
        raise ValueError(
            f"{name}: {value!r} is less than 10 ms, which RFC 8305 section 5 forbids; "
            "write 0.05 or '50ms', or None to adapt to the target"
        )
    return number


def count(value: object, name: str) -> int:
    """A whole number from 1 to 100."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100:
        raise ValueError(f"{name}: {value!r} is not a whole number from 1 to 100")
    return value


def flag(value: object, name: str) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}: {value!r} is not True or False")
    return value


def optional_flag(value: object, name: str) -> bool | None:
    """True, False or None."""
    return None if value is None else flag(value, name)


def statuses(value: object, name: str) -> frozenset[int]:
    """A set of status codes."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise ValueError(f"{name}: {value!r} is no set of status codes, such as {{502, 503}}")
    found = list(value)
    for status in found:
        if isinstance(status, bool) or not isinstance(status, int) or not 100 <= status <= 599:
            raise ValueError(f"{name}: {status!r} is not a status code from 100 to 599")
    return frozenset(found)


def unsafe(value: object, name: str) -> Mapping[str, frozenset[int]]:
    """Methods and the status codes at which each is repeated."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}: {value!r} does not map methods, such as {{'POST': {{503}}}}")
    found: dict[str, frozenset[int]] = {}
    for key, item in value.items():
        method = _method(key, name)
        found[method] = found.get(method, frozenset()) | statuses(item, f"{name}[{key!r}]")
    return found


def _method(value: object, name: str) -> str:
    if not isinstance(value, str) or not TOKEN.fullmatch(value):
        raise ValueError(f"{name}: {value!r} is no method, such as 'POST'")
    return value.upper()


def backoff(value: object, name: str) -> Any:
    """A Backoff, or a wait strategy."""
    if isinstance(value, Backoff):
        return value
    if not callable(value):
        raise ValueError(
            f"{name}: {value!r} is no Backoff, such as Backoff(base=0.025, cap=0.25), and no wait "
            "strategy of tenacity's, such as wait_random(0, 0.5)"
        )
    return strategy(value, name)


def optional_strategy(value: object, name: str) -> Any:
    """A strategy of the field's kind, or None."""
    return None if value is None else strategy(value, name)


def keepalive(value: object, name: str) -> Keepalive | None:
    """Keepalive, or three whole numbers of seconds, seconds and probes; None for off."""
    if value is None or isinstance(value, Keepalive):
        return value
    if isinstance(value, (tuple, list)) and len(value) == 3:
        return Keepalive(*value)
    raise ValueError(f"{name}: {value!r} is neither None nor (idle, interval, count) in seconds")


def attempt_timeout(value: object, name: str) -> float | Literal["split"] | None:
    """A duration longer than 0, "split", or None."""
    if value == "split":
        return "split"
    try:
        return optional(value, name)
    except ValueError as error:
        raise ValueError(f"{error}, or 'split' for a share of the deadline") from error


def hedge(value: object, name: str) -> HedgePlan | None:
    """A fixed delay, a percentile such as "p95", a HedgePlan; None or "off" for none."""
    if value is None or isinstance(value, HedgePlan):
        return value
    if value == "off":
        return None
    if isinstance(value, str):
        match = PERCENTILE.fullmatch(value)
        if match and 0 < float(match[1]) < 100:
            return HedgePlan(percentile=float(match[1]) / 100)
    try:
        return HedgePlan(delay=positive(value, name))
    except ValueError as error:
        raise ValueError(
            f"{name}: {value!r} is neither 'off' nor a delay (0.05, '50ms') nor a percentile of "
            "the target's response times ('p95')"
        ) from error


def retry_budget(value: object, name: str) -> BudgetPlan:
    """A BudgetPlan, or its two figures."""
    if isinstance(value, BudgetPlan):
        return value
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return BudgetPlan(*value)
    raise ValueError(
        f"{name}: {value!r} is not (ratio, per_second), such as (0.2, 3.0) for a fifth of the "
        "requests and three a second; (0, 0) forbids repeats"
    )


def header(value: object, name: str) -> str | None:
    """The name of a header that is not HTTP's own, or None."""
    if value is None:
        return None
    if not isinstance(value, str) or not TOKEN.fullmatch(value) or value.lower() in FRAMING:
        raise ValueError(
            f"{name}: {value!r} is no header for this; write 'x-envoy-expected-rq-timeout-ms', "
            "'grpc-timeout', or a name of your own, which then holds seconds"
        )
    return value


def cookies(value: object, name: str) -> frozenset[CookieName]:
    """Names of cookies, patterns for whole names, and "openshift"; one of them alone will do."""
    given = [value] if isinstance(value, (str, re.Pattern)) else value
    form = "write {'SERVERID'}, {re.compile('lb-.*')}, or 'openshift' for its router's own"
    if not isinstance(given, Iterable) or isinstance(given, (bytes, bytearray)):
        raise ValueError(f"{name}: {value!r} names no cookies; {form}")
    found = list(given)
    for each in found:
        text = each.pattern if isinstance(each, re.Pattern) else each
        if not isinstance(text, str) or (text is each and not TOKEN.fullmatch(text)):
            raise ValueError(f"{name}: {each!r} is no cookie's name; {form}")
    return frozenset(found)


def dry_run(value: object, name: str) -> frozenset[Repeat | Rule]:
    """Rules by their words, or the groups "repeats" and "ejections"; one word alone will do."""
    words = [value] if isinstance(value, (str, Repeat, Rule)) else value
    if not isinstance(words, Iterable):
        raise ValueError(f"{name}: {value!r} is no set of rules, such as {{'hedge', 'ejections'}}")
    found: set[Repeat | Rule] = set()
    for word in words:
        group = GROUPS.get(word) if isinstance(word, str) else None
        found |= {_rule(word, name)} if group is None else group
    return frozenset(found)


def _rule(word: object, name: str) -> Repeat | Rule:
    every: list[Repeat | Rule] = [*Repeat, *Rule]
    for rule in every:
        if word is rule or word == rule.value:
            return rule
    known = ", ".join([*GROUPS, *(rule.value for rule in every)])
    raise ValueError(f"{name}: {word!r} is no rule; the rules are {known}")
