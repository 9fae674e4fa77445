"""The filter: which system calls of the program the supervisor hears of. All others never wait.

Told are connect(2), and what belongs to it: getsockopt(SO_ERROR), by which a program asks how its
connect has ended; epoll_create(2), the mark of a program that must not be kept waiting;
landlock_restrict_self(2), after which the supervisor may not dial for it; and io_uring_setup(2),
whose connects no filter sees. Calls of a foreign architecture (32-bit programs, x32) pass unseen:
docs/run.md lists them.

Source: seccomp(2), linux/filter.h, linux/seccomp.h. Refuses to deny anything but io_uring, and
that only where it is asked to.
"""

from __future__ import annotations

import errno
import socket
import struct

from outlast.shims.run.machine import IO_URING_SETUP, LANDLOCK_RESTRICT_SELF, Machine

__all__ = ["program"]

LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06  # linux/bpf_common.h
ALLOW = 0x7FFF0000
NOTIFY = 0x7FC00000
ERRNO = 0x00050000
NUMBER, ARCH, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data


def program(machine: Machine, *, io_uring: bool) -> bytes:
    """The filter as an array of struct sock_filter. `io_uring`: whether the program may use it;
    else it is told that this kernel has none (ENOSYS), and falls back to plain calls."""
    lines: list[tuple[int, int, str, str]] = [
        (LOAD, ARCH, "", ""),
        (EQUAL, machine.arch, "", "allow"),
        (LOAD, NUMBER, "", ""),
    ]
    if machine.x32:
        lines.append((AT_LEAST, machine.x32, "allow", ""))
    lines += [
        (EQUAL, machine.connect, "notify", ""),
        *((EQUAL, number, "notify", "") for number in machine.epoll_create),
        (EQUAL, LANDLOCK_RESTRICT_SELF, "notify", ""),
        (EQUAL, IO_URING_SETUP, "notify" if io_uring else "deny", ""),
        (EQUAL, machine.getsockopt, "", "allow"),
        (LOAD, _low(1), "", ""),
        (EQUAL, socket.SOL_SOCKET, "", "allow"),
        (LOAD, _low(2), "", ""),
        (EQUAL, socket.SO_ERROR, "notify", "allow"),
    ]
    return _assembled(lines)


def _low(argument: int) -> int:
    """The lower half of an argument; both machines are little-endian, and an int has no more."""
    return ARGUMENTS + 8 * argument


def _assembled(lines: list[tuple[int, int, str, str]]) -> bytes:
    """Jumps by name become distances. Behind the lines come the three endings."""
    ends = {"allow": ALLOW, "notify": NOTIFY, "deny": ERRNO | errno.ENOSYS}
    place = {name: len(lines) + number for number, name in enumerate(ends)}
    code = b""
    for at, (operation, operand, yes, no) in enumerate(lines):
        jumps = [place[name] - at - 1 if name else 0 for name in (yes, no)]
        code += struct.pack("=HBBI", operation, *jumps, operand)
    for verdict in ends.values():
        code += struct.pack("=HBBI", RETURN, 0, 0, verdict)
    return code
