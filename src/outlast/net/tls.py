"""TLS over any stream, without I/O of its own: ssl's memory BIOs between two stream faces.

The name verified is the one the user wrote, whatever address was dialled; this module never
changes what the context demands. It works over sockets, simulated streams and other TLS layers.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING

from outlast.core.liveness import Sample
from outlast.net.options import Keepalive
from outlast.net.seam import READ, WRITE, Stream, Wait

if TYPE_CHECKING:
    from anyio.abc import SocketStream
    from anyio.streams.tls import TLSStream

__all__ = ["TlsStream", "handshake"]

RECORD = 16_384  # RFC 8446 section 5.1: the most that one record carries
CHUNK = 65_536
SIP = 256  # bytes of a handshake that are given to the session at a time


class TlsStream:
    """A stream face over a TLS session; see `Stream`. One owner at a time."""

    __slots__ = (
        "_ahead",
        "_arrived",
        "_broken",
        "_drained",
        "_ended",
        "_in",
        "_out",
        "_pending",
        "_raw",
        "address",
        "fileno",
        "local_port",
        "session",
    )

    def __init__(self, raw: Stream, context: ssl.SSLContext, name: str | None) -> None:
        self._raw = raw
        self.fileno = raw.fileno  # the descriptor below, for waiting
        self.address = raw.address
        self.local_port = raw.local_port
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._pending = b""
        self._arrived = b""  # in a handshake: what the session has not got yet
        self._ahead = b""  # what a look has read
        self._ended = False  # the peer has said so
        self._drained = False  # there is nothing to tell without more from below
        self._broken: ssl.SSLError | None = None  # once wrong, OpenSSL may call the rest an end
        self.session = context.wrap_bio(self._in, self._out, server_hostname=name)

    def detach(self) -> socket.socket:
        """See `Stream.detach`: a TLS session is no socket."""
        raise TypeError(f"the TLS session with {self.address} is no plain socket")

    @property
    def written(self) -> int:
        """See `Stream.written`: bytes of ciphertext."""
        return self._raw.written

    @property
    def foreign(self) -> bool:
        """See `Stream.foreign`."""
        return self._raw.foreign

    @property
    def notes(self) -> Sequence[str]:
        """See `Stream.notes`."""
        return self._raw.notes

    @property
    def protocol(self) -> str | None:
        """What ALPN has agreed on."""
        return self.session.selected_alpn_protocol()

    def connected(self) -> None:
        """See `Stream.connected`."""
        self._raw.connected()

    def step_handshake(self) -> int:
        """Go on with the handshake: 0 when it is done, else what to wait for."""
        while True:
            try:
                self.session.do_handshake()
            except ssl.SSLWantReadError:
                if self._sip():
                    continue
                return READ if self.flush() else WRITE
            while self._sip():
                continue
            return 0 if self.flush() else WRITE

    def _sip(self) -> bool:
        """Give the session a little of what has arrived; False if there was nothing left.

        Its buffer keeps the size that it has once had for as long as the connection lives, so
        it is not to hold the server's whole chain of certificates at once.
        """
        sip, self._arrived = self._arrived[:SIP], self._arrived[SIP:]
        if sip:
            self._in.write(sip)
        return bool(sip)

    def take_in(self, *, handshake: bool = False) -> bool:
        """Move what has arrived to the session; False if there was nothing. In a handshake
        `step_handshake` moves it on."""
        data = self._raw.recv(CHUNK)
        if data is None:
            return False
        self._drained = False
        if handshake and data:
            self._arrived = data
        elif data:
            self._in.write(data)
        else:
            self._in.write_eof()
        return True

    def recv(self, size: int) -> bytes | None:
        """See `Stream.recv`. An end without close_notify is an end: the framing above judges."""
        data = None if self._drained or not self._holds() else self._read(size)
        while data is None:
            if self._pending or self._out.pending:
                with contextlib.suppress(OSError):  # told to whoever sends; an answer may yet come
                    self.flush()
            if not self.take_in():
                return None
            data = self._read(size)
        return data

    def _holds(self) -> bool:
        """Whether the session may have something to tell without more from below, where it is not
        known to be drained. To ask the session costs more: if it has nothing it raises."""
        return bool(
            self._in.pending
            or self._ahead
            or self._in.eof
            or self._ended
            or self._broken is not None
            or self.session.pending()
        )

    def _read(self, size: int) -> bytes | None:
        """What has been taken in, over as many records as there are; None if there is nothing.

        Nothing may stay behind that still fits: whoever waits for READ waits on the network.
        """
        parts: list[bytes] = []
        if self._ahead:
            parts.append(self._ahead)
            size -= len(self._ahead)
            self._ahead = b""
        while size and self._broken is None:
            try:
                part = self.session.read(size)
            except ssl.SSLWantReadError:
                return b"".join(parts) if parts else None
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                self._ended = True
                break
            except ssl.SSLError as error:
                self._broken = error
                break
            if not part:  # as OpenSSL calls an end that was announced
                self._ended = True
                break
            if not (self._in.pending or self.session.pending()):
                self._drained = True
                if not parts:  # as nearly always: one record
                    return part
                parts.append(part)
                break
            parts.append(part)
            size -= len(part)
        if self._broken is not None and not parts:
            raise self._broken
        return b"".join(parts)

    def send(self, data: bytes | memoryview) -> int:
        """See `Stream.send`. What is taken may be kept back: see `flush`."""
        if (self._pending or self._out.pending) and not self.flush():
            return 0
        count = self.session.write(data if len(data) <= CHUNK else data[:CHUNK])
        record = self._out.read()
        sent = self._raw.send(record)
        if sent < len(record):
            self._pending = record[sent:]
            self.flush()
        return count

    def flush(self) -> bool:
        """See `Stream.flush`."""
        if self._out.pending:
            self._pending += self._out.read()
        while self._pending:
            count = self._raw.send(self._pending)
            if not count:
                return False
            self._pending = self._pending[count:]
        return self._raw.flush()

    def quiet(self) -> bool:
        """See `Stream.quiet`. Session tickets may come at any time and mean nothing."""
        try:
            if self._raw.quiet():
                return self._drained or not self._holds() or self._nothing_to_read()
            return self.take_in() and self._nothing_to_read() and self._raw.quiet()
        except OSError:
            return False

    def _nothing_to_read(self) -> bool:
        try:
            self._ahead = self._ahead or self.session.read(1)
        except ssl.SSLWantReadError:
            return True
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._ended = True
        self._ended = self._ended or not self._ahead
        return False

    def state(self) -> Sample | None:
        """See `Stream.state`."""
        return self._raw.state()

    def linked(self) -> bool:
        """See `Stream.linked`."""
        return self._raw.linked()

    @property
    def keepalive(self) -> Keepalive | None:
        """See `Stream.keepalive`."""
        return self._raw.keepalive

    def set_keepalive(self, keepalive: Keepalive) -> None:
        """See `Stream.set_keepalive`."""
        self._raw.set_keepalive(keepalive)

    def set_user_timeout(self, seconds: float) -> None:
        """See `Stream.set_user_timeout`."""
        self._raw.set_user_timeout(seconds)

    def close(self) -> None:
        """See `Stream.close`: says close_notify if it can be said at once."""
        if self._raw.foreign:
            self._raw.close()
            return
        with contextlib.suppress(OSError, ssl.SSLError):  # the other side may be long gone
            self.session.unwrap()
        with contextlib.suppress(OSError):
            self.flush()
        self._raw.close()

    def abort(self) -> None:
        """See `Stream.abort`."""
        self._raw.abort()

    def shut(self) -> None:
        """See `Stream.shut`."""
        self._raw.shut()

    @property
    def raw(self) -> Stream:
        """The stream below."""
        return self._raw

    def as_anyio(self, transport: SocketStream, *, standard_compatible: bool) -> TLSStream:
        """The same session as an anyio stream over `transport`, which is the stream below."""
        from anyio.streams.tls import TLSStream

        return TLSStream(
            transport_stream=transport,
            standard_compatible=standard_compatible,
            _ssl_object=self.session,
            _read_bio=self._in,
            _write_bio=self._out,
        )


async def handshake(
    raw: Stream, *, context: ssl.SSLContext, name: str | None, protocols: Sequence[str] = ()
) -> TlsStream:
    """A TLS session over `raw`, verified for `name`. `protocols`: what ALPN offers, if anything.

    Bounded by whoever runs it. Raises ssl.SSLError (ssl.SSLCertVerificationError for a wrong
    name or chain), or OSError if the peer leaves in the middle.
    """
    if protocols:  # each time: a context that the caller shares may be in others' use too
        context.set_alpn_protocols(list(protocols))
    stream = TlsStream(raw, context, name)
    while True:
        mask = _step(stream)
        if not mask:
            return _agreed(stream, protocols)
        await Wait(((raw, mask),))
        if mask == READ:
            _arrived(stream)


def _agreed(stream: TlsStream, protocols: Sequence[str]) -> TlsStream:
    """Another thread may have set a shared context for itself, just before it was used here."""
    if protocols and stream.protocol not in (None, *protocols):
        text = f"TLS handshake with {stream.address}: {stream.protocol} was not to be offered"
        raise ConnectionResetError(errno.ECONNRESET, text)
    return stream


def _step(stream: TlsStream) -> int:
    try:
        return stream.step_handshake()
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
        text = f"TLS handshake with {stream.address}: the peer closed the connection"
        raise ConnectionResetError(errno.ECONNRESET, text) from error
    except ssl.SSLError:
        with contextlib.suppress(OSError):
            stream.flush()  # the alert: the server's log shall say why
        raise


def _arrived(stream: TlsStream) -> None:
    try:
        stream.take_in(handshake=True)
    except ssl.SSLError:
        raise
    except OSError as error:
        raise OSError(
            error.errno or errno.ECONNRESET,
            f"TLS handshake with {stream.address}: {error.strerror or error}",
        ) from error
