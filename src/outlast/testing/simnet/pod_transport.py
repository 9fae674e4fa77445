"""An asyncio transport over a simulated socket: what a pod's protocol writes to and hears from.

Source: asyncio's documentation of transports and protocols, selector_events.py for the order of
calls. Refuses `sendfile`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from outlast.testing.simnet.pod_loop import PodLoop
from outlast.testing.simnet.sockets import SimSocket

__all__ = ["PodTransport"]

CHUNK = 262_144  # bytes of one read, as asyncio's
HIGH, LOW = 65_536, 16_384  # bytes kept back, above and below which the protocol is told


class PodTransport(asyncio.Transport):
    """One accepted connection, in the loop of the pod's process. `gone` hears of its end."""

    def __init__(
        self,
        loop: PodLoop,
        sock: SimSocket,
        protocol: asyncio.BaseProtocol,
        gone: Callable[[PodTransport], None],
    ) -> None:
        super().__init__({"peername": sock.remote, "sockname": sock.local, "socket": sock})
        self._loop = loop
        self._sock = sock
        self._protocol: Any = protocol
        self._kept = bytearray()
        self._noted = self._paused = self._full = False
        self._closing = self._lost = self._ended = False
        self._eof = False  # to be sent when nothing is kept back any more
        self._high, self._low = HIGH, LOW
        self._gone = gone

    def begin(self) -> None:
        """Tell the protocol, and begin to read."""
        self._sock.on_change = self._note
        self._protocol.connection_made(self)
        self._look()

    def _note(self) -> None:
        """Readiness may have changed: look at it in the loop, not in the middle of an event."""
        if not self._noted:
            self._noted = True
            self._loop.deliver(self._look)

    def _look(self) -> None:
        self._noted = False
        if self._lost:
            return
        if self._kept:
            self._flush()
        while self._listening and self._read():
            continue

    @property
    def _listening(self) -> bool:
        return not (self._lost or self._closing or self._paused or self._ended)

    def _read(self) -> bool:
        """Take what has come; False if there is nothing more."""
        try:
            data = self._sock.recv(CHUNK)
        except OSError as error:
            self._lose(error)
            return False
        if data is None:
            return False
        if data:
            self._feed(data)
            return True
        self._ended = True
        if not self._protocol.eof_received():
            self.close()
        return False

    def _feed(self, data: bytes) -> None:
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(data)
            return
        rest = memoryview(data)
        while rest:
            room = memoryview(protocol.get_buffer(len(rest)))
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            protocol.buffer_updated(count)
            rest = rest[count:]

    # -- reading ---------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """See asyncio."""
        self._paused = True

    def resume_reading(self) -> None:
        """See asyncio."""
        self._paused = False
        self._note()

    def is_reading(self) -> bool:
        """See asyncio."""
        return not (self._paused or self._closing)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """See asyncio."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """See asyncio."""
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    # -- writing ---------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See asyncio."""
        if self._lost or self._eof or not data:
            return
        if not self._kept:
            try:
                sent = self._sock.send(data)
            except OSError as error:
                self._lose(error)
                return
            data = memoryview(data)[sent:]
        self._kept += data
        if len(self._kept) > self._high and not self._full:
            self._full = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """See asyncio."""
        self.write(b"".join(list_of_data))

    def _flush(self) -> None:
        try:
            sent = self._sock.send(bytes(self._kept))
        except OSError as error:
            self._lose(error)
            return
        del self._kept[:sent]
        if self._full and len(self._kept) <= self._low:
            self._full = False
            self._protocol.resume_writing()
        if not self._kept and self._eof:
            self._finish()
        if not self._kept and self._closing:
            self._lose(None)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See asyncio."""
        self._high = HIGH if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """See asyncio."""
        return len(self._kept)

    def can_write_eof(self) -> bool:
        """See asyncio."""
        return True

    def write_eof(self) -> None:
        """See asyncio."""
        if not self._eof:
            self._eof = True
            if not self._kept:
                self._finish()

    def _finish(self) -> None:
        try:
            self._sock.shutdown_write()
        except OSError as error:
            self._lose(error)

    # -- the end ---------------------------------------------------------------------------

    def is_closing(self) -> bool:
        """See asyncio."""
        return self._closing

    def close(self) -> None:
        """See asyncio: what was written is sent."""
        self._closing = True
        if not self._kept:
            self._lose(None)

    def abort(self) -> None:
        """See asyncio: at once; RST, where the socket's linger time says so."""
        self._closing = True
        self._lose(None)

    def _lose(self, error: OSError | None) -> None:
        """The connection is over."""
        if self._lost:
            return
        self._lost = self._closing = True
        self._kept.clear()
        self._sock.close()
        self._loop.call_soon(self._tell_end, error)

    def vanish(self) -> None:
        """The process ends: its kernel has closed the socket already."""
        if not self._lost:
            self._lost = self._closing = True
            self._kept.clear()
            self._over(None)

    def _tell_end(self, error: OSError | None) -> None:
        self._over(error)
        self._gone(self)

    def _over(self, error: OSError | None) -> None:
        above = getattr(self._protocol, "_app_transport", None)
        self._protocol.connection_lost(error)
        if above is not None:  # asyncio's TLS layer of Python 3.10 would call it unclosed
            above._closed = True

    def _force_close(self, error: OSError | None) -> None:
        """What asyncio's TLS layer of Python 3.10 calls when it meets a broken peer."""
        self._lose(error)
