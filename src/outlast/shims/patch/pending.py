"""Connects of non-blocking sockets that are under way: raced for in the background.

A program that polls is told EINPROGRESS at once, and looks again when its poll says so. Once the
attempt delay has passed without an answer further dials join on the background thread, and if one
of them wins it takes the place of the program's, registrations with epoll included, so that the
program's poll finds a connected socket under its number.

The error of the program's own dial is the program's: its poll wakes it at the same moment, and a
race that read the error (SO_ERROR is read once) would hide it. A dial that stays silent until the
limit is ended by a user timeout, with ETIMEDOUT, as the kernel would some time later.

Refuses to work where sockets have no cookie (Linux only): there the kernel is left alone.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import logging
import math
import os
import weakref
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from outlast.core.report import Report
from outlast.net.adopt import Overheard, PolledStream
from outlast.net.handout import keep_report
from outlast.net.kernel import kernel
from outlast.net.place import COOKIES, cookie_of, copy_of, take_polled_place
from outlast.net.seam import WAKE, Wait, Waiter
from outlast.policy import Policy
from outlast.shims.patch.connecting import Connect, watch_soon
from outlast.shims.patch.courses import Course

if TYPE_CHECKING:
    import socket

__all__ = ["Pending", "pending"]

log = logging.getLogger("outlast")

KNOWN = 16  # connects of a target, until which a look comes early: the socket may be closed soon
TRIED = 32  # the same, where they are closed before anybody has looked
EARLY = 0.003  # seconds; what a connect takes within a cluster, and some
LATER = 3.0  # times the last one
STAYS = 5.0  # seconds without a connect after which nobody looks any more

now = kernel().now


class _Entry(NamedTuple):
    """One connect. `due`: when it is looked at. The socket is not kept open for it."""

    due: float
    order: int  # of two that are due together
    owner: weakref.ref[socket.socket]
    number: int
    cookie: bytes
    course: Course
    policy: Policy
    source: tuple[str, int] | None
    began: float
    joins: float  # when another dial does; the looks before are for how long a connect takes

    def of(self, copy: socket.socket) -> Connect:
        """The connect as `connecting` has it, on a descriptor of our own."""
        connect = Connect(copy, self.course, self.policy, None, self.source)
        connect.began = self.began
        return connect


class Pending:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: list[_Entry] = []
        self._count = itertools.count()
        self._bell: Waiter | None = None
        self._sleeps_until = -math.inf
        self._running = False

    def add(self, connect: Connect) -> None:
        """A connect is under way."""
        if not COOKIES:
            return
        sock, course = connect.sock, connect.course
        delay = connect.delay
        course.polled += 1
        early = course.connects < KNOWN and course.polled < TRIED
        due = connect.began + (min(delay, EARLY) if early else delay)
        cookie = cookie_of(sock)
        entry = _Entry(
            due,
            next(self._count),
            weakref.ref(sock),
            sock.fileno(),
            cookie,
            course,
            connect.policy,
            connect.source,
            connect.began,
            connect.began + delay,
        )
        self._push(entry)

    def _push(self, entry: _Entry) -> None:
        due = entry.due
        with self._lock:
            heapq.heappush(self._entries, entry)
            begin, self._running = not self._running, True
            bell = self._bell if due < self._sleeps_until else None
        if begin:
            self._begin()
        elif bell is not None:
            bell.wake()

    def _begin(self) -> None:
        try:
            kernel().spawn(self._run)
        except RuntimeError as error:  # no thread to be had: the kernel is left alone
            self._running = False
            self._entries.clear()
            log.warning("a connect is not raced: %s", error)

    async def _run(self) -> None:
        try:
            await self._serve()
        except BaseException:
            self._running = False  # the next connect begins anew
            raise

    async def _serve(self) -> None:
        idle_since = now()
        while True:
            for entry in self._due():
                idle_since = now()
                self._look(entry)
            with self._lock:
                if not self._entries and now() >= idle_since + STAYS:
                    self._running = False
                    self._bell = None
                    return
                until = self._entries[0].due if self._entries else idle_since + STAYS
                bell = self._bell = kernel().waiter()
                self._sleeps_until = until
            await Wait(((bell, WAKE),), until)

    def _due(self) -> list[_Entry]:
        at, found = now(), []
        with self._lock:
            while self._entries and self._entries[0].due <= at:
                found.append(heapq.heappop(self._entries))
        return found

    def _look(self, entry: _Entry) -> None:
        """The attempt delay is over, or the target is not known well yet."""
        copy = copy_of(entry.number, entry.cookie)
        if copy is None:
            return
        first = entry.course.first
        assert first is not None
        try:
            own = PolledStream(copy, first, entry.began)
            if own.silent and now() < entry.joins:
                later = min(entry.joins, entry.began + LATER * (now() - entry.began))
                self._push(entry._replace(due=later))
            elif own.silent:
                kernel().spawn(functools.partial(_race, entry, copy, own))
                copy = None
            elif own.standing:
                entry.of(copy).learn()
                watch_soon(entry.number, entry.cookie, entry.policy)
        except OSError:  # closed by the peer meanwhile
            return
        finally:
            if copy is not None:
                copy.close()

    def renew(self) -> None:
        """In the child of a fork: the races are the parent's, and so are its polls."""
        self._lock = Lock()
        self._entries = []
        self._running = False
        self._bell = None


async def _race(entry: _Entry, copy: socket.socket, own: PolledStream) -> None:
    """Engine code. The program is told by its own poll, whoever wins."""
    connect = entry.of(copy)
    report = Report(entry.began)
    with copy:
        request = connect.request()
        expiring = own.expire(connect.limit)
        try:
            winner = await connect.race(report, request, own)
        except (Overheard, OSError):  # the program has been told, or is told by the expiry
            return
        finally:
            if expiring and own.standing:
                own.set_user_timeout(0.0)
        if winner is None:
            watch_soon(entry.number, entry.cookie, entry.policy)
        else:
            _take_place(entry, winner.detach(), report)


def _take_place(entry: _Entry, winner: socket.socket, report: Report) -> None:
    cookie = cookie_of(winner)
    old = copy_of(entry.number, entry.cookie)
    if old is None:  # the program has closed it
        winner.close()
    elif take_polled_place(winner, entry.number, entry.cookie, old):
        watch_soon(entry.number, cookie, entry.policy)
        owner = entry.owner()
        if owner is not None:
            keep_report(owner, report)


pending = Pending()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pending.renew)
