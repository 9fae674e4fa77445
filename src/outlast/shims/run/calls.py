"""System calls that Python has no name for, by ctypes and ioctl.

Each raises OSError with the kernel's errno. Sources: seccomp(2), seccomp_unotify(2),
pidfd_getfd(2), process_vm_readv(2), prctl(2), signalfd(2), epoll_ctl(2). Decides nothing.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

from outlast.shims.run.machine import PIDFD_GETFD, Machine

__all__ = [
    "adopt_orphans",
    "any_address",
    "connect",
    "get_descriptor",
    "install_filter",
    "no_new_privileges",
    "read_memory",
    "register",
    "signal_descriptor",
    "supported_sizes",
]

libc = ctypes.CDLL(None, use_errno=True)
_long = ctypes.c_long
libc.syscall.restype = _long
libc.process_vm_readv.restype = ctypes.c_ssize_t

PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 38, 36
SET_MODE_FILTER, GET_NOTIF_SIZES = 1, 3
NEW_LISTENER = 1 << 3
SFD_CLOEXEC, SFD_NONBLOCK = 0o2000000, 0o4000
EPOLL_CTL_ADD = 1
_Libc_sigset = ctypes.c_ubyte * 128


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def no_new_privileges() -> None:
    """Neither this process nor what it becomes gains rights by exec: what an unprivileged filter
    asks for (seccomp(2))."""
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def adopt_orphans(*, wanted: bool = True) -> None:
    """Whether descendants whose parent ends become children of this process, also of what it
    becomes by exec (prctl(2), subreaper)."""
    _checked(libc.prctl(PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0))


def install_filter(machine: Machine, code: bytes) -> int:
    """Put this process, and all that descends from it, under a filter; the listener's number."""
    room = ctypes.create_string_buffer(code, len(code))
    filter_ = _Filter(len(code) // 8, ctypes.addressof(room))
    flags = NEW_LISTENER
    number = libc.syscall(
        _long(machine.seccomp), _long(SET_MODE_FILTER), _long(flags), ctypes.byref(filter_)
    )
    return _checked(number)


def supported_sizes(machine: Machine) -> tuple[int, int]:
    """Bytes of the kernel's notification and answer. Raises OSError where it has none."""
    room = (ctypes.c_uint16 * 3)()
    _checked(libc.syscall(_long(machine.seccomp), _long(GET_NOTIF_SIZES), _long(0), room))
    return room[0], room[1]


def get_descriptor(pidfd: int, number: int) -> int:
    """A copy of another process's descriptor; it is ours, and closed on exec."""
    return _checked(libc.syscall(_long(PIDFD_GETFD), _long(pidfd), _long(number), _long(0)))


def read_memory(pid: int, address: int, length: int) -> bytes:
    """Bytes of another process's memory, all of them or an OSError."""
    room = ctypes.create_string_buffer(length)
    here = _Vector(ctypes.addressof(room), length)
    there = _Vector(address, length)
    got = _checked(libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
    if got != length:
        raise OSError(14, "the memory ends before")  # EFAULT
    return room.raw


def connect(number: int, address: bytes) -> int:
    """connect(2) to an address as the kernel reads it; its errno, 0 if the connection stands."""
    return 0 if libc.connect(number, address, len(address)) == 0 else ctypes.get_errno()


def any_address(family: int) -> bytes:
    """An address of a family, where the kernel asks for one and does not look at it."""
    return struct.pack("=H26x", family)


def signal_descriptor(signals: Iterable[int]) -> int:
    """A descriptor that tells of blocked signals, 128 bytes each (signalfd(2))."""
    mask = sum(1 << (number - 1) for number in signals)
    room = _Libc_sigset(*struct.pack("=Q", mask))
    return _checked(libc.signalfd(-1, room, SFD_CLOEXEC | SFD_NONBLOCK))


def register(machine: Machine, poll: int, number: int, events: int, data: int) -> None:
    """epoll_ctl(2), to add a descriptor with data of the caller's own."""
    event = struct.pack("=IQ" if machine.packed else "=I4xQ", events, data)
    _checked(libc.epoll_ctl(poll, EPOLL_CTL_ADD, number, event))
