"""Both ends of a TLS connection in memory, so that every byte's arrival is the test's to say."""

from __future__ import annotations

import contextlib
import errno
import functools
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import trustme

from outlast.core.liveness import Sample
from outlast.net.address import Address
from outlast.net.options import Keepalive
from outlast.net.seam import WRITE, Wait
from outlast.net.tls import TlsStream, handshake
from tests.net.scripted import at

T = TypeVar("T")
NAME = "db.test"


@functools.cache
def authority() -> trustme.CA:
    """The one that clients here trust."""
    return trustme.CA()


def server_context(*names: str, ca: trustme.CA | None = None) -> ssl.SSLContext:
    """A server's context for these names; the name that clients ask for, if there are none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued = (ca or authority()).issue_cert(*(names or (NAME,)))
    issued.configure_cert(context)
    return context


def client_context(kind: type[ssl.SSLContext] = ssl.SSLContext) -> ssl.SSLContext:
    """A client's context that trusts our authority alone."""
    context = kind(ssl.PROTOCOL_TLS_CLIENT)
    authority().configure_trust(context)
    return context


class MemoryStream:
    """A raw stream (see `Stream`): bytes arrive when the test says so."""

    def __init__(self, address: Address | None = None) -> None:
        self.address = address or at("10.0.0.1", 443)
        self.local_port = 40_000
        self.written = 0
        self.notes: Sequence[str] = ("a note",)
        self.foreign = False
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.room = 1 << 30  # how many bytes the network takes
        self.piece = 1 << 30  # how many bytes arrive at once
        self.eof = False
        self.failure: OSError | None = None
        self.send_failure: OSError | None = None
        self.trail: list[str] = []
        self.user_timeout = -1.0
        self.link = True
        self.keepalive: Keepalive | None = Keepalive()

    def connected(self) -> None:
        """See `Stream.connected`."""
        self.trail.append("connected")

    def recv(self, size: int) -> bytes | None:
        """See `Stream.recv`."""
        if self.inbox:
            size = min(size, self.piece)
            data = bytes(self.inbox[:size])
            del self.inbox[:size]
            return data
        if self.failure is not None:
            raise self.failure
        return b"" if self.eof else None

    def send(self, data: bytes | memoryview) -> int:
        """See `Stream.send`."""
        failure = self.failure or self.send_failure
        if failure is not None:
            raise failure
        taken = bytes(data)[: self.room]
        self.room -= len(taken)
        self.written += len(taken)
        self.outbox += taken
        return len(taken)

    def flush(self) -> bool:
        """See `Stream.flush`."""
        return True

    def quiet(self) -> bool:
        """See `Stream.quiet`."""
        return not (self.inbox or self.eof or self.failure)

    def state(self) -> Sample | None:
        """See `Stream.state`."""
        return Sample(0, self.written, 1, 0.001, 0, 0.0)

    def linked(self) -> bool:
        """See `Stream.linked`."""
        return self.link

    def set_keepalive(self, keepalive: Keepalive) -> None:
        """See `Stream.set_keepalive`."""
        self.keepalive = keepalive

    def set_user_timeout(self, seconds: float) -> None:
        """See `Stream.set_user_timeout`."""
        self.user_timeout = seconds

    def close(self) -> None:
        """See `Stream.close`."""
        self.trail.append("closed")
        self.failure = OSError(errno.EBADF, "closed")

    def abort(self) -> None:
        """See `Stream.abort`."""
        self.trail.append("aborted")

    def shut(self) -> None:
        """See `Stream.shut`."""
        self.trail.append("shut")

    def fileno(self) -> int:
        """See `Stream.fileno`."""
        return 7

    def detach(self) -> socket.socket:
        """See `Stream.detach`."""
        raise TypeError("no socket below")


class Server:
    """The far end: a server's TLS session over the bytes of a `MemoryStream`."""

    def __init__(self, raw: MemoryStream, context: ssl.SSLContext) -> None:
        self.raw = raw
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = context.wrap_bio(self._in, self._out, server_side=True)
        self.shaken = False
        self.failure: ssl.SSLError | None = None
        self.last_flight = b""  # to be written right behind the server's last handshake message

    def pump(self) -> None:
        """Take what the client has sent, and answer."""
        self._in.write(bytes(self.raw.outbox))
        self.raw.outbox.clear()
        if not self.shaken and self.failure is None:
            try:
                self.session.do_handshake()
                self.shaken = True
                if self.last_flight:
                    self.session.write(self.last_flight)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                self.failure = error
        self._deliver()

    def _deliver(self) -> None:
        self.raw.inbox += self._out.read()

    def write(self, data: bytes) -> None:
        """Send, record by record."""
        for start in range(0, len(data), 16_384):
            self.session.write(data[start : start + 16_384])
        self._deliver()

    def read(self) -> bytes:
        """All that has arrived."""
        self.pump()
        found = bytearray()
        with contextlib.suppress(ssl.SSLWantReadError):
            while data := self.session.read(65_536):
                found += data
        return bytes(found)

    def close_notify(self) -> None:
        """End the session in good order."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.session.unwrap()
        self._deliver()


def driven(work: Coroutine[Any, Any, T], on_wait: Callable[[Wait], None]) -> T:
    """Run engine code; `on_wait` makes ready what it waits for."""
    try:
        for _ in range(100_000):
            effect = work.send(None)
            assert isinstance(effect, Wait)
            on_wait(effect)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        work.close()
    raise AssertionError("no end")


def pumping(server: Server) -> Callable[[Wait], None]:
    """The far end answers, and the network takes what is to be sent."""

    def on_wait(wait: Wait) -> None:
        ((source, mask),) = wait.interests
        assert source is server.raw
        if mask & WRITE:
            server.raw.room += 100
        server.pump()

    return on_wait


def shake(
    server: Server, *, context: ssl.SSLContext | None = None, name: str | None = NAME
) -> TlsStream:
    """The client's handshake with `server`; what it says last arrives there, also on failure."""
    work = handshake(server.raw, context=context or client_context(), name=name)
    try:
        return driven(work, pumping(server))
    finally:
        server.pump()


def shaken(
    far: ssl.SSLContext | None = None, *, context: ssl.SSLContext | None = None
) -> tuple[TlsStream, Server]:
    """A session that stands, both ends."""
    server = Server(MemoryStream(), far or server_context())
    return shake(server, context=context), server


def ends(raw: MemoryStream) -> None:
    raw.eof = True


def resets(raw: MemoryStream) -> None:
    raw.inbox.clear()
    raw.failure = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
