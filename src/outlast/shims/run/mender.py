"""A helper process that puts a new file into a program's epolls, under the program's own number.

An epoll knows a file by the file and the number under which it was added, and epoll_ctl(2) takes
the number from the caller's own descriptor table. So whoever adds one must have the new file at
that very number: this process has a table with nothing else in it. Sources: epoll(7), "Q6";
fs/eventpoll.c, ep_insert.

Refuses nothing: a registration that the kernel does not take is counted, and told.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from outlast.shims.run.calls import register
from outlast.shims.run.machine import Machine

__all__ = ["Mender", "Registration"]

_HEAD = struct.Struct("=II")  # number, registrations
_EACH = struct.Struct("=IQ")  # events, data
_REPLY = struct.Struct("=I")
MOST = 64  # epolls that one socket may be registered in
PATIENCE = 2.0  # seconds for an answer; the helper does nothing that waits


@dataclass(frozen=True, slots=True)
class Registration:
    """`poll`: a descriptor of ours for the epoll. `events`, `data`: as the program gave them."""

    poll: int
    events: int
    data: int


class Mender:
    """The supervisor's side. The helper ends with it. One owner."""

    def __init__(self, machine: Machine) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if not self.pid:
            _serve(theirs, machine)
        theirs.close()
        ours.settimeout(PATIENCE)
        self._line = ours

    def add(self, file: int, number: int, wanted: Sequence[Registration]) -> int:
        """Add our `file` to epolls as `number`; how many took it. Raises OSError if the helper is
        gone."""
        wanted = wanted[:MOST]
        message = _HEAD.pack(number, len(wanted))
        message += b"".join(_EACH.pack(each.events, each.data) for each in wanted)
        socket.send_fds(self._line, [message], [file, *(each.poll for each in wanted)])
        reply = self._line.recv(_REPLY.size)
        if not reply:
            raise OSError("the helper for epolls has ended")
        return int(_REPLY.unpack(reply)[0])

    def close(self) -> None:
        """Let the helper end."""
        self._line.close()


def _serve(line: socket.socket, machine: Machine) -> None:
    """The helper's life. Never returns."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)  # it ends when the supervisor does
        control: socket.socket | None = _alone_with(line)
        while control is not None:
            control = _serve_one(control, machine)
    finally:
        os._exit(0)  # a fault is seen by the supervisor, as the end of the line


def _alone_with(line: socket.socket) -> socket.socket:
    """Nothing open but the line, and every number free to be used."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    number = line.detach()
    os.dup2(number, 0)
    os.closerange(1, min(soft if soft > 0 else 65536, 1 << 20))
    return socket.socket(fileno=0)


def _serve_one(line: socket.socket, machine: Machine) -> socket.socket | None:
    message, files, _, _ = socket.recv_fds(line, _HEAD.size + MOST * _EACH.size, MOST + 1)
    if not message:
        return None
    number, count = _HEAD.unpack_from(message)
    if line.fileno() == number:
        line = _moved(line, number)
    files = [
        fcntl.fcntl(each, fcntl.F_DUPFD, number + 1) if each == number else each for each in files
    ]
    new, *polls = files
    os.dup2(new, number)
    added = 0
    for at, poll in enumerate(polls[:count]):
        events, data = _EACH.unpack_from(message, _HEAD.size + at * _EACH.size)
        with contextlib.suppress(OSError):  # the program may have added it again by itself
            register(machine, poll, number, events, data)
            added += 1
    for each in {number, *files}:
        os.close(each)
    line.send(_REPLY.pack(added))
    return line


def _kept(file: int, number: int) -> int:
    """A file, under another number than the one that is needed."""
    return fcntl.fcntl(file, fcntl.F_DUPFD, number + 1) if file == number else file


def _moved(line: socket.socket, number: int) -> socket.socket:
    """The line under another number than the one that is needed."""
    elsewhere = fcntl.fcntl(line.fileno(), fcntl.F_DUPFD, number + 1)
    line.close()
    return socket.socket(fileno=elsewhere)
