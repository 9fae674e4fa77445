"""Somebody else's socket: found through whatever was handed in, held weakly, touched with care.

`HeldSocket` is the kernel's, `HeldStream` one of a simulated network, which has no descriptor.

The owner may close it at any time, or let another object take its descriptor over, as `ssl` does;
so the descriptor's inode says whether it is still the same socket, and what is not a plain socket
object is only touched through a descriptor of our own, for a few microseconds. Refuses to keep
a socket open, and to change a user timeout that the owner has set.
"""

from __future__ import annotations

import contextlib
import os
import socket
import weakref
from collections.abc import Hashable, Iterator
from typing import Any, Protocol, TypeAlias

from outlast.core.liveness import Sample
from outlast.net.ending import end_at_once
from outlast.net.link import own_link_is_up
from outlast.net.observe import Observed
from outlast.net.options import Keepalive, read_keepalive, set_keepalive, user_timeout_option
from outlast.net.seam import Stream
from outlast.net.tcpinfo import read_sample

__all__ = ["Held", "HeldSocket", "HeldStream", "SocketSource", "descriptor_of", "layers"]

_INTERNET = frozenset({socket.AF_INET, socket.AF_INET6})
FORMS = "a socket, a descriptor, or a stream such as outlast.connect_tcp returns"


class HasFileno(Protocol):
    """A socket, also ssl's, trio's or asyncio's own kind."""

    def fileno(self) -> int:
        """The descriptor."""


class HasExtra(Protocol):
    """An anyio stream."""

    def extra(self, attribute: Any, default: Any) -> Any:
        """A typed attribute, such as the socket below."""


class HasExtraInfo(Protocol):
    """An asyncio transport or stream writer."""

    def get_extra_info(self, name: str) -> Any:
        """Such as the socket below."""


class HasSocket(Protocol):
    """A trio stream."""

    @property
    def socket(self) -> HasFileno:
        """The socket below."""


SocketSource: TypeAlias = "int | HasFileno | HasExtra | HasExtraInfo | HasSocket"


def descriptor_of(source: SocketSource) -> int:
    """The descriptor of a socket, of a stream over one, or the number itself; -1 once closed.

    Raises ValueError if there is none to be found.
    """
    if isinstance(source, int) and not isinstance(source, bool):
        return source
    for found in layers(source):
        fileno = getattr(found, "fileno", None)
        if callable(fileno):
            number = fileno()
            if isinstance(number, int):
                return number
    raise ValueError(f"{source!r} has no socket; give {FORMS}")


def layers(source: SocketSource) -> Iterator[Any]:
    """A socket or stream, and what it stands on: anyio's, asyncio's and trio's ways to say it."""
    yield source
    extra = getattr(source, "extra", None)
    if callable(extra):
        from anyio.abc import SocketAttribute

        yield extra(SocketAttribute.raw_socket, None)
    info = getattr(source, "get_extra_info", None)
    if callable(info):
        yield info("socket")
    yield getattr(source, "socket", None)


class Held(Observed, Protocol):
    """A connection that belongs to somebody else."""

    @property
    def key(self) -> Hashable:
        """What is the same for two holds of one connection."""

    @property
    def address(self) -> str:
        """The peer's, in words."""

    @property
    def gone(self) -> bool:
        """Whether the last touch has found it closed."""

    def limit(self, seconds: float) -> None:
        """Let this user timeout stand, unless the owner has set one."""

    def end(self) -> None:
        """Reset the connection, so that its owner hears of it."""


class HeldStream:
    """A stream of a simulated network, as long as its owner has it; see `Held`."""

    __slots__ = ("_stream", "address", "gone", "keepalive", "key")

    def __init__(self, stream: Stream) -> None:
        self._stream = weakref.ref(stream)
        self.key = id(stream)
        self.address = str(stream.address)
        self.keepalive = stream.keepalive
        self.gone = False

    def _found(self) -> Stream | None:
        stream = self._stream()
        self.gone = stream is None or stream.fileno() < 0
        return None if self.gone else stream

    def state(self) -> Sample | None:
        """See `Stream.state`; None once it is gone."""
        stream = self._found()
        return None if stream is None else stream.state()

    def linked(self) -> bool:
        """See `Stream.linked`."""
        stream = self._found()
        return stream is None or stream.linked()

    def set_keepalive(self, keepalive: Keepalive) -> None:
        """See `Stream.set_keepalive`."""
        stream = self._found()
        if stream is not None:
            stream.set_keepalive(keepalive)

    def limit(self, seconds: float) -> None:
        """See `Held.limit`."""
        stream = self._found()
        if stream is not None:
            stream.set_user_timeout(seconds)

    def end(self) -> None:
        """See `Held.end`."""
        stream = self._found()
        if stream is not None:
            stream.abort()


