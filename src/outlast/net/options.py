"""Socket options of a connection: which, on which platform, and what really holds.

Set before connect, so that they shape the connect too, and read back, because kernels differ.
An option that the caller gave wins over ours and is refused loudly if the kernel refuses it;
one of our defaults that the platform lacks is noted for the report, never dropped in silence.

Sources: linux-tcp facts 2.1 and 6 for Linux; tcp(4) for macOS (TCP_KEEPALIVE,
TCP_RXT_CONNDROPTIME); Winsock documentation for Windows (TCP_KEEPIDLE, TCP_MAXRT).
"""

from __future__ import annotations

import errno
import math
import socket
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "Keepalive",
    "LocalRefusal",
    "Option",
    "SocketOption",
    "SocketPlan",
    "apply",
    "apply_to_established",
    "fitting_user_timeout",
    "keepalive_is_ours",
    "keepalive_options",
    "read_keepalive",
    "set_keepalive",
    "set_option",
    "user_timeout_option",
]

TCP = socket.IPPROTO_TCP
LARGEST = 2**31 - 1  # options are C ints

# What setsockopt takes: (level, option, value), or (level, option, None, length).
SocketOption: TypeAlias = "tuple[int, int, int | bytes | bytearray] | tuple[int, int, None, int]"


class LocalRefusal(OSError):
    """This machine refuses what the caller wants of a socket: it says nothing of any peer."""


