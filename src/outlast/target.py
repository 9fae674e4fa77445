"""Targets: what says where the endpoints of a Service come from, and how they are used.

One string in most cases: `orders.shop.svc:8080` or `dns://orders.shop.svc:8080` (the name's
addresses), `static://10.0.0.1:8080,10.0.0.2:8080` (as listed; an address may carry `;weight=3`,
`;priority=1`, `;zone=eu-1a` and `;node=n1`). `Target(text, balance=..., ...)` says how to use them.
`srv://`, `k8s://` and `nodeport://` are documented and come later: they are refused by name.
Anything else is refused with the forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from outlast.core.balance import P2C, Balance
from outlast.core.check import CheckPlan
from outlast.core.circuit import CircuitLimits
from outlast.core.endpoint import Member
from outlast.core.health_plan import HealthPlan
from outlast.errors import NotAvailableYet
from outlast.net.address import Address, literal, split_host_port

__all__ = [
    "Check",
    "Origin",
    "Target",
    "TargetSettings",
    "parse_origin",
    "parse_target",
    "target_at",
    "target_of",
]


FORMS = "'orders.shop.svc:8080', 'dns://orders.shop.svc:8080', 'static://10.0.0.1:8080,10.0.0.2:80'"
LATER = {"srv", "k8s", "nodeport"}
DEFAULT_PORTS = {"http": 80, "https": 443}
MOST_WEIGHT = 1000.0  # a thousandfold of the least is more than any table of figures tells apart
MOST_PRIORITY = 127  # Envoy's limit of priorities
BALANCE: Balance = P2C()
HEALTH = HealthPlan()


@runtime_checkable
class Check(Protocol):
    """An active check: what `outlast.TcpCheck`, `HttpCheck` and `CallCheck` are."""

    @property
    def at_once(self) -> int:
        """How many endpoints of a target may be checked at the same time."""

    @property
    def plan(self) -> CheckPlan:
        """How often, for how long, and how many of a kind make a change."""

    def probe(self, subject: Any) -> Any:
        """Check one endpoint once; see `service.check_kinds`."""


@dataclass(frozen=True, slots=True)
class TargetSettings:
    """How a target's endpoints are used; see `Target`."""

    balance: Balance = BALANCE
    health: HealthPlan = HEALTH
    check: Check | None = None
    circuit: CircuitLimits | None = None
    zone: str = ""


@dataclass(frozen=True, slots=True, init=False)
class Target:
    """Where endpoints come from, and how they are used. Hashable.

    text: one of the forms above.
    balance: whom a request goes to: `outlast.P2C()` (the default), `RoundRobin()`,
        `LeastRequest()`, `PickFirst()` or `ConsistentHash(...)`.
    health: when an endpoint is tried last, and for how long: an `outlast.HealthPlan`.
    check: an active check of every endpoint, in the background: `outlast.TcpCheck()`,
        `HttpCheck("/healthz")` or `CallCheck(...)`. None: what requests meet is all that is known.
    circuit: an `outlast.CircuitLimits`, what one endpoint is given at most; None for no limit.
    zone: where this process runs; endpoints of the same zone are preferred.

    One table per target text and process holds what is known: transports, diallers and shims that
    name the same text share it. Where settings are given they hold for all of them; if two give
    different ones the later wins, and a warning says so. Raises ValueError naming the part that
    is wrong.
    """

    text: str
    name: tuple[str, int] | None  # to look up
    members: tuple[Member[Address], ...]  # as listed
    settings: TargetSettings | None  # None: nothing was said

    def __init__(
        self,
        text: str,
        *,
        balance: Balance | None = None,
        health: HealthPlan | None = None,
        check: Check | None = None,
        circuit: CircuitLimits | None = None,
        zone: str | None = None,
    ) -> None:
        parsed = parse_target(text)
        given = {
            "balance": _given(text, "balance", balance, Balance, "RoundRobin()"),
            "health": _given(text, "health", health, HealthPlan, "HealthPlan(connect_failures=5)"),
            "check": _given(text, "check", check, Check, "HttpCheck('/healthz')"),
            "circuit": _given(
                text, "circuit", circuit, CircuitLimits, "CircuitLimits(in_flight=64)"
            ),
            "zone": _given(text, "zone", zone, str, "'eu-1a'"),
        }
        told: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self._set(
            parsed.text, parsed.name, parsed.members, TargetSettings(**told) if told else None
        )

    def _set(
        self,
        text: str,
        name: tuple[str, int] | None,
        members: tuple[Member[Address], ...],
        settings: TargetSettings | None,
    ) -> None:
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "settings", settings)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The endpoints as listed; none for a name."""
        return tuple(member.key for member in self.members)


def _made(
    text: str, name: tuple[str, int] | None = None, members: tuple[Member[Address], ...] = ()
) -> Target:
    """What a text was found to mean."""
    target = Target.__new__(Target)
    target._set(text, name, members, None)
    return target


def _given(text: str, name: str, value: Any, kind: Any, form: str) -> Any:
    if value is None or isinstance(value, kind):
        return value
    raise ValueError(f"target {text!r}: {name}={value!r} is none; write {name}={form}")


class Origin(NamedTuple):
    """Scheme, host and port of a URL: what a connection may be shared for."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_target(text: Any) -> Target:
    """The target that `text` names; a `Target` is returned as it is. ValueError naming the part
    that is wrong."""
    if isinstance(text, Target):
        return text
    if not isinstance(text, str):
        raise ValueError(f"target: {text!r} is no text; write {FORMS}")
    if not text.strip():
        raise ValueError(f"target: {text!r} names nothing; write {FORMS}")
    scheme, mark, rest = text.strip().partition("://")
    scheme = scheme.lower()
    if not mark:
        return _named(text.strip(), text)
    if scheme == "dns":
        return _named(rest, text)
    if scheme == "static":
        return _listed(rest, text)
    if scheme in LATER:
        raise NotAvailableYet(
            f"target {text!r}: {scheme}:// is not available yet; until then write {FORMS}"
        )
    raise ValueError(f"target {text!r}: unknown scheme {scheme!r}; write {FORMS}")


