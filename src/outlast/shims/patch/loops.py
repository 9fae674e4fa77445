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
from typing import TYPE_CHECKING, Any

from outlast.net.address import literal
from outlast.net.kernel import kernel
from outlast.net.run import run_async
from outlast.net.under_way import pending_error
from outlast.shims.patch.connecting import Connect, begin, worth_a_race
from outlast.shims.patch.courses import Course, Courses
from outlast.shims.patch.sockets import Native, course_of

if TYPE_CHECKING:
    import asyncio

__all__ = ["sock_connect_for"]


def sock_connect_for(courses: Courses, original: Native, native: Native) -> Native:
    """In place of `BaseSelectorEventLoop.sock_connect`. `native`: the C type's `connect`."""

    @functools.wraps(original)
    async def sock_connect(self: asyncio.AbstractEventLoop, sock: Any, address: Any) -> None:
        course = None if sock.gettimeout() != 0 else await _course(self, courses, sock, address)
        if course is None:
            await original(self, sock, address)
            return
        connect = begin(sock, course, courses.settings.policy, None)
        if connect.alone:
            await original(self, sock, address)
            return
        try:
            await _connect(self, connect, native)
        finally:
            if sock.fileno() >= 0:
                sock.settimeout(0.0)  # what takes its place does not block either

    return sock_connect


async def _course(
    loop: asyncio.AbstractEventLoop, courses: Courses, sock: Any, address: Any
) -> Course | None:
    """See `course_of`; a name is looked up by the loop, as the original does."""
    host = address[0] if isinstance(address, tuple) and len(address) > 1 else None
    if isinstance(host, str) and literal(host, 1) is None and host:
        infos = await loop.getaddrinfo(*address[:2], family=sock.family, type=sock.type)
        address = infos[0][4]
    return course_of(courses, sock, address)


async def _connect(loop: asyncio.AbstractEventLoop, connect: Connect, native: Native) -> None:
    """The program's own dial, and a race where that is silent or fails."""
    error = None
    if connect.course.first is not None:
        try:
            native(connect.sock, connect.destination)
            answered = True
        except (BlockingIOError, InterruptedError):
            answered = await _answer(loop, connect)
            error = pending_error(connect.sock, connect.destination) if answered else None
        except OSError as failed:
            answered, error = True, failed
        if error is not None and not worth_a_race(error):
            raise error
        if answered and error is None:
            connect.connected()
            return
    await run_async(kernel(), connect.settle(error))


async def _answer(loop: asyncio.AbstractEventLoop, connect: Connect) -> bool:
    """Whether its own dial is over before another one is due."""
    number = connect.sock.fileno()
    over: asyncio.Future[bool] = loop.create_future()
    loop.add_writer(number, _tell, over, True)
    timer = loop.call_later(min(connect.delay, connect.limit), _tell, over, False)
    try:
        return await over
    finally:
        timer.cancel()
        loop.remove_writer(number)


def _tell(over: asyncio.Future[bool], answered: bool) -> None:
    if not over.done():
        over.set_result(answered)
