"""What stands in place of `socket.socket.connect` and its like while `install()` holds.

Each replacement asks first whether the destination is in scope, which is a look or two into a
dictionary, and whether the socket is a TCP one; if not it calls what was there before. A program
that gave a time-out is bound by it, one that gave none by `Policy.connect_timeout`; a non-blocking
socket is told at once what it would be told (EINPROGRESS) and raced for in the background.

Refuses to touch UDP, Unix and raw sockets, and TCP variants with a protocol number of their own.
"""

from __future__ import annotations

import _socket
import errno
import functools
import socket
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from outlast.core.report import Report, report_of
from outlast.net.address import literal
from outlast.net.handout import GLOBAL_DEFAULT, group, keep_report
from outlast.net.kernel import kernel
from outlast.net.run import run_sync
from outlast.shims.patch.answers import addresses_in, named_service, out_of_use
from outlast.shims.patch.connecting import Connect, begin, worth_a_race
from outlast.shims.patch.courses import Course, Courses
from outlast.shims.patch.pending import pending

__all__ = ["Native", "connect_ex_for", "connect_for", "create_connection_for", "getaddrinfo_for"]

Native: TypeAlias = "Callable[..., Any]"

# What http.client and urllib3 hand on for a time-out that was not given.
_NOT_GIVEN: Any = getattr(socket, "_GLOBAL_DEFAULT_TIMEOUT", GLOBAL_DEFAULT)
_PROTOCOLS = frozenset({0, socket.IPPROTO_TCP})
_STREAM = int(socket.SOCK_STREAM)

# Read past Python's enums, which cost more than all the rest.
_kind, _family = _socket.socket.type.__get__, _socket.socket.family.__get__
_protocol = _socket.socket.proto.__get__


def _is_tcp(sock: Any) -> bool:
    if isinstance(sock, _socket.socket):
        return _kind(sock) == _STREAM and _protocol(sock) in _PROTOCOLS
    return sock.type == _STREAM and sock.proto in _PROTOCOLS


def _family_of(sock: Any) -> int:
    return _family(sock) if isinstance(sock, _socket.socket) else int(sock.family)


def course_of(courses: Courses, sock: Any, address: Any) -> Course | None:
    """The course of a connect; None: it is left alone. Raises what `getaddrinfo` raises."""
    try:
        course = courses.kept[address]
    except (KeyError, TypeError):
        return courses.find(address, _family_of(sock)) if _is_tcp(sock) else None
    if course is None or not _is_tcp(sock):
        return None
    first = course.first
    return course if first is not None and first.family == _family_of(sock) else None


def connect_for(courses: Courses, native: Native) -> Native:
    """In place of `socket.socket.connect`."""

    @functools.wraps(native)
    def connect(self: Any, address: Any, /) -> None:
        course = course_of(courses, self, address)
        if course is None:
            native(self, address)
        else:
            _connect(courses, native, self, course)

    return connect


def connect_ex_for(courses: Courses, native: Native, native_connect: Native) -> Native:
    """In place of `socket.socket.connect_ex`."""

    @functools.wraps(native)
    def connect_ex(self: Any, address: Any, /) -> int:
        course = course_of(courses, self, address)
        if course is None:
            code: int = native(self, address)
            return code
        try:
            _connect(courses, native_connect, self, course)
        except socket.gaierror:
            raise
        except OSError as error:  # of a time-out the C method says EAGAIN
            return error.errno or errno.EAGAIN
        return 0

    return connect_ex


def _connect(courses: Courses, native: Native, sock: Any, course: Course) -> None:
    timeout = sock.gettimeout()
    connect = begin(sock, course, courses.settings.policy, timeout)
    if timeout == 0.0:
        _polled(native, connect)
    elif connect.alone:
        native(sock, connect.destination)
        connect.connected()
    else:
        blocking(native, connect)


class _Unsettled(NamedTuple):
    """The first dial is silent, or has failed with an error of the network's."""

    network: OSError | None


def first_dial(native: Native, connect: Connect) -> _Unsettled | None:
    """The program's own socket, as long as a dial is given before another joins; None if it has
    connected, and its time-out is as it was. Raises what tells nothing of the network."""
    sock = connect.sock
    if connect.course.first is None:
        return _Unsettled(None)
    settled = False
    try:
        sock.settimeout(min(connect.delay, connect.limit))
        native(sock, connect.destination)
        settled = True
    except OSError as error:  # a time-out of Python's own has no number
        if error.errno is None and isinstance(error, TimeoutError):
            return _Unsettled(None)
        if not worth_a_race(error):
            settled = True
            raise
        return _Unsettled(error)
    finally:
        if settled:
            _restore(connect)
    connect.connected()
    return None


def _restore(connect: Connect) -> None:
    if connect.sock.fileno() >= 0:
        connect.sock.settimeout(connect.timeout)


