"""Where the patch goes: which names of which modules are replaced, and how they are put back.

The lowest place that Python code passes: the class below which there is only C. A library's own
subclass of `socket.socket` (ssl, PySocks) calls it. gevent's socket is no subclass but a class of
its own in its place; asyncio's loop has a hook that waits better than a poll can.

A name is put back if it still holds what we have put there. If somebody has wrapped ours since, or
bound it by name, it stays there and does what the original does.
"""

from __future__ import annotations

import _socket
import functools
import socket
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

from outlast.shims.patch.answers import Answers
from outlast.shims.patch.courses import Courses
from outlast.shims.patch.loops import sock_connect_for
from outlast.shims.patch.notes import notes_on
from outlast.shims.patch.sockets import (
    Native,
    connect_ex_for,
    connect_for,
    create_connection_for,
    getaddrinfo_for,
)
from outlast.shims.settings import Settings

__all__ = ["Places"]

_MISSING = object()
_STANDARD = socket.getaddrinfo if socket.getaddrinfo.__module__ == "socket" else None
LOOPS = "asyncio.selector_events"
GEVENT = "gevent._socket3"
GEVENT_LOOKUP = "gevent.socket"
OURS = "__outlast__"

Action: TypeAlias = "Callable[[ModuleType], None]"


class Places:
    """One patch. Not thread-safe; `installed` holds a lock."""

    def __init__(self, settings: Settings, answers: Answers) -> None:
        resolve: Native = socket.getaddrinfo
        if resolve is _STANDARD:  # it adds enums, which nobody here needs
            resolve = _socket.getaddrinfo
        self._courses = Courses(settings, answers, resolve)
        self._replaced: list[tuple[Any, str, object, object]] = []

    def put(self) -> tuple[str, ...]:
        """Replace all that is there; what is to be said of it."""
        notes = notes_on(sys.modules)
        lowest = _lowest(socket.socket)
        native = lowest.connect
        self._put_sockets(lowest)
        create = create_connection_for(self._courses, socket.create_connection, native)
        self._replace(socket, "create_connection", create)
        self._put_lookup(socket)
        for name, action in self.later(native).items():
            module = sys.modules.get(name)
            if module is not None:
                action(module)
        return notes

    def later(self, native: Native = _socket.socket.connect) -> dict[str, Action]:
        """Modules that may be imported later, and what to do then."""
        return {
            LOOPS: functools.partial(self._put_loops, native=native),
            GEVENT: self._put_gevent,
            GEVENT_LOOKUP: self._put_lookup,
        }

    def take_back(self) -> None:
        """Put everything back that is still ours, the last first."""
        self._courses.end()
        while self._replaced:
            owner, name, before, ours = self._replaced.pop()
            if vars(owner).get(name) is not ours:
                continue
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

    def _replace(self, owner: Any, name: str, ours: object) -> None:
        before = vars(owner).get(name, _MISSING)
        self._replaced.append((owner, name, before, ours))
        setattr(owner, name, ours)

    def _put_sockets(self, owner: Any) -> None:
        native, native_ex = owner.connect, owner.connect_ex
        self._replace(owner, "connect", connect_for(self._courses, native))
        self._replace(owner, "connect_ex", connect_ex_for(self._courses, native_ex, native))

    def _put_lookup(self, module: Any) -> None:
        if hasattr(module.getaddrinfo, OURS):  # gevent's stands in the socket module already
            return
        made = getaddrinfo_for(self._courses, module.getaddrinfo)
        setattr(made, OURS, True)
        self._replace(module, "getaddrinfo", made)

    def _put_loops(self, module: Any, *, native: Native) -> None:
        loop = module.BaseSelectorEventLoop
        made = sock_connect_for(self._courses, loop.sock_connect, native)
        self._replace(loop, "sock_connect", made)

    def _put_gevent(self, module: Any) -> None:
        """gevent's own socket, whether or not it stands in `socket`'s place."""
        owner = module.socket
        if any(replaced[0] is owner for replaced in self._replaced):
            return
        self._put_sockets(owner)


def _lowest(kind: type) -> Any:
    """The class that is to be patched: right above the C type, or one of its own kind."""
    for each in kind.__mro__:
        if _socket.socket in each.__bases__:
            return each
    return kind
