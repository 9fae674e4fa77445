"""What leaves this library: plain sockets, anyio streams, and the errors of a plain connect.

The rest of the house works on streams behind the seam; callers of `create_connection` and
`connect_tcp` get the very objects and exceptions they would get from `socket` and anyio.
"""

from __future__ import annotations

import errno
import socket
import ssl
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.core import report as reports
from outlast.core.report import Report
from outlast.net.address import Address
from outlast.net.dial import DialError
from outlast.net.seam import Stream
from outlast.net.tls import TlsStream

if TYPE_CHECKING:
    from anyio.abc import SocketStream
    from anyio.streams.tls import TLSStream

E = TypeVar("E", bound=BaseException)

__all__ = [
    "GLOBAL_DEFAULT",
    "GlobalDefault",
    "as_anyio",
    "default_context",
    "default_timeout",
    "group",
    "keep_report",
    "plain_error",
    "report_of",
]


class GlobalDefault:
    """Stands for a timeout that was not given."""

    def __repr__(self) -> str:
        return "socket.getdefaulttimeout()"


GLOBAL_DEFAULT = GlobalDefault()


def default_timeout() -> float | None:
    """The socket module's own default, in seconds."""
    return socket.getdefaulttimeout()


def default_context() -> ssl.SSLContext:
    """A verifying TLS context that notices a missing close_notify, as anyio makes one."""
    context = ssl.create_default_context()
    context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
    return context


_kept: weakref.WeakKeyDictionary[Any, Report] = weakref.WeakKeyDictionary()


def keep_report(handed: object, report: Report) -> None:
    """Have `report_of` find the report of what is handed out, as long as that lives."""
    _kept[handed] = report


def report_of(source: object) -> Report | None:
    """The report that an exception, a response, or a socket or stream of ours carries; or None.

    For type checkers: httpx's exceptions do not declare `.report`. Thread-safe.
    """
    found = reports.report_of(source)
    if found is None and isinstance(source, (socket.socket, *_stream_types())):
        found = _kept.get(source)
    return found


def _stream_types() -> tuple[type, ...]:
    anyio = sys.modules.get("anyio.abc")  # without it nobody has one of its streams
    return () if anyio is None else (anyio.ByteStream,)


async def as_anyio(
    stream: Stream,
    report: Report,
    *,
    standard_compatible: bool,
    handed: Callable[[socket.socket], object],
) -> SocketStream | TLSStream:
    """The anyio stream of a dialled connection, which owns it from here on; `handed` is called
    with its socket.

    Raises ConnectionResetError, with the report, if the connection is gone already.
    """
    from anyio.abc import SocketStream

    secure = stream if isinstance(stream, TlsStream) else None
    sock = stream.detach() if secure is None else secure.raw.detach()
    try:
        _check_still_connected(sock, stream.address, report)
        simulated = getattr(sock, "as_anyio", None)  # a simulated network's have no descriptor
        plain = await SocketStream.from_socket(sock) if simulated is None else simulated()
    except BaseException:
        sock.close()
        raise
    handed(sock)
    made: SocketStream | TLSStream = plain
    if secure is not None:
        made = secure.as_anyio(plain, standard_compatible=standard_compatible)
    keep_report(made, report)
    return made


def _check_still_connected(sock: socket.socket, address: Address, report: Report) -> None:
    """anyio calls a socket that was reset meanwhile a wrong argument."""
    try:
        sock.getpeername()
    except OSError as error:
        text = f"connect to {address}: the peer reset the connection at once"
        raise _told(ConnectionResetError(errno.ECONNRESET, text), report) from error


def plain_error(error: DialError, report: Report, *, all_errors: bool = False) -> BaseException:
    """What the caller of a plain connect would get, with `.report`, to be raised as it is."""
    told: BaseException = _kind(error)
    if all_errors and not isinstance(told, socket.gaierror):  # as in socket: it comes alone
        each = [OSError(event.errno, str(event)) for event in report if event.errno is not None]
        if error.timed_out or not each:
            each.append(_kind(error))
        told = group(error.message, each)
    if told is not error.cause:
        told.__cause__ = error.cause
    return _told(told, report)


def _told(error: E, report: Report) -> E:
    vars(error)["report"] = report
    return error


def group(message: str, errors: list[OSError]) -> BaseException:
    """An ExceptionGroup of them."""
    if sys.version_info >= (3, 11):
        return ExceptionGroup(message, errors)  # noqa: F821  a builtin since 3.11
    from exceptiongroup import ExceptionGroup as Group  # anyio brings it

    return Group(message, errors)


def _kind(error: DialError) -> OSError:
    cause = error.cause
    if error.timed_out:
        return TimeoutError(errno.ETIMEDOUT, error.message)
    if isinstance(cause, ssl.SSLError):
        return cause
    if isinstance(cause, socket.gaierror):
        return socket.gaierror(cause.errno, error.message)
    return OSError(error.errno, error.message)