def blocking(native: Native, connect: Connect) -> None:
    """Connect as a program does that waits: its own socket first, then a race."""
    try:
        error = first_dial(native, connect)
        if error is not None:
            run_sync(kernel(), connect.settle(error.network))
    finally:
        _restore(connect)


def _polled(native: Native, connect: Connect) -> None:
    """Connect as a program does that polls: it is told at once how far it is."""
    if connect.course.first is None:
        raise OSError(errno.EHOSTUNREACH, f"{connect.course.target.text}: no endpoint is known")
    try:
        native(connect.sock, connect.destination)
    except BlockingIOError:
        if not connect.alone:
            pending.add(connect)
        raise
    connect.connected()


# -- functions of the module ---------------------------------------------------------------------


def create_connection_for(courses: Courses, native: Native, native_connect: Native) -> Native:
    """In place of `socket.create_connection`: all addresses of a name are one target."""

    @functools.wraps(native)
    def create_connection(
        address: Any, timeout: Any = _NOT_GIVEN, source_address: Any = None, **more: Any
    ) -> socket.socket:
        course = _course_to(courses, address)
        sock = None if course is None else _bound(course, timeout, source_address)
        if course is None or sock is None:
            given = () if timeout is _NOT_GIVEN else (timeout,)
            if source_address is not None:
                more["source_address"] = source_address
            made: socket.socket = native(address, *given, **more)
            return made
        connect = begin(sock, course, courses.settings.policy, sock.gettimeout())
        try:
            return _created(native_connect, connect)
        except OSError as error:
            if more.get("all_errors"):
                raise _group(error) from None
            raise

    return create_connection


def _course_to(courses: Courses, address: Any) -> Course | None:
    try:
        host, port = address
    except (TypeError, ValueError):
        return None
    if type(host) is not str or type(port) is not int or not host or not 0 < port < 65536:
        return None
    return courses.reach(host, port)


def _bound(course: Course, timeout: Any, source: Any) -> socket.socket | None:
    """A socket for it, with what the caller wants of one; None if that is for the original to
    do, or to refuse."""
    if course.first is None or timeout == 0 or (source and source[1]):
        return None
    sock = None
    try:
        sock = socket.socket(course.first.family, _STREAM)
        if timeout is not _NOT_GIVEN:
            sock.settimeout(timeout)
        if source:
            sock.bind(source)
    except (OSError, TypeError, ValueError):  # another family's source, a timeout below 0
        if sock is not None:
            sock.close()
        return None
    return sock


def _created(native: Native, connect: Connect) -> socket.socket:
    """The program's socket, or that of the dial that has won, whose family may be another."""
    sock, timeout = connect.sock, connect.timeout
    try:
        error = first_dial(native, connect)
        if error is None:
            return sock
        report = Report(connect.began)
        own = connect.adopted(error.network)
        winner = run_sync(kernel(), connect.race(report, connect.request(), own))
        if winner is not None:
            sock.close()
            sock = connect.sock = winner.detach()
        sock.settimeout(timeout)
        keep_report(sock, report)
        connect.stands()
    except BaseException:
        sock.close()
        raise
    return sock


def _group(error: OSError) -> BaseException:
    """Every dial's error, as `all_errors` has it (Python 3.11)."""
    if isinstance(error, socket.gaierror):
        return error
    report = report_of(error) or ()
    each = [OSError(event.errno, str(event)) for event in report if event.errno is not None]
    return group("create_connection failed", each or [error])


def getaddrinfo_for(courses: Courses, native: Native) -> Native:
    """In place of `socket.getaddrinfo`: the answer is remembered, the dead come last."""
    answers = courses.answers

    @functools.wraps(native)
    def getaddrinfo(host: Any, port: Any, *args: Any, **more: Any) -> Any:
        infos = native(host, port, *args, **more)
        if courses.over:
            return infos
        name, number = _text(host), _number(port)
        if name is None or number is None or literal(name, number) is not None:
            return infos
        found = addresses_in(infos)
        if found and answers.remember(name, number, found):
            courses.forget()
        if len(found) < 2:
            return infos
        out = out_of_use(named_service(name, number))
        if not out:
            return infos
        return sorted(infos, key=lambda info: literal(info[4][0], info[4][1]) in out)

    return getaddrinfo


def _text(host: Any) -> str | None:
    if isinstance(host, (bytes, bytearray)):
        return host.decode("ascii", "replace")
    return host if isinstance(host, str) and host else None


def _number(port: Any) -> int | None:
    text = port.decode("ascii", "replace") if isinstance(port, (bytes, bytearray)) else port
    if isinstance(text, str):
        text = int(text) if text.isascii() and text.isdigit() else 0
    return text if type(text) is int and 0 < text < 65536 else None
