"""A connection whose bytes are the caller's: after an upgrade, or a CONNECT that was granted.

One may read while another writes: a TLS session is one thing, so its steps take turns, and no
step blocks. Whoever closes it wakes those who wait and lets them leave before the descriptor goes,
which may be somebody else's connection a moment later. The peer is watched from elsewhere, as that
of any socket that is handed out. Refuses a second life: it goes to no other request.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from outlast.http.answer import Answer
from outlast.net.run import Strands
from outlast.net.seam import READ, WAKE, WRITE, Network, Stream, Wait, Waiter
from outlast.net.tls import TlsStream, handshake

__all__ = ["RawConnection"]

T = TypeVar("T")


class RawConnection:
    """Engine code over `stream`, which belongs to `answer`. `early`: what has come already.

    Operations raise TimeoutError after `seconds` (None: no limit), else OSError.
    """

    __slots__ = ("_answer", "_busy", "_closed", "_early", "_leaving", "_lock", "_network", "stream")

    def __init__(self, network: Network, stream: Stream, answer: Answer, early: bytes) -> None:
        self.stream = stream
        self._network = network
        self._answer = answer
        self._early = early
        self._lock = Lock()
        self._busy = 0  # operations under way
        self._closed = False
        self._leaving: list[Waiter] = []  # those who close, while there are any

    async def read(self, size: int, seconds: float | None) -> bytes:
        """Up to `size` bytes; b"" at the end."""

        def step() -> bytes | None:
            if not self._early:
                return self.stream.recv(size)
            piece, self._early = self._early[:size], self._early[size:]
            return piece

        return await self._until(step, READ, seconds)

    async def write(self, data: bytes, seconds: float | None) -> None:
        """All of `data`."""
        rest = memoryview(data)

        def step() -> bool | None:
            nonlocal rest
            while rest and (count := self.stream.send(rest)):
                rest = rest[count:]
            return True if not rest and self.stream.flush() else None

        await self._until(step, WRITE, seconds)

    async def start_tls(
        self, context: ssl.SSLContext, name: str | None, seconds: float | None
    ) -> RawConnection:
        """The same connection in TLS, verified for `name`; this one is of no use after."""
        if self._early:
            raise ConnectionError("the peer spoke before TLS had begun")
        strands: Strands[str, TlsStream] = Strands(self._network)
        strands.start("handshake", handshake(self.stream, context=context, name=name))
        try:
            self._enter()
            ended = await strands.next(self._end(seconds))
        finally:
            strands.close()
            self._leave()
        if ended is None:
            raise TimeoutError(f"no TLS after {seconds:g} s")
        _, outcome = ended
        if isinstance(outcome, BaseException):
            raise outcome
        return RawConnection(self._network, outcome, self._answer, b"")

    async def close(self) -> None:
        """End it for all who use it, and the response it came from. Idempotent."""
        if self.stream.foreign:  # the parent's: its threads may hold the lock, or use it
            self._closed = True
            self._let_go()
            return
        waiter = self._network.waiter()
        with self._lock:
            self._closed = True
            busy = self._busy > 0
            if busy:
                self._leaving.append(waiter)
        if busy:
            self.stream.shut()
            await Wait(((waiter, WAKE),))
        else:
            self._let_go()

    # -- turns -----------------------------------------------------------------------------

    def _end(self, seconds: float | None) -> float:
        return math.inf if seconds is None else self._network.now() + seconds

    async def _until(self, step: Callable[[], T | None], mask: int, seconds: float | None) -> T:
        """Take a step until it gives something."""
        until = self._end(seconds)
        self._enter()
        try:
            while True:
                with self._lock:
                    result = step()
                if result is not None:
                    return result
                if not await Wait(((self.stream, mask),), until):
                    raise TimeoutError(f"timed out after {seconds:g} s")
        finally:
            self._leave()

    def _enter(self) -> None:
        if self.stream.foreign:
            raise ConnectionError("the connection is another process's, by a fork")
        with self._lock:
            if self._closed or self._answer.lease is None:
                raise ConnectionError("the connection is closed")
            self._busy += 1

    def _leave(self) -> None:
        with self._lock:
            self._busy -= 1
            last = self._closed and not self._busy
            leaving = self._leaving if last else []
        if last:
            self._let_go()
        for waiter in leaving:
            waiter.wake()

    def _let_go(self) -> None:
        if self._answer.lease is not None:
            self.stream.close()
        self._answer.close()
