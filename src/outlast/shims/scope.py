"""Which destinations a shim looks after, and where their endpoints come from.

A shim sees every connection of a program, most of which are none of its business. `only` and `skip`
are patterns of host and port; what neither names is in scope, except what never leaves this machine
or its link (RFC 6890): there is no node to lose. A mapped destination is always in scope, and its
endpoints are those of the target that it is mapped to.

A scope is no security boundary: it says whom to help, not whom to keep out. Pure: looks nothing up.
A name is compared as it is written, so that a pattern of addresses does not speak of names.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from outlast.target import Target, parse_target, target_of

__all__ = ["EVERYTHING", "Pattern", "Scope", "parse_pattern", "parse_scope"]

_IP: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
_Net: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"
FORM = "write it like 'orders.shop.svc:8080', '*.svc', '10.96.0.0/12:*' or '[fd00::]/8:5432-5440'"
PORTS = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
MOST = 65535
REMEMBERED = 4096  # destinations whose answer is kept; a crawler meets them without end


@dataclass(frozen=True, slots=True)
class Pattern:
    """Destinations: a name or glob (`name`), or a network (`net`), and ports from `low` to `high`.
    `text`: as it was written."""

    text: str
    name: str
    net: _Net | None
    low: int
    high: int

    def meets(self, host: str, ip: _IP | None, port: int) -> bool:
        """Whether a destination is one of these. `ip`: what `host` spells out, if it does."""
        if not self.low <= port <= self.high:
            return False
        if self.net is not None:
            return ip is not None and ip.version == self.net.version and ip in self.net
        return fnmatch.fnmatchcase(_folded(host), self.name)

    @property
    def exact(self) -> tuple[str, int] | None:
        """Host and port, where it names one destination by name."""
        plain = self.net is None and not set(self.name) & set("*?[")
        return (self.name, self.low) if plain and self.low == self.high else None


@dataclass(frozen=True, slots=True)
class Scope:
    """What to look after. Frozen, hashable, thread-safe. `only` empty: whatever leaves the link."""

    only: tuple[Pattern, ...] = ()
    skip: tuple[Pattern, ...] = ()
    targets: tuple[tuple[Pattern, Target], ...] = ()
    _known: dict[tuple[str, int], Target | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def target_for(self, host: str, port: int) -> Target | None:
        """The target of a destination, a name or an address; None: leave it alone."""
        known = self._known
        try:
            return known[host, port]
        except KeyError:
            if len(known) >= REMEMBERED:
                known.clear()
            found = known[host, port] = _target_for(self, host, port)
            return found

    @property
    def names(self) -> tuple[tuple[str, int], ...]:
        """Destinations that are named one by one, for who sees addresses only and has to look
        them up."""
        patterns = (*(pattern for pattern, _ in self.targets), *self.only)
        return tuple(exact for each in patterns if (exact := each.exact) is not None)


EVERYTHING = Scope()


def _target_for(scope: Scope, host: str, port: int) -> Target | None:
    ip = _ip(host)
    for pattern, target in scope.targets:
        if pattern.meets(host, ip, port):
            return target
    if any(pattern.meets(host, ip, port) for pattern in scope.skip):
        return None
    if scope.only:
        wanted = any(pattern.meets(host, ip, port) for pattern in scope.only)
    else:
        wanted = not _stays_here(host, ip)
    return target_of(host, port) if wanted and 0 < port <= MOST else None


def _stays_here(host: str, ip: _IP | None) -> bool:
    if ip is None:
        return _folded(host) in ("localhost", "localhost.localdomain", "")
    return ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_unspecified


def _folded(host: str) -> str:
    """A name as names are compared: without case, without the root's dot."""
    return host.rstrip(".").lower()


def _ip(host: str) -> _IP | None:
    """The address that is written; the IPv4 address of one that is mapped (RFC 4291, 2.5.5.2)."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


# -- what is written -------------------------------------------------------------------------


def parse_scope(
    only: Iterable[str] | None = None,
    skip: Iterable[str] = (),
    targets: Mapping[str, str | Target] | None = None,
) -> Scope:
    """The scope that these words mean; None or nothing for `only` is whatever leaves the link.

    Raises ValueError naming the pattern or target that is wrong.
    """
    mapped = []
    for key, target in (targets or {}).items():
        mapped.append((parse_pattern(key, f"targets: key {key!r}"), parse_target(target)))
    return Scope(_patterns(only or (), "only"), _patterns(skip, "skip"), tuple(mapped))


def _patterns(words: Iterable[str], what: str) -> tuple[Pattern, ...]:
    if isinstance(words, (str, bytes)):
        raise ValueError(f"{what}: {words!r} is one text; write a list, such as [{words!r}]")
    return tuple(parse_pattern(word, f"{what}: {word!r}") for word in words)


def parse_pattern(text: object, what: str) -> Pattern:
    """One pattern: host, host:port, host:low-high; an IPv6 address with a port needs brackets.

    Raises ValueError beginning with `what`.
    """
    if not isinstance(text, str) or not text.strip() or any(map(str.isspace, text.strip())):
        raise ValueError(f"{what} names no host and port; {FORM}")
    word = text.strip()
    host, ports = _parted(word)
    low, high = _range(ports, what)
    net = _network(host, what)
    name = "" if net is not None else _folded(host)
    if net is None and (not name or any(letter in name for letter in "/:@#")):
        raise ValueError(f"{what}: {host!r} is no host; {FORM}")
    return Pattern(word, name, net, low, high)


def _parted(word: str) -> tuple[str, str]:
    """Host and ports. `[v6]/8:80` and `[v6]:80` have brackets; a bare v6 address has no port."""
    if word.startswith("["):
        inner, _, rest = word[1:].partition("]")
        length, _, ports = rest.partition(":")
        return inner + length, ports or "*"
    if word.count(":") > 1:
        return word, "*"
    host, _, ports = word.partition(":")
    return host, ports or "*"


def _range(ports: str, what: str) -> tuple[int, int]:
    if ports == "*":
        return 1, MOST
    match = PORTS.fullmatch(ports)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 0 < low <= high <= MOST:
        raise ValueError(f"{what}: {ports!r} is no port or range from 1 to {MOST}; {FORM}")
    return low, high


def _network(host: str, what: str) -> _Net | None:
    """The network that is written; None for a name."""
    if "/" not in host and _ip(host) is None:
        return None
    try:
        return ipaddress.ip_network(host)
    except ValueError as error:
        raise ValueError(f"{what}: {host!r} is no network ({error}); {FORM}") from error
