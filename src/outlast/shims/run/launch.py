"""The program's beginning: a child that puts itself under the filter, and waits for the word.

The listener goes to the supervisor over a socket pair; the supervisor tries whether it may do what
it needs to do with that very child, and only then says go. What fails is told by the call's name,
and what usually forbids it. Source: seccomp(2), pidfd_getfd(2), ptrace(2) on access modes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outlast.shims.run import calls
from outlast.shims.run.bpf import program
from outlast.shims.run.machine import Machine, Unsupported

__all__ = ["Child", "Command", "begin", "let_go"]

NOT_FOUND, NOT_RUNNABLE = 127, 126  # exit codes, as of a shell
SIZES = (80, 24)  # bytes of struct seccomp_notif and seccomp_notif_resp, linux/seccomp.h
_LETTER = b"g"
_PATIENCE = 10.0  # seconds for a child that does nothing but system calls
_PROBE = ctypes.create_string_buffer(b"outlast")  # stands at the same place in the child
_RESTORED = ("SIGPIPE", "SIGXFSZ")  # Python ignores them, and exec would hand that on


@dataclass(frozen=True, slots=True)
class Command:
    """`words`: the program and its arguments. `mask`: signals blocked when we were started.
    `front`: the process that was started. `inherited`: descriptors that are meant for the program,
    beside the standard ones."""

    words: Sequence[str]
    mask: frozenset[int]
    io_uring: bool
    front: int
    inherited: tuple[int, ...]


class Child:
    """A program that is under the filter and has not begun. One owner."""

    def __init__(self, pid: int, line: socket.socket, listener: int, theirs: int) -> None:
        self.pid = pid
        self.line = theirs  # the number of its own end
        self.listener = listener
        self._line = line

    def go(self) -> None:
        """Let it become the program."""
        self._line.send(_LETTER)

    def failed(self) -> int:
        """Wait until it has: 0, or the errno of exec."""
        told = self._line.recv(64)
        self._line.close()
        return int(told) if told else 0

    def drop(self) -> None:
        """Have it end without having begun."""
        self._line.close()
        os.waitpid(self.pid, 0)


def begin(machine: Machine, command: Command) -> Child:
    """Start the child. Raises Unsupported, naming what is refused and what usually refuses it."""
    _check_sizes(machine)
    code = program(machine, io_uring=command.io_uring)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if not pid:
        ours.close()
        _become(machine, command, code, theirs)
    number = theirs.fileno()
    theirs.close()
    ours.settimeout(_PATIENCE)
    told, files, _, _ = socket.recv_fds(ours, 64, 1)
    if not files:
        ours.close()
        os.waitpid(pid, 0)
        raise Unsupported(_filter_refused(int(told or b"0")))
    ours.settimeout(None)
    child = Child(pid, ours, files[0], number)
    try:
        _rehearse(child)
    except Unsupported:
        os.close(child.listener)
        child.drop()
        raise
    return child


def let_go(inherited: Iterable[int], *standard: int) -> None:
    """Close what is the program's to keep open or close. Standard descriptors become /dev/null, so
    that no other file takes their numbers."""
    for number in inherited:
        os.close(number)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in standard:
        os.dup2(nothing, number)
    os.close(nothing)


def _check_sizes(machine: Machine) -> None:
    try:
        sizes = calls.supported_sizes(machine)
    except OSError as error:
        raise Unsupported(
            f"this kernel has no seccomp user notification, or a container's profile hides it "
            f"(seccomp: {error.strerror}); Linux 5.14 or later is needed"
        ) from error
    if sizes[0] < SIZES[0] or sizes[1] < SIZES[1]:
        raise Unsupported(f"this kernel's seccomp notifications have other sizes: {sizes}")


def _filter_refused(code: int) -> str:
    if code == errno.EBUSY:
        return (
            "this process is under a supervisor of seccomp notifications already, and a kernel has "
            "room for one (EBUSY): another `outlast run`, or a container runtime's agent"
        )
    reason = os.strerror(code) if code else "no answer"
    return f"the kernel refuses the filter (seccomp: {reason}); a container's profile may forbid it"


def _rehearse(child: Child) -> None:
    """Try on the child what is to be done with the program."""
    hint = (
        "the rule is that of ptrace(2): the same user, no higher Yama ptrace_scope than 1, "
        "and a container's profile that has the call"
    )
    try:
        pidfd = os.pidfd_open(child.pid)
    except OSError as error:
        raise Unsupported(f"pidfd_open is refused ({error.strerror})") from error
    try:
        os.close(calls.get_descriptor(pidfd, child.line))
    except OSError as error:
        raise Unsupported(f"pidfd_getfd is refused ({error.strerror}); {hint}") from error
    finally:
        os.close(pidfd)
    try:
        calls.read_memory(child.pid, ctypes.addressof(_PROBE), 1)
    except OSError as error:
        raise Unsupported(f"process_vm_readv is refused ({error.strerror}); {hint}") from error


def _become(machine: Machine, command: Command, code: bytes, line: socket.socket) -> None:
    """The child's life until exec. Never returns."""
    try:
        for name in _RESTORED:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        if os.environ.get("LISTEN_PID") == str(command.front):  # sd_listen_fds(3)
            os.environ["LISTEN_PID"] = str(os.getpid())
        calls.no_new_privileges()
        listener = calls.install_filter(machine, code)
    except OSError as error:
        line.send(str(error.errno).encode())
        os._exit(NOT_RUNNABLE)
    socket.send_fds(line, [b"0"], [listener])
    os.close(listener)
    if line.recv(1) != _LETTER:
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, command.mask)
    try:
        os.execvp(command.words[0], list(command.words))
    except OSError as error:
        line.send(str(error.errno).encode())
    os._exit(NOT_FOUND)