def _named(rest: str, text: str) -> Target:
    host, port = split_host_port(rest, what=f"target {text!r}", example="orders.shop.svc:8080")
    return target_of(host, port)


def _listed(rest: str, text: str) -> Target:
    found: dict[Address, Member[Address]] = {}
    for part in rest.split(","):
        member = _member(part.strip(), f"target {text!r}")
        found.setdefault(member.key, member)
    words = ",".join(map(_words, found.values()))
    return _made(f"static://{words}", members=tuple(found.values()))


def _member(part: str, what: str) -> Member[Address]:
    where, *params = part.split(";")
    host, port = split_host_port(where.strip(), what=what, example="10.0.0.1:8080")
    address = literal(host, port)
    if address is None:
        raise ValueError(
            f"{what}: {host!r} is no IP address; static:// lists addresses, "
            f"for a name write 'dns://{host}:{port}'"
        )
    told: dict[str, Any] = {}
    for param in params:
        key, mark, value = (piece.strip() for piece in param.partition("="))
        if key not in _PARAMS or not mark or key in told:
            raise ValueError(
                f"{what}: {param!r} after {where} is not one of weight=, priority=, zone= and "
                "node=, each once, such as '10.0.0.1:8080;weight=3;zone=eu-1a'"
            )
        told[key] = _PARAMS[key](value, f"{what}: {key} of {where}")
    return Member(address, **told)


def _weight(value: str, what: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 1 / MOST_WEIGHT <= number <= MOST_WEIGHT:
        raise ValueError(f"{what}: {value!r} is no number from 0.001 to 1000, such as 3")
    return number


def _priority(value: str, what: str) -> int:
    if not (value.isascii() and value.isdigit() and int(value) <= MOST_PRIORITY):
        raise ValueError(f"{what}: {value!r} is no whole number from 0 (first) to {MOST_PRIORITY}")
    return int(value)


def _label(value: str, what: str) -> str:
    if not value or any(letter.isspace() for letter in value):
        raise ValueError(f"{what}: {value!r} is no name, such as eu-1a")
    return value


_PARAMS: dict[str, Callable[[str, str], object]] = {
    "weight": _weight,
    "priority": _priority,
    "zone": _label,
    "node": _label,
}


def _words(member: Member[Address]) -> str:
    """A member as it is written."""
    told = {
        "weight": "" if member.weight == 1.0 else f"{member.weight:g}",
        "priority": str(member.priority or ""),
        "zone": member.zone,
        "node": member.node,
    }
    return str(member.key) + "".join(f";{key}={value}" for key, value in told.items() if value)


def target_at(address: Address, text: str) -> Target:
    """The target that is one address, by the name of `text`."""
    return _made(text, members=(Member(address),))


def target_of(host: str, port: int) -> Target:
    """The target of a plain host and port: the name's addresses, or the address itself."""
    address = literal(host, port)
    if address is not None:
        return target_at(address, f"static://{address}")
    return _made(f"dns://{host}:{port}", name=(host, port))


def parse_origin(text: Any) -> Origin:
    """The origin "http://host:port" of a `targets` key, as httpx reads it in a request's URL.

    ValueError naming what is wrong.
    """
    import httpx  # the very code that reads the URLs of requests: names and ports must agree

    key, form = f"targets: key {text!r}", "write it like 'http://orders.shop.svc:8080'"
    try:
        url = httpx.URL(text if isinstance(text, str) else "")
    except httpx.InvalidURL as error:
        raise ValueError(f"{key}: {error}; {form}") from error
    host = url.raw_host.decode("ascii")
    if url.scheme not in DEFAULT_PORTS or not host:
        raise ValueError(f"{key} is no http:// or https:// origin; {form}")
    if url.raw_path != b"/" or url.fragment or url.userinfo:
        raise ValueError(f"{key} has more than scheme, host and port; {form}")
    if "%" in host:  # what no host name may contain comes out escaped
        raise ValueError(f"{key}: {url.host!r} is no host; {form}")
    port = DEFAULT_PORTS[url.scheme] if url.port is None else url.port
    if not 0 < port < 65536:
        raise ValueError(f"{key}: port {port} is not from 1 to 65535; {form}")
    return Origin(url.scheme, host, port)
