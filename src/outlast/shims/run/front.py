"""`outlast run` itself: starts the supervisor's process, passes signals on, ends as the program
does, and answers in the supervisor's place if that is killed.

Signals that somebody sends to this process are passed on to the program; those that the terminal
sends reach the program by themselves. A program that is stopped stops this process too, so that a
shell sees it. The exit code is the program's; one that a signal has ended ends this process by the
same signal. While the supervisor lives nothing here listens; when it has died every call is left to
the kernel: the program goes on, as if it had been started without us. One that does not take its
turns any more is killed, to the same end: what it read of the program's memory may never come.

Source: signalfd(2), setpgid(2) on job control, seccomp_unotify(2).
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from outlast.shims.run import calls
from outlast.shims.run.explain import Explainer
from outlast.shims.run.launch import NOT_FOUND, NOT_RUNNABLE, Command, let_go
from outlast.shims.run.machine import Machine, Unsupported, this_machine
from outlast.shims.run.notices import Listener
from outlast.shims.run.service_process import serve
from outlast.shims.run.supervisor import LAST_CALL, TURNS
from outlast.shims.settings import Settings

__all__ = ["FAULT", "Wish", "run"]

FAULT = 125  # exit code where the runner itself fails, as of env(1) and timeout(1)
PASSED_ON = (
    *(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1),
    *(signal.SIGUSR2, signal.SIGALRM, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT),
)
WATCHED = (*PASSED_ON, signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU)
_INFO = struct.Struct("=Iii")  # ssi_signo, ssi_errno, ssi_code, of 128 bytes
_INFO_SIZE = 128
FROM_KERNEL = 0x80  # SI_KERNEL: the terminal's
TURN, MISSED = 2.0, 5  # seconds between two looks at the supervisor; looks without a turn of its
SWEPT, AHEAD = 20_000, 64  # calls before and after the last known one that may still wait


@dataclass(frozen=True, slots=True)
class Wish:
    """What `outlast run` was asked for. `unprotected`: where supervision is refused, run the
    program without it."""

    words: Sequence[str]
    settings: Settings
    explain: bool = False
    unprotected: bool = False
    io_uring: bool = True


def run(wish: Wish) -> NoReturn:
    """Run the program and end as it does."""
    _reserve_standard()
    mask = frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED))
    try:
        machine = this_machine()
        command = Command(wish.words, mask, wish.io_uring, os.getpid(), _inherited())
        _Front(machine, command, wish).run()
    except Unsupported as error:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _unsupported(wish, str(error))


def _reserve_standard() -> None:
    """Where standard descriptors are closed no file of ours may take their numbers. What stands
    there instead is closed by exec, so that the program has it as it was."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        continue
    os.close(number)


def _inherited() -> tuple[int, ...]:
    """Descriptors that whoever started us has left open for the program."""
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if number > 2 and os.get_inheritable(number):
                found.append(number)
        except OSError:  # the one by which they were listed
            continue
    return tuple(found)


def _unsupported(wish: Wish, why: str) -> NoReturn:
    if not wish.unprotected:
        _say(f"{why}. Nothing was started; with --unprotected the program runs as it is.")
        sys.exit(FAULT)
    _say(f"{why}. {wish.words[0]} runs unprotected.")
    if sys.platform == "linux":
        calls.adopt_orphans(wanted=False)
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execvp(wish.words[0], list(wish.words))
    except OSError as error:
        sys.exit(_not_started(wish.words[0], error.errno or 0))


def _say(text: str) -> None:
    Explainer(wanted=True).tell(text)


def _not_started(program: str, code: int) -> int:
    _say(f"{program}: {os.strerror(code)}")
    return NOT_FOUND if code == 2 else NOT_RUNNABLE  # ENOENT


