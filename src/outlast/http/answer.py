"""The answer of a call: its head, and its body as it comes in.

The body is read in the caller's own pace, each wait bounded by the read timeout and the call's
deadline. When it has ended its connection goes back to the pool; when it is left unfinished, or
breaks, the connection is closed. A body that is under way is never asked for again elsewhere.
"""

from __future__ import annotations

from outlast import events
from outlast.core.classify import Progress
from outlast.core.deadline import NEVER
from outlast.core.liveness import Liveness
from outlast.core.report import Report
from outlast.errors import TransportFailure
from outlast.http.announcing import body_failed
from outlast.http.call_context import CallContext
from outlast.http.connection import Lease
from outlast.http.endings import excused
from outlast.http.exchange import NeedData, PeerClosed, ProtocolError
from outlast.http.message import Head
from outlast.http.watching import NOTHING, RESPONSE, Watching
from outlast.net.dial import errno_of
from outlast.net.run import give_way
from outlast.net.seam import Wait

__all__ = ["MUTE", "Answer"]

NONE_KEPT: list[bytes] = []  # shared: what is kept is a list of its own
BROKEN = (PeerClosed, *ProtocolError)
MUTE = frozenset({"ReadTimeout", "WriteTimeout"})  # the endpoint is tried last for a while


class Answer(Watching):
    """A response under way. One owner; `close` may be called more than once."""

    __slots__ = ("_held", "_kept", "_lease", "head", "number", "report", "stream")

    def __init__(self, call: CallContext, head: Head, lease: Lease, number: int) -> None:
        self.call = call
        self.number = number  # of the attempt
        self.observer = None
        self.waiting = NOTHING
        self._lease: Lease | None = lease
        self._kept = NONE_KEPT  # what `hold` has read ahead
        self._held = False  # nobody has it yet
        self.head = head
        self.report: Report = call.report
        self.stream = lease.connection.stream  # to be looked at: it may be others' by now

    @property
    def lease(self) -> Lease | None:
        """The connection, as long as the answer has it."""
        return self._lease

    def at_hand(self) -> bytes | None:
        """The next piece if it has come already, b"" at the end; None: `read` has to wait for it.

        Raises TransportFailure.
        """
        if self._kept:
            return self._kept.pop(0)
        lease = self._lease
        if lease is None:
            return b""
        if self.call.deadline is not NEVER and self.call.late:
            return None
        try:
            piece = lease.exchange.body()
        except BROKEN as error:
            failure = self._torn(lease, error)
            self._broken(lease, failure)
            raise failure from error
        if not piece:
            self._ended(lease)
        return None if isinstance(piece, NeedData) else piece

    async def read(self) -> bytes:
        """The next piece of the body; b"" at its end. Raises TransportFailure."""
        if self._kept:
            return self._kept.pop(0)
        lease = self._lease
        if lease is None:
            return b""
        try:
            while isinstance(piece := self._piece(lease), NeedData):
                await self._pull(lease)
            return piece
        except TransportFailure as failure:
            self._broken(lease, failure)
            raise
        except BaseException:
            self._drop()
            raise

    def _broken(self, lease: Lease, failure: TransportFailure) -> None:
        failure.report = self.report
        if failure.kind in MUTE and not failure.ours:
            self.call.health.overdue(lease.address, self.call.now())
        self._drop()
        if events.listening and not self._held:  # the attempt that it is of was told to have failed
            body_failed(self, lease, failure)

    async def hold(self, most: int) -> bool:
        """Read the whole body ahead, if it has no more than `most` bytes; False if it has more.

        Then the connection is free, and the answer can still be given to the caller.
        """
        size = 0
        kept: list[bytes] = []
        self._held = True
        while size <= most:
            piece = await self.read()
            if not piece:
                self._kept = kept
                return True
            kept.append(piece)
            size += len(piece)
        self._kept, self._held = kept, False
        return False

    def close(self) -> None:
        """End the exchange: back to the pool if it is complete, else closed."""
        lease, self._lease = self._lease, None
        if lease is not None:
            self.call.engine.release(lease)

    def _drop(self) -> None:
        """End an exchange that broke, at once."""
        lease, self._lease = self._lease, None
        if lease is not None:
            self.unwatch()
            self.call.engine.discard(lease)

    def __del__(self) -> None:
        lease = self._lease
        if lease is not None:
            self.call.engine.abandon(lease)

    def _piece(self, lease: Lease) -> bytes | NeedData:
        """What the exchange has of the body now."""
        try:
            piece = lease.exchange.body()
        except BROKEN as error:
            raise self._torn(lease, error) from error
        if not piece:
            self._ended(lease)
        return piece

    def _ended(self, lease: Lease) -> None:
        self._lease = None
        self.call.engine.release(lease, True)
        del self.call  # a caller may keep the response for long, and needs nothing of that

    def _torn(self, lease: Lease, error: Exception) -> TransportFailure:
        told = str(error)
        if isinstance(error, PeerClosed):
            told = lease.connection.dropped
            told = f"the connection was dropped: {told}" if told else "the peer left"
        return self._failure(lease, "RemoteProtocolError", told, error)

    async def _pull(self, lease: Lease) -> None:
        exchange, call = lease.exchange, self.call
        seconds = call.request.timeouts.read
        until = call.until(seconds)
        if lease.connection.epoch != call.engine.epoch:  # what comes is for the parent
            message = f"the response from {lease.address} is another process's, by a fork"
            raise self._failure(lease, "ReadError", message, None)
        while not call.late:
            try:
                if exchange.pull():
                    self.heard()
                    await give_way()  # what comes faster than it is read must not hold a loop
                    return
            except OSError as error:
                message = f"read from {lease.address}: {error}"
                raise self._failure(lease, "ReadError", message, error) from error
            now = call.now()
            if now >= until:
                break
            if self.waiting is not RESPONSE:
                self.expect(RESPONSE, now, patient=True)
            sooner = min(until, self.next_look, now + exchange.patience)
            if not await Wait(exchange.interests(writing=False), sooner):
                self._look(lease)
        message = f"no more of the body from {lease.address} within {call.words(seconds)}"
        raise excused(lease, self._failure(lease, "ReadTimeout", message, None))

    def _look(self, lease: Lease) -> None:
        """Read the kernel's state once; raise if the peer is dead. There is nothing else to do:
        the rest of a body is asked for nowhere else."""
        limit = lease.connection.user_timeout  # none, if the answer came before the request's end
        if self.look(lease, limit, alternative=False) is Liveness.DEAD:
            message = f"{lease.address} is dead: {self.evidence}"
            raise self._failure(lease, "ReadError", message, None)

    def _failure(
        self, lease: Lease, kind: str, message: str, cause: BaseException | None
    ) -> TransportFailure:
        self.report.add(
            self.call.now(),
            "response",
            message,
            address=str(lease.address),
            local_port=lease.connection.stream.local_port,
            errno=errno_of(cause),
            progress=Progress.BODY,
        )
        return TransportFailure(kind, f"{message}; {Progress.BODY}: never repeated", cause)