class HeldSocket:
    """A TCP socket that belongs to somebody else; see `Held`. Not thread-safe.

    Raises ValueError if `source` is nothing that has a socket, OSError if that is closed.
    """

    __slots__ = (
        "_before",
        "_inode",
        "_number",
        "_ours",
        "_owner",
        "_standing",
        "address",
        "gone",
    )

    def __init__(self, source: SocketSource) -> None:
        self._number = descriptor_of(source)
        self._inode = os.fstat(self._number).st_ino
        self.gone = False  # found closed
        self._owner: weakref.ref[Any] | None = None
        with contextlib.suppress(TypeError):  # a number, or an object that cannot be held weakly
            self._owner = weakref.ref(source)
        self._before: Keepalive | None = None  # what stood before ours does
        self._ours: Keepalive | None = None
        self._standing = 0.0  # the user timeout that we have set; 0 for none
        with self.borrowed() as sock:
            if sock is None or sock.family not in _INTERNET or sock.type != socket.SOCK_STREAM:
                raise ValueError(f"{source!r} is no TCP socket; give {FORMS}")
            self.address = _words(sock.getpeername())

    @property
    def key(self) -> Hashable:
        """See `Held.key`."""
        return self._number, self._inode

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[socket.socket | None]:
        """The socket for a moment; None once it is gone."""
        owner = None if self._owner is None else self._owner()
        if isinstance(owner, socket.socket) and owner.fileno() == self._number:
            yield owner  # its methods fail when it is closed meanwhile; they never meet another
            return
        copy = self._copy()
        self.gone = copy is None
        try:
            yield copy
        finally:
            if copy is not None:
                copy.close()

    def _copy(self) -> socket.socket | None:
        try:
            number = os.dup(self._number)
        except OSError:
            return None
        try:
            if os.fstat(number).st_ino == self._inode:
                return socket.socket(fileno=number)
        except OSError:
            pass
        os.close(number)
        return None

    # -- the watch -------------------------------------------------------------------------

    def state(self) -> Sample | None:
        """See `Stream.state`; None once it is gone."""
        with self.borrowed() as sock:
            return None if sock is None else read_sample(sock)

    def linked(self) -> bool:
        """See `Stream.linked`."""
        with self.borrowed() as sock:
            return sock is None or own_link_is_up(sock)

    @property
    def keepalive(self) -> Keepalive | None:
        """What the owner has set, also while ours stands for a while; None where it is off."""
        if self._before is not None:
            return self._before
        with self.borrowed() as sock, contextlib.suppress(OSError):
            return None if sock is None else read_keepalive(sock)
        return None

    def set_keepalive(self, keepalive: Keepalive) -> None:
        """See `Stream.set_keepalive`. What the owner has changed meanwhile stays."""
        with self.borrowed() as sock, contextlib.suppress(OSError):
            standing = None if sock is None else read_keepalive(sock)
            if sock is None or standing is None:
                return
            before, self._before = self._before, None
            if before is not None and standing != self._ours:
                return
            if keepalive != before:
                self._before, self._ours = before or standing, keepalive
            set_keepalive(sock, standing, keepalive)

    def limit(self, seconds: float) -> None:
        """See `Held.limit`."""
        if seconds == self._standing:
            return
        with self.borrowed() as sock, contextlib.suppress(OSError):
            if sock is not None:
                self._set_user_timeout(sock, seconds)

    def end(self) -> None:
        """See `Held.end`."""
        with self.borrowed() as sock:
            if sock is not None:
                end_at_once(sock)

    def _set_user_timeout(self, sock: socket.socket, seconds: float) -> None:
        option, value = user_timeout_option(seconds)
        if option is None:
            return
        held = sock.getsockopt(socket.IPPROTO_TCP, option)
        if held == user_timeout_option(self._standing)[1]:  # else it is the owner's
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
            self._standing = seconds


def _words(name: tuple[Any, ...]) -> str:
    host, port = name[:2]
    host = host.removeprefix("::ffff:") if "." in host else host  # a socket of both families
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