class _Front:
    """See the module."""

    def __init__(self, machine: Machine, command: Command, wish: Wish) -> None:
        self._wish = wish
        self._command = command
        self._machine = machine
        self._program = 0
        self._listener: Listener | None = None
        self._failed = 0  # errno of exec
        self._shared = mmap.mmap(-1, LAST_CALL.size + TURNS.size)
        self._turns = self._missed = 0
        self._supervisor = 0
        self._gone = False
        self._poll = select.poll()

    def run(self) -> NoReturn:
        calls.adopt_orphans()
        signals = calls.signal_descriptor(WATCHED)
        line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._supervisor = os.fork()
        if not self._supervisor:
            line.close()
            os.close(signals)
            serve(
                self._machine,
                self._command,
                self._wish.settings,
                self._wish.explain,
                theirs,
                self._shared,
            )
        theirs.close()
        heard = line.fileno()
        for number in (heard, signals):
            self._poll.register(number, select.POLLIN)
        due = time.monotonic() + TURN
        while True:
            found = self._poll.poll(TURN * 1000)
            if time.monotonic() >= due:
                self._look_after_supervisor()
                due = time.monotonic() + TURN
            for number, _ in found:
                if number == signals:
                    self._signals(signals)
                elif number == heard:
                    self._hear(line)
                else:
                    self._stand_in()

    # -- the supervisor's word -------------------------------------------------------------

    def _hear(self, line: socket.socket) -> None:
        message, files, _, _ = socket.recv_fds(line, 4096, 1)
        told: dict[str, Any] = dict(json.loads(message)) if message else {}
        if files:
            self._listener = Listener(files[0])
        if not message:
            self._supervisor_gone(line)
        elif "started" in told:
            self._program = told["started"]
            let_go(self._command.inherited, 0, 1)
        elif "refused" in told:
            raise Unsupported(told["refused"])
        elif "fault" in told:
            _say(f"the supervisor has failed: {told['fault']}; the program goes on unprotected")
        elif "failed" in told:
            self._failed = told["failed"]
        elif "stopped" in told:
            os.kill(os.getpid(), signal.SIGSTOP)
        elif "status" in told:
            self._end(told["status"])

    def _end(self, status: int) -> NoReturn:
        """End as the program has ended."""
        if self._failed:
            sys.exit(_not_started(self._wish.words[0], self._failed))
        if os.WIFEXITED(status):
            sys.exit(os.WEXITSTATUS(status))
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core is enough
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        sys.exit(128 + number)

    # -- signals ---------------------------------------------------------------------------

    def _signals(self, descriptor: int) -> None:
        for raw in _infos(descriptor):
            number, _, code = _INFO.unpack_from(raw)
            if number == signal.SIGCHLD:
                self._reap()
            elif number in PASSED_ON and code != FROM_KERNEL and self._program:
                _send(self._program, number)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._program:
                self._end(status)

    # -- in the supervisor's place ---------------------------------------------------------

    def _supervisor_gone(self, line: socket.socket) -> None:
        """Let go of all calls that wait for it, and be there for those that come."""
        self._poll.unregister(line)
        line.close()
        self._gone = True
        if not self._program or self._listener is None:
            _say("the supervisor has ended before the program began")
            sys.exit(FAULT)
        last = struct.unpack_from("=Q", self._shared, 0)[0]
        for number in range(last + AHEAD, max(0, last - SWEPT), -1):
            self._listener.let_id(number % 2**64)
        self._poll.register(self._listener.fileno(), select.POLLIN)
        self._reap()

    def _look_after_supervisor(self) -> None:
        """Kill one that hangs. A machine that sleeps or is slow holds both of us up."""
        if not self._program or self._gone:
            return
        turns, self._turns = self._turns, TURNS.unpack_from(self._shared, LAST_CALL.size)[0]
        self._missed = self._missed + 1 if turns == self._turns else 0
        if self._missed >= MISSED:
            _say(f"the supervisor hangs; {self._wish.words[0]} goes on unprotected")
            _send(self._supervisor, signal.SIGKILL)
            self._gone = True

    def _stand_in(self) -> None:
        listener = self._listener
        assert listener is not None
        if not listener.look() & select.POLLIN:
            self._poll.unregister(listener.fileno())  # nobody is under the filter any more
            return
        notice = listener.receive()
        if notice is not None:
            listener.let(notice)


def _infos(descriptor: int) -> Sequence[bytes]:
    try:
        raw = os.read(descriptor, 16 * _INFO_SIZE)
    except BlockingIOError:
        return ()
    return [raw[at : at + _INFO_SIZE] for at in range(0, len(raw), _INFO_SIZE)]


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # it has ended: its status is under way
        return
