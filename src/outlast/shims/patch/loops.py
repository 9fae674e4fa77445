"""asyncio: `sock_connect` of its selector loop, through which `create_connection` goes too.

Here the task waits, not a poll: so an error of the program's own dial can be followed by another
dial, and nothing is registered when the winner takes its place. The race runs in the task's own
loop, and a cancellation ends it at once. A task tells no time-out, so `Policy.connect_timeout`
bounds the connect; whoever cancels sooner is obeyed.

trio and loops in C (uvloop, for sockets that are given to it) connect a non-blocking socket and
poll: see `pending`.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from typing import TYPE_CHECKING, Any

from outlast.net.address import literal
from outlast.net.kernel import kernel
from outlast.net.run import run_async
from outlast.net.under_way import pending_error
from outlast.shims.patch.connecting import Connect, begin, worth_a_race
from outlast.shims.patch.courses import Courses
from outlast.shims.patch.sockets import Native, course_of

if TYPE_CHECKING:
    import asyncio

__all__ = ["sock_connect_for"]


def sock_connect_for(courses: Courses, original: Native, native: Native) -> Native:
    """In place of `BaseSelectorEventLoop.sock_connect`. `native`: the C type's `connect`."""

    @functools.wraps(original)
    async def sock_connect(self: asyncio.AbstractEventLoop, sock: Any, address: Any) -> None:
        course = None
        if sock.gettimeout() == 0 and getattr(sock, "do_handshake", None) is None:
            if not _is_kept(courses, address) and _is_name(address):
                address = await _looked_up(self, sock, address)
            course = course_of(courses, sock, address)
        connect = None if course is None else begin(sock, course, courses.settings.policy, None)
        if connect is None or connect.alone:
            await original(self, sock, address)
        else:
            await _connect(self, connect, native)

    return sock_connect


def _is_kept(courses: Courses, address: Any) -> bool:
    try:
        return address in courses.kept
    except TypeError:  # a list
        return False


def _is_name(address: Any) -> bool:
    if type(address) is not tuple or len(address) != 2 or type(address[0]) is not str:
        return False
    host, port = address
    return bool(host) and type(port) is int and literal(host, port) is None


async def _looked_up(loop: asyncio.AbstractEventLoop, sock: Any, address: Any) -> Any:
    """As the original does, in a thread of the loop's."""
    infos = await loop.getaddrinfo(*address, family=sock.family, type=sock.type, proto=sock.proto)
    return infos[0][4] if infos else address


async def _connect(loop: asyncio.AbstractEventLoop, connect: Connect, native: Native) -> None:
    """The program's own dial, and a race where that is silent or fails."""
    error: OSError | None = None
    if connect.course.first is not None:
        answered = True
        try:
            native(connect.sock, connect.destination)
        except (BlockingIOError, InterruptedError):
            number = connect.sock.fileno()
            over: asyncio.Future[bool] = loop.create_future()
            loop.add_writer(number, _tell, over, True)
            due = connect.began + min(connect.delay, connect.limit)
            _timer_of(loop).add(loop, due, over)
            try:
                answered = await over
            finally:
                loop.remove_writer(number)
            error = pending_error(connect.sock, connect.destination) if answered else None
        except OSError as failed:
            error = failed
        if error is not None and not worth_a_race(error):
            raise error
        if answered and error is None:
            connect.connected()
            return
    await run_async(kernel(), connect.settle(error))


class _Timer:
    """One timer for all connects of a loop: nearly all are over long before another dial would be
    due, and a timer of the loop's own for each costs as much as the rest of this module. Belongs
    to its loop's thread."""

    __slots__ = ("_armed", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, asyncio.Future[bool]]] = []
        self._armed = False

    def add(self, loop: asyncio.AbstractEventLoop, due: float, over: asyncio.Future[bool]) -> None:
        """Have it told when another dial is due."""
        first = not self._waiting or due < self._waiting[0][0]
        heapq.heappush(self._waiting, (due, next(_order), over))
        if first or not self._armed:
            self._arm(loop, due)

    def _arm(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._armed = True
        loop.call_later(max(0.0, due - kernel().now()), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, at = self._waiting, kernel().now()
        while waiting and (waiting[0][0] <= at or waiting[0][2].done()):
            _tell(heapq.heappop(waiting)[2], False)
        self._armed = bool(waiting)
        if waiting:
            self._arm(loop, waiting[0][0])


_order = itertools.count()
KEPT = "_outlast_timer"  # an attribute of the loop's: the quickest place that goes with it


def _timer_of(loop: asyncio.AbstractEventLoop) -> _Timer:
    timer: _Timer | None = getattr(loop, KEPT, None)
    if timer is None:
        timer = _Timer()
        setattr(loop, KEPT, timer)
    return timer


def _tell(over: asyncio.Future[bool], answered: bool) -> None:
    if not over.done():
        over.set_result(answered)