@dataclass(frozen=True, slots=True)
class Keepalive:
    """Keepalive in whole seconds: probes begin after `idle`, every `interval`, `count` of them."""

    idle: int = 5
    interval: int = 1
    count: int = 6

    def __post_init__(self) -> None:
        for name, most in (("idle", 32767), ("interval", 32767), ("count", 127)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise ValueError(
                    f"keepalive {name}: {value!r} is not a whole number from 1 to {most}, "
                    "as in Keepalive(idle=5, interval=1, count=6)"
                )


@dataclass(frozen=True, slots=True)
class SocketPlan:
    """What to set on a socket. Durations in seconds.

    `user_timeout` 0 leaves it off. `rto_max` caps the retransmission gap (Linux 6.15) once the
    connection stands. `extra`: the caller's own (level, option, value); they win.
    `source`: local (host, port) to bind, or None.
    """

    keepalive: Keepalive | None = Keepalive()
    user_timeout: float = 0.0
    rto_max: float = 0.0
    nodelay: bool = True
    extra: tuple[SocketOption, ...] = ()
    source: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """One of our own options, with the name by which notes tell of it."""

    name: str
    level: int
    number: int | None  # None: this platform has no such option
    value: int


def _platform() -> dict[str, int | None]:
    """Option numbers by our names; numbers where Python has no constant."""
    if sys.platform == "darwin":
        return {"idle": 0x10, "interval": 0x101, "count": 0x102, "ut": 0x80, "rto_max": None}
    if sys.platform == "win32":
        return {"idle": 3, "interval": 17, "count": 16, "ut": 5, "rto_max": None}
    return {
        "idle": getattr(socket, "TCP_KEEPIDLE", None),
        "interval": getattr(socket, "TCP_KEEPINTVL", None),
        "count": getattr(socket, "TCP_KEEPCNT", None),
        "ut": getattr(socket, "TCP_USER_TIMEOUT", None),
        "rto_max": 44 if sys.platform == "linux" else None,  # TCP_RTO_MAX_MS
    }


NUMBERS = _platform()


def user_timeout_option(seconds: float) -> tuple[int | None, int]:
    """The number of this platform's user timeout option, and `seconds` in its unit."""
    value = round(seconds * 1000) if sys.platform == "linux" else math.ceil(seconds)
    if seconds > 0:
        value = max(1, min(value, LARGEST))  # 0 would switch it off
    return NUMBERS["ut"], value


def keepalive_options(keepalive: Keepalive) -> Iterable[Option]:
    """Keepalive switched on, and its figures."""
    yield Option("SO_KEEPALIVE", socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    yield Option("keepalive idle", TCP, NUMBERS["idle"], keepalive.idle)
    yield Option("keepalive interval", TCP, NUMBERS["interval"], keepalive.interval)
    yield Option("keepalive count", TCP, NUMBERS["count"], keepalive.count)


def _before(plan: SocketPlan) -> Iterable[Option]:
    if plan.nodelay:
        yield Option("TCP_NODELAY", TCP, socket.TCP_NODELAY, 1)
    if plan.keepalive is not None:
        yield from keepalive_options(plan.keepalive)
    if plan.user_timeout:
        number, value = user_timeout_option(plan.user_timeout)
        yield Option("user timeout", TCP, number, value)
    if plan.source is not None and plan.source[1] and sys.platform != "win32":
        # Several dials of a race share the caller's local port; Windows means theft by this flag.
        yield Option("SO_REUSEADDR", socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


def apply(sock: socket.socket, plan: SocketPlan) -> list[str]:
    """Set the plan's options on a socket that is not connected yet, and read them back.

    Returns notes on what the platform refused of our defaults. Raises LocalRefusal naming the
    option if it refuses one of the caller's own, or naming the local address.
    """
    theirs = {option[:2] for option in plan.extra}
    notes = [set_option(sock, option, theirs) for option in _before(plan)]
    for given in plan.extra:
        try:
            sock.setsockopt(*given)
        except OSError as error:
            text = f"socket option {given}: {error.strerror}"
            raise LocalRefusal(error.errno, text) from error
        except (OverflowError, TypeError) as error:  # Python's own refusal: nothing that C takes
            raise LocalRefusal(errno.EINVAL, f"socket option {given}: {error}") from error
    if plan.source is not None:
        _bind(sock, plan.source)
    return [note for note in notes if note]


def _bind(sock: socket.socket, source: tuple[str, int]) -> None:
    host, port = source
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        sock.bind(source)
    except socket.gaierror as error:  # what Python makes of a literal of another family
        text = f"local address {shown} is not of the family of the address to dial"
        raise LocalRefusal(errno.EAFNOSUPPORT, text) from error
    except OSError as error:
        raise LocalRefusal(error.errno, f"local address {shown}: {error.strerror}") from error


def apply_to_established(sock: socket.socket, plan: SocketPlan) -> list[str]:
    """Set what must not shape the connect: a short RTO cap would also shorten the connect."""
    if not plan.rto_max:
        return []
    option = Option("RTO cap", TCP, NUMBERS["rto_max"], round(plan.rto_max * 1000))
    note = set_option(sock, option, {given[:2] for given in plan.extra})
    return [note] if note else []


def fitting_user_timeout(seconds: float, keepalive: Keepalive | None) -> float:
    """`seconds`, or longer where keepalive takes longer to find a peer dead: on Linux a user
    timeout replaces the count of probes, so that a shorter one would kill an idle connection for
    a single lost probe (linux-tcp facts 6.1). 0 stays 0."""
    if not seconds or keepalive is None:
        return seconds
    return max(seconds, keepalive.idle + keepalive.interval * keepalive.count)


def keepalive_is_ours(plan: SocketPlan) -> bool:
    """Whether keepalive stands by this plan and the caller has set nothing of it."""
    theirs = {given[:2] for given in plan.extra}
    names = (NUMBERS["idle"], NUMBERS["interval"], NUMBERS["count"])
    ours = {(TCP, number) for number in names} | {(socket.SOL_SOCKET, socket.SO_KEEPALIVE)}
    return plan.keepalive is not None and not theirs & ours


def set_keepalive(sock: socket.socket, old: Keepalive, new: Keepalive) -> None:
    """Change keepalive on a connection where `old` stands. Raises OSError.

    The idle time goes last, and always: on Linux it is what starts the timer anew, and where it
    has passed already a probe leaves at once (linux-tcp facts 6.2).
    """
    for name in ("count", "interval", "idle"):
        number, value = NUMBERS[name], getattr(new, name)
        if number is not None and (name == "idle" or value != getattr(old, name)):
            sock.setsockopt(TCP, number, value)


def read_keepalive(sock: socket.socket) -> Keepalive | None:
    """What stands on a socket; None where keepalive is off, or the platform does not tell all."""
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE):
        return None
    found = []
    for name in ("idle", "interval", "count"):
        number = NUMBERS[name]
        if number is None:
            return None
        found.append(sock.getsockopt(TCP, number))
    return Keepalive(*found)


# A flag may read back as any number but 0 (macOS: SO_KEEPALIVE gives 8).
_FLAGS = {
    (TCP, socket.TCP_NODELAY),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
    (socket.SOL_SOCKET, socket.SO_REUSEADDR),
}


def set_option(
    sock: socket.socket, option: Option, theirs: Collection[tuple[int, int]] = ()
) -> str:
    """Set one of our options; a note if it does not hold."""
    if option.number is None:
        return f"{option.name}: this platform has none"
    if (option.level, option.number) in theirs:
        return ""
    try:
        sock.setsockopt(option.level, option.number, option.value)
        held = sock.getsockopt(option.level, option.number)
    except OSError as error:
        return f"{option.name} {option.value}: refused ({error.strerror})"
    if held == option.value or (held and (option.level, option.number) in _FLAGS):
        return ""
    return f"{option.name}: set to {option.value}, holds {held}"
