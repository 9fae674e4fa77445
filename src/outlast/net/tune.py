"""`outlast.tune`: socket options of a connection that stands, and what really holds.

For sockets that somebody else has opened. Every option is read back, because kernels differ; what
did not take is a note, never an exception: the connection is of use without it. Refuses to set
a user timeout unless it is asked for: on a socket that nobody watches it kills a live peer that
merely does not read (linux-tcp facts 5.4).
"""

from __future__ import annotations

import errno
import math
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from outlast.net.held import SocketSource, descriptor_of
from outlast.net.options import (
    NUMBERS,
    TCP,
    Keepalive,
    Option,
    keepalive_options,
    read_keepalive,
    set_option,
    user_timeout_option,
)

__all__ = ["Tuned", "tune"]

RTO_CAP = 2.0  # seconds; DESIGN section 6, for sockets without a watcher
RTO_LEAST, RTO_MOST = 1.0, 120.0  # what Linux takes (linux-tcp facts 2.1)

KeepaliveSetting: TypeAlias = "Keepalive | tuple[int, int, int] | bool | None"


@dataclass(frozen=True, slots=True)
class Tuned:
    """What holds on a socket now. Durations in seconds.

    `keepalive`: None where it is off. `user_timeout`: 0 for none. `rto_max`: the longest gap
    between retransmissions; None where the platform has no such option. `notes`: what was asked
    for and did not take.
    """

    keepalive: Keepalive | None
    user_timeout: float
    rto_max: float | None
    nodelay: bool
    notes: tuple[str, ...] = ()


def tune(
    sock: SocketSource,
    *,
    keepalive: KeepaliveSetting = True,
    user_timeout: float | None = None,
    rto_max: float | None = RTO_CAP,
    nodelay: bool | None = None,
) -> Tuned:
    """Set options of a TCP socket that is open already, and tell what holds. Never blocks.

    sock: a socket, a stream over one (anyio, asyncio, trio; TLS too), or a descriptor.
    keepalive: (idle, interval, count) in seconds, or an `outlast.Keepalive`; True for (5, 1, 6);
        False switches it off.
    user_timeout: seconds after which unacknowledged data ends the connection; 0 for never. It
        also ends a live peer that does not read for so long: `outlast.watch` lifts one in time.
    rto_max: seconds, 1 to 120: the longest gap between retransmissions (Linux 6.15). Without a
        user timeout it also bounds how long they go on: 27 s for 2 s.
    nodelay: whether small writes leave at once.

    None leaves an option as it is. Raises ValueError naming the argument that is malformed, or
    if `sock` has no TCP socket; OSError if that is closed. Thread-safe.
    """
    wanted = [*_keepalive(keepalive)]
    if user_timeout is not None:
        number, value = user_timeout_option(_seconds(user_timeout, "user_timeout", 0.0, math.inf))
        wanted.append(Option("user timeout", TCP, number, value))
    if rto_max is not None:
        value = round(_seconds(rto_max, "rto_max", RTO_LEAST, RTO_MOST) * 1000)
        wanted.append(Option("RTO cap", TCP, NUMBERS["rto_max"], value))
    if nodelay is not None:
        wanted.append(Option("TCP_NODELAY", TCP, socket.TCP_NODELAY, int(nodelay)))
    with _opened(sock) as raw:
        notes = [set_option(raw, option) for option in wanted]
        return _holding(raw, tuple(note for note in notes if note))


def _keepalive(setting: Any) -> Iterable[Option]:
    if setting is None:
        return ()
    if setting is False:
        return (Option("SO_KEEPALIVE", socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0),)
    if setting is True:
        return keepalive_options(Keepalive())
    if isinstance(setting, (tuple, list)) and len(setting) == 3:
        return keepalive_options(Keepalive(*setting))
    if isinstance(setting, Keepalive):
        return keepalive_options(setting)
    form = "write (5, 1, 6), True, False or None"
    raise ValueError(f"keepalive: {setting!r} is not (idle, interval, count); {form}")


def _seconds(value: object, name: str, least: float, most: float) -> float:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if not least <= number <= most or number == math.inf:
        bounds = "" if most == math.inf else f" from {least:g} to {most:g}"
        raise ValueError(f"{name}: {value!r} is no number of seconds{bounds}, such as 2.5")
    return float(number)


@contextmanager
def _opened(source: SocketSource) -> Iterator[socket.socket]:
    """The socket by its descriptor, for a moment: the descriptor stays its owner's."""
    number = descriptor_of(source)
    if number < 0:
        raise OSError(errno.EBADF, f"{source!r} is closed")
    raw = socket.socket(fileno=number)
    try:
        if raw.family not in (socket.AF_INET, socket.AF_INET6) or raw.type != socket.SOCK_STREAM:
            raise ValueError(f"{source!r} is no TCP socket")
        yield raw
    finally:
        raw.detach()


def _holding(raw: socket.socket, notes: tuple[str, ...]) -> Tuned:
    unit = user_timeout_option(1.0)[1]
    cap = _read(raw, NUMBERS["rto_max"])
    return Tuned(
        keepalive=read_keepalive(raw),
        user_timeout=(_read(raw, NUMBERS["ut"]) or 0) / unit,
        rto_max=None if cap is None else cap / 1000,
        nodelay=bool(raw.getsockopt(TCP, socket.TCP_NODELAY)),
        notes=notes,
    )


def _read(raw: socket.socket, number: int | None) -> int | None:
    if number is None:
        return None
    try:
        return raw.getsockopt(TCP, number)
    except OSError:  # a kernel without it
        return None
