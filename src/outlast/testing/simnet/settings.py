"""Socket options of a simulated socket, by the kernel's numbers and with the kernel's ranges.

Source: linux-tcp facts 2.1 (numbers, ranges, EINVAL); tcp(7), socket(7). Numbers are Linux's on
every platform, so that a simulation is the same everywhere. Options that the model has no use for
(TCP_NODELAY aside, which it has) are refused with ENOPROTOOPT, never taken and forgotten.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass

from outlast.testing.simnet.rules import Kernel

__all__ = ["Settings", "read_option", "write_option"]

_SOCKET, _IP, _TCP = 1, 0, 6
_MILLISECOND = 1_000


@dataclass(slots=True)
class Settings:
    """What a program set on its socket. Durations in microseconds where not said otherwise.

    `idle`, `interval`: seconds. `syncnt` None: the host's `syn_retries`. `user_timeout` 0: off.
    `linger_reset`: close sends RST.
    """

    idle: int
    interval: int
    count: int
    rto_max: int
    send_buffer: int
    receive_buffer: int
    keepalive: bool = False
    nodelay: bool = False
    user_timeout: int = 0
    syncnt: int | None = None
    recverr: bool = False
    linger_reset: bool = False
    reuse_address: bool = False

    @classmethod
    def of(cls, kernel: Kernel) -> Settings:
        """What a new socket has."""
        return cls(
            idle=kernel.keepalive_idle,
            interval=kernel.keepalive_interval,
            count=kernel.keepalive_count,
            rto_max=kernel.rto_max,
            send_buffer=kernel.send_buffer,
            receive_buffer=kernel.receive_buffer,
        )


@dataclass(frozen=True, slots=True)
class _Option:
    field: str
    low: int
    high: int
    unit: int = 1


_LARGEST = 2**31 - 1
_OPTIONS = {
    (_TCP, 1): _Option("nodelay", -_LARGEST, _LARGEST, 0),  # unit 0: a flag
    (_TCP, 4): _Option("idle", 1, 32767),
    (_TCP, 5): _Option("interval", 1, 32767),
    (_TCP, 6): _Option("count", 1, 127),
    (_TCP, 7): _Option("syncnt", 1, 127),
    (_TCP, 18): _Option("user_timeout", 0, _LARGEST, _MILLISECOND),
    (_TCP, 44): _Option("rto_max", 1000, 120_000, _MILLISECOND),
    (_SOCKET, 2): _Option("reuse_address", -_LARGEST, _LARGEST, 0),
    (_SOCKET, 7): _Option("send_buffer", 1, _LARGEST),
    (_SOCKET, 8): _Option("receive_buffer", 1, _LARGEST),
    (_SOCKET, 9): _Option("keepalive", -_LARGEST, _LARGEST, 0),
    (_IP, 11): _Option("recverr", -_LARGEST, _LARGEST, 0),
    (41, 25): _Option("recverr", -_LARGEST, _LARGEST, 0),
}
_LINGER = (_SOCKET, 13)
_BUFFERS = {"send_buffer": 4608, "receive_buffer": 2304}  # the least, SOCK_MIN_SNDBUF / _RCVBUF
_MOST_BUFFER = 212_992  # net.core.wmem_max, rmem_max


def write_option(
    settings: Settings, level: int, number: int, value: int | bytes, changed: Callable[[str], None]
) -> None:
    """setsockopt(2); `changed` hears the name of the field. Raises OSError as the kernel does."""
    if (level, number) == _LINGER:
        words = bytes(value) if not isinstance(value, int) else b""
        if len(words) < 8:
            raise _refused(errno.EINVAL)
        settings.linger_reset = words[:4] != bytes(4) and words[4:8] == bytes(4)
        changed("linger_reset")
        return
    option = _known(level, number)
    given = value if isinstance(value, int) else int.from_bytes(value[:4], "little", signed=True)
    if not option.low <= given <= option.high:
        raise _refused(errno.EINVAL)
    if option.field in _BUFFERS:  # the kernel doubles it, for its own book-keeping
        given = max(_BUFFERS[option.field], 2 * min(given, _MOST_BUFFER))
    new = bool(given) if option.unit == 0 else given * option.unit
    if option.unit or new != getattr(settings, option.field):  # a flag that is on stays as it is
        setattr(settings, option.field, new)
        changed(option.field)


def read_option(settings: Settings, level: int, number: int, kernel: Kernel) -> int:
    """getsockopt(2) of a number. Raises OSError as the kernel does."""
    option = _known(level, number)
    value = getattr(settings, option.field)
    if value is None:
        value = kernel.syn_retries
    return int(value) // (option.unit or 1)


def _known(level: int, number: int) -> _Option:
    option = _OPTIONS.get((level, number))
    if option is None:
        raise _refused(errno.ENOPROTOOPT)
    return option


def _refused(code: int) -> OSError:
    return OSError(code, os.strerror(code))
