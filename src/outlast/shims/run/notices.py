"""The listener: what the program is about to do, and what it is answered.

Source: seccomp_unotify(2), linux/seccomp.h. An answer may come too late, because a signal or death
has taken the caller away: then it is False, never an error.
"""

from __future__ import annotations

import errno
import fcntl
import select
import struct
from dataclasses import dataclass

__all__ = ["ANSWER", "NOTICE", "Listener", "Notice"]

NOTICE = struct.Struct("=QIIiIQ6Q")
ANSWER = struct.Struct("=QqiI")
_ADD = struct.Struct("=QIIII")
_RECEIVE = 0xC0502100  # _IOWR('!', 0, struct seccomp_notif), and its neighbours
_SEND = 0xC0182101
_VALID = 0x40082102
_ADDFD = 0x40182103
_SET_FLAGS = 0x40082104
_CONTINUE = 1
_SETFD, _ADD_AND_SEND = 1, 2
_SYNC_WAKE_UP = 1
CLOEXEC = 0o2000000
_LATE = (errno.ENOENT, errno.EINPROGRESS)  # gone, or answered by somebody else


@dataclass(frozen=True, slots=True)
class Notice:
    """One system call that waits. `pid`: of the thread; 0 if it cannot be seen from here."""

    id: int
    pid: int
    call: int
    arguments: tuple[int, ...]


class Listener:
    """The supervisor's end of a filter. One owner at a time. Closed by `close`."""

    __slots__ = ("_poll", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self._poll = select.poll()
        self._poll.register(number, select.POLLIN)

    def fileno(self) -> int:
        """For waiting."""
        return self.number

    def prefer_sync(self) -> bool:
        """Have the kernel hand calls over on the caller's own processor; Linux 6.6 has it."""
        try:
            fcntl.ioctl(self.number, _SET_FLAGS, _SYNC_WAKE_UP)
        except OSError:
            return False
        return True

    def look(self) -> int:
        """What is there now: POLLIN for a call, POLLHUP if nobody is under the filter any more."""
        return next((mask for _, mask in self._poll.poll(0)), 0)

    def receive(self) -> Notice | None:
        """The next call that waits; None if it is gone again. Blocks if there is none."""
        room = bytearray(NOTICE.size)
        try:
            fcntl.ioctl(self.number, _RECEIVE, room, True)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                return None
            raise
        id_, pid, _flags, call, _arch, _ip, *arguments = NOTICE.unpack(room)
        return Notice(id_, pid, call, tuple(arguments))

    def valid(self, notice: Notice) -> bool:
        """Whether the caller still waits: then what was read by its pid was its own."""
        return self._tell(_VALID, struct.pack("=Q", notice.id))

    def let(self, notice: Notice) -> bool:
        """Let the kernel carry the call out, as if nobody had looked."""
        return self.let_id(notice.id)

    def let_id(self, id_: int) -> bool:
        """See `let`."""
        return self._tell(_SEND, ANSWER.pack(id_, 0, 0, _CONTINUE))

    def answer(self, notice: Notice, code: int) -> bool:
        """Have the call return: 0, or -1 with this errno."""
        return self._tell(_SEND, ANSWER.pack(notice.id, 0, -code, 0))

    def put(self, notice: Notice, ours: int, theirs: int, *, cloexec: bool) -> bool:
        """Put a copy of our descriptor in the place of the caller's, which is closed."""
        flags = CLOEXEC if cloexec else 0
        return self._tell(_ADDFD, _ADD.pack(notice.id, _SETFD, ours, theirs, flags))

    def close(self) -> None:
        """Calls that wait, and all later ones, fail with ENOSYS, unless somebody has a copy."""
        import os

        os.close(self.number)

    def _tell(self, request: int, message: bytes) -> bool:
        while True:
            try:
                fcntl.ioctl(self.number, request, message)
            except OSError as error:
                if error.errno in _LATE:
                    return False
                if error.errno != errno.EINTR:  # else nothing was done
                    raise
            else:
                return True
