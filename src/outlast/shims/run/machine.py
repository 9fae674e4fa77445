"""Numbers of this machine's system calls: Linux on x86-64 and on 64-bit Arm.

Source: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h for the calls,
include/uapi/linux/audit.h for the architecture words. Refuses every other machine by name: a filter
with another one's numbers would watch the wrong calls.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

__all__ = ["MACHINES", "Machine", "Unsupported", "this_machine"]


class Unsupported(Exception):
    """`outlast run` is not possible here. The text names what is missing."""


@dataclass(frozen=True, slots=True)
class Machine:
    """`arch`: the word that seccomp shows. `seccomp`, `connect`, `getsockopt`, `epoll_create`:
    numbers of calls. `x32`: the bit that marks calls of the other ABI under the same word; 0 where
    there is none. `packed`: whether struct epoll_event has no gap."""

    arch: int
    seccomp: int
    connect: int
    getsockopt: int
    epoll_create: tuple[int, ...]
    x32: int = 0
    packed: bool = False


# The same on both, as of every call that is younger than Linux 5.1.
IO_URING_SETUP = 425
PIDFD_GETFD = 438
LANDLOCK_RESTRICT_SELF = 446

MACHINES = {
    "x86_64": Machine(0xC000003E, 317, 42, 55, (213, 291), x32=0x40000000, packed=True),
    "aarch64": Machine(0xC00000B7, 277, 203, 209, (20,)),
}


def this_machine() -> Machine:
    """The machine that this is. Raises Unsupported."""
    if sys.platform != "linux":
        raise Unsupported(f"needs Linux; this is {sys.platform}")
    name = os.uname().machine
    found = MACHINES.get(name)
    if found is None or sys.maxsize < 2**32:
        known = " and ".join(MACHINES)
        raise Unsupported(f"knows the system calls of 64-bit {known} only; this is {name}")
    return found
