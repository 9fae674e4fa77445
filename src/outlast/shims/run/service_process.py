"""The supervisor's process: between `outlast run` itself and the program, and the program's parent.

It is a process of its own so that `outlast run` can end with the program while descendants go on
under supervision, and so that a supervisor that is killed leaves somebody who answers (`front`). It
is the parent, and adopts orphans, because Yama lets only ancestors look into a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import os
import resource
import signal
import socket
from typing import Any

from outlast.net.kernel import kernel
from outlast.net.run import give_way, run_async
from outlast.shims.run import calls
from outlast.shims.run.alike import Likeness
from outlast.shims.run.explain import Explainer
from outlast.shims.run.launch import Child, Command, begin, let_go
from outlast.shims.run.machine import Machine, Unsupported
from outlast.shims.run.mender import Mender
from outlast.shims.run.notices import Listener
from outlast.shims.run.supervisor import Supervisor
from outlast.shims.settings import Settings

__all__ = ["LEFT_ALONE", "serve"]

UNBLOCK = 1.0  # seconds
# Meant for the program: whoever sends them to the whole group does not mean to end the supervisor.
LEFT_ALONE = (
    *(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1),
    *(signal.SIGUSR2, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
)


def serve(
    machine: Machine,
    command: Command,
    settings: Settings,
    explain: bool,
    line: socket.socket,
    shared: mmap.mmap,
) -> None:
    """The process's life. Never returns."""
    code = 1
    try:
        calls.adopt_orphans()
        mender = Mender(machine)
        try:
            likeness = Likeness()
            child = begin(machine, command)
        except Unsupported as error:
            tell(line, refused=str(error))
            os._exit(0)
        let_go(command.inherited, 0, 1)
        for number in LEFT_ALONE:
            signal.signal(number, signal.SIG_IGN)
        _never_block()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        supervisor = Supervisor(
            machine,
            Listener(child.listener),
            mender,
            likeness,
            settings,
            Explainer(wanted=explain),
            shared,
        )
        asyncio.run(_supervise(supervisor, child, line))
        code = 0
    except Exception as error:  # noqa: BLE001  the last word of a process
        with contextlib.suppress(OSError):
            tell(line, fault=f"{type(error).__name__}: {error}")
    finally:
        os._exit(code)


def tell(line: socket.socket, **what: Any) -> None:
    """One message to `front`."""
    with contextlib.suppress(OSError):  # it has been killed
        line.send(json.dumps(what).encode())


def _never_block() -> None:
    """A connect on the program's socket can be made to block by the program, which shares its
    flags: a signal ends whatever blocks in this process within a second."""
    signal.signal(signal.SIGALRM, _nothing)
    signal.setitimer(signal.ITIMER_REAL, UNBLOCK, UNBLOCK)


def _nothing(number: int, frame: object) -> None:
    """That the signal was there is all it is for."""
    del number, frame


async def _supervise(supervisor: Supervisor, child: Child, line: socket.socket) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.suppress(OSError):
        socket.send_fds(line, [json.dumps({"started": child.pid}).encode()], [child.listener])
    explainer = supervisor.explainer
    if not await supervisor.destinations.first_look_up():
        explainer.warn("not all names of the scope are known yet: their servers are slow")
    loop = asyncio.get_running_loop()
    parent = _Parent(child.pid, line, explainer.wanted)
    loop.add_signal_handler(signal.SIGCHLD, parent.reap)
    child.go()
    code = child.failed()
    if code:
        tell(line, failed=code)
    parent.reap()
    await run_async(kernel(), give_way())  # loads what the first race would have to wait for
    await supervisor.run()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGALRM})  # the loop ends
    parent.reap()


class _Parent:
    """Hears of the program's end and stops; buries orphans."""

    def __init__(self, program: int, line: socket.socket, explain: bool) -> None:
        self._program = program
        self._line = line
        self._explain = explain

    def reap(self) -> None:
        """Take in whatever has changed."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid != self._program:
                continue
            if os.WIFSTOPPED(status):
                tell(self._line, stopped=os.WSTOPSIG(status))
                continue
            tell(self._line, status=status)
            if not self._explain:
                let_go((), 2)  # who reads it need not wait for what the program has left
