"""One try of a request: a connection checked out, the request sent, the head received.

`go` can be called again after it said SUSPECT or LATE: it goes on where it was. What an attempt
holds (a place in the pool, an exchange) goes back at once when it ends, however it ends; what did
not finish its exchange is never used again.

The decision whether to try again is `core.call`'s. Here stands only how far the request got.
"""

from __future__ import annotations

from enum import Enum

from outlast.core.classify import Progress
from outlast.core.deadline import NEVER
from outlast.core.liveness import Liveness
from outlast.errors import TransportFailure
from outlast.http.answer import MUTE, Answer
from outlast.http.call_context import CallContext
from outlast.http.checkout import check_out
from outlast.http.connection import Lease
from outlast.http.endings import Endings
from outlast.http.exchange import NeedData, PeerClosed, ProtocolError, Unprocessed
from outlast.http.message import BytesBody, Head, StreamBody
from outlast.http.watching import NOTHING, RESPONSE, ROOM
from outlast.net.address import Address
from outlast.net.run import give_way
from outlast.net.seam import WRITE, Wait
from outlast.service.turn import Turn

__all__ = ["Attempt", "Outcome"]

BROKEN = frozenset({"ReadError", "WriteError", "RemoteProtocolError"})
FAILED_WRITE = (OSError, Unprocessed, *ProtocolError)


class Outcome(Enum):
    """How a `go` ended."""

    ANSWERED = "answered"
    SUSPECT = "suspect"
    LATE = "late"  # time for a hedge
    FAILED = "failed"


class _Suspect(Exception):
    """The watch has found that the peer's kernel never acknowledged the request."""


class Attempt(Endings):
    """One try. One owner; not thread-safe."""

    __slots__ = (
        "early",
        "failure",
        "head",
        "headers",
        "lease",
        "number",
        "place",
        "sent",
        "started",
        "turn",
        "used",
        "watched",
    )

    def __init__(self, call: CallContext, number: int, place: bool = False) -> None:
        self.call = call
        self.number = number
        self.place = place  # a place in the pool, taken over from a suspect connection
        self.lease: Lease | None = None
        self.used: Lease | None = None  # the same, kept for the report
        self.head: Head | None = None
        self.headers = call.request.headers  # as they are sent
        self.progress = Progress.NOT_SENT
        self.failure: TransportFailure | None = None
        self.started = False
        self.unprocessed = self.refused = self.unacknowledged = False
        self.sent = False
        self.broken = None
        self.read_until = self.first_until = 0.0
        self.observer = None
        self.waiting = NOTHING
        self.waiting_since = 0.0
        self.next_look = 0.0
        self.watched = call.watched
        self.turn: Turn | None = None  # at one of several endpoints
        self.early = False  # the answer comes before the request was all sent

    async def go(self) -> Outcome:
        """Run to the response's head, or until the attempt is suspect or has failed."""
        try:
            if self.lease is None:
                place, self.place = self.place, False
                found = check_out(self.call, self.number, place)
                self.lease = self.used = found if isinstance(found, Lease) else await found
                if self.call.service.chooses:
                    self.turn = self.call.service.begin(self.lease.address, self.call.now())
            lease = self.lease
            if not self.sent and not self._sends_at_once(lease):
                await self._send(lease)
            if self.head is None and lease.exchange.begun:
                self.head = self._next_head(lease)
            while self.head is None:
                await self._pull(lease)
                self.read_until = 0.0
                self.head = self._next_head(lease)
        except _Suspect:
            return Outcome.SUSPECT
        except TransportFailure as failure:
            self.failure = failure
            if self.lease is not None:
                self._note_sent(self.lease)
                self._blame(self.lease, failure)
            self.drop()
            return Outcome.FAILED
        except BaseException:
            self.drop()
            raise
        if self.early:  # nobody watches what is left unsent, and the peer may never read it
            self.lease.connection.limit(0.0)
        return Outcome.ANSWERED

    def drop(self) -> None:
        """End what is under way, at once. Idempotent."""
        if self.place:
            self.place = False
            self.call.engine.free_place(self.call.epoch)
        if self.turn is not None:
            self.turn.quit(self.call.now())
        lease, self.lease = self.lease, None
        if lease is not None:
            self.unwatch()
            self.call.engine.discard(lease)

    def _blame(self, lease: Lease, failure: TransportFailure) -> None:
        """A failure may tell against the endpoint. What ends in the middle of a pooled connection's
        life may have met its end in good order; what this side has ended tells nothing."""
        health, now = self.call.health, self.call.now()
        if failure.ours:
            return
        if failure.kind in MUTE:
            health.overdue(lease.address, now)
        elif failure.kind in BROKEN and not lease.connection.dropped:
            if lease.connection.requests > 1 and not lease.exchange.begun:
                return
            health.broken(lease.address, now)
        else:
            return
        if self.turn is not None:
            self.turn.failed(now)

    def heard_out(self, retry_after: float = 0.0) -> None:
        """The answer's head is the endpoint's word on itself. `retry_after`: seconds, if it asks to
        be spared for so long."""
        service, head = self.call.service, self.head
        assert head is not None
        status = head.status
        if not service.attentive and status < 500:  # a good answer of the only endpoint
            return
        now = self.call.now()
        self.call.health.answered(self.address, status, now)
        if self.turn is not None:
            self.turn.answered(status, now, retry_after)

    @property
    def address(self) -> Address:
        """The endpoint that was used last."""
        assert self.used is not None
        return self.used.connection.address

    @property
    def status(self) -> int:
        """Of the answer that has begun."""
        assert self.head is not None
        return self.head.status

    def answer(self) -> Answer:
        """The answer that has begun; it has the connection from here on."""
        lease, self.lease = self.lease, None
        assert lease is not None
        assert self.head is not None
        return Answer(self.call, self.head, lease, self.number)

    # -- out -------------------------------------------------------------------------------

    def _sends_at_once(self, lease: Lease) -> bool:
        """Begin to send; True if all is done without a wait, as of nearly every request."""
        if self.started:
            return False
        self.started = True
        self._queue_start(lease)
        if type(self.call.request.body) is not BytesBody:
            return False
        try:
            self.sent = lease.exchange.push()
        except FAILED_WRITE as error:
            self._note_sent(lease)
            self.early = self._stopped(lease, error)
            self.sent = True
        else:
            self._note_sent(lease)
        return self.sent

    async def _send(self, lease: Lease) -> None:
        """What is left to send."""
        body = self.call.request.body
        self.early = await self._push(lease)
        if isinstance(body, StreamBody) and not self.early:
            try:
                self.early = await self._stream(lease, body)
            finally:
                await body.end()  # what is left of it is not wanted any more
        self.sent = True

    def _queue_start(self, lease: Lease) -> None:
        """The request's head, and its body too if that stands in memory."""
        request, exchange = self.call.request, lease.exchange
        try:
            exchange.start(request.method, request.target, self.headers)
            if isinstance(request.body, BytesBody):
                if request.body.data:
                    exchange.data(request.body.data)
                exchange.end()
        except ProtocolError as error:
            raise TransportFailure("LocalProtocolError", str(error), error, final=True) from error

    async def _stream(self, lease: Lease, body: StreamBody) -> bool:
        """Send the caller's own chunks; as `_push`. While the caller's code runs nobody watches
        the socket, so no user timeout may stand on it (DESIGN section 7)."""
        exchange = lease.exchange
        lease.connection.limit(0.0)
        try:
            while (chunk := await body.pull()) is not None:
                if self.call.late:
                    raise self._write_timeout(lease)
                await give_way()  # neither the caller's code nor a quick peer may ever wait
                if chunk:
                    exchange.data(chunk)
                    if await self._push(lease):
                        return True
                    lease.connection.limit(0.0)  # a look may have set it
            exchange.end()
            return await self._push(lease)
        except ProtocolError as error:
            raise TransportFailure("LocalProtocolError", str(error), error, final=True) from error
        finally:
            lease.connection.limit(self.call.user_timeout)

    async def _push(self, lease: Lease) -> bool:
        """Hand over what is queued. True: stop, the answer is coming before the request's end."""
        try:
            while not self._hand_over(lease):
                if await self._blocked(lease):
                    return True
        except FAILED_WRITE as error:
            return self._stopped(lease, error)
        return False

    def _hand_over(self, lease: Lease) -> bool:
        try:
            return lease.exchange.push()
        finally:
            self._note_sent(lease)

    def _stopped(self, lease: Lease, error: Exception) -> bool:
        """No more can be sent; as `_push`."""
        if isinstance(error, OSError):
            return self._write_failed(lease, error)
        if isinstance(error, Unprocessed):
            raise self._unprocessed(lease, error) from error
        raise TransportFailure("LocalProtocolError", str(error), error, final=True) from error

    def _write_failed(self, lease: Lease, error: OSError) -> bool:
        """A server may answer and close before it has read everything: look for that answer."""
        self._note_sent(lease)
        if self.progress is Progress.NOT_SENT:
            raise self._nothing_sent(lease, error)
        if lease.connection.dropped:  # our own doing: an answer would be to half a request
            raise self._dropped(lease, error)
        self.broken = error
        return True

    async def _blocked(self, lease: Lease) -> bool:
        """The peer does not take more now. True if it has answered already, and so wants no more.

        A success does not say that: its rest may wait for the request's (RFC 9113 section 8.1). It
        is the answer if the peer takes no more for as long as it may."""
        exchange = lease.exchange
        until = self.call.until(self.call.request.timeouts.write)
        while self.head is None:
            now = self.call.now()
            if now >= until:
                raise self._write_timeout(lease)
            if self.waiting is not ROOM:
                self.expect(ROOM, now)
            ready = await Wait(exchange.interests(writing=True), min(until, self.next_look))
            if ready:
                self.waiting = NOTHING
                if exchange.pull():
                    self.head = self._next_head(lease)
                return self.head is not None and not 200 <= self.head.status < 300
            self._look(lease)
        return await self._blocked_amid_an_answer(lease, until)

    async def _blocked_amid_an_answer(self, lease: Lease, until: float) -> bool:
        """As `_blocked`, when a success has begun. Its body is not read yet: HTTP/1.1 leaves it to
        the kernel, a stream of HTTP/2 to its window."""
        exchange = lease.exchange
        alone = exchange.number is None
        room = ((lease.connection.stream, WRITE),) if alone else exchange.interests(writing=True)
        if not await Wait(room, until):
            return self.call.now() >= until
        if not alone:
            exchange.pull()
        return False

    # -- in --------------------------------------------------------------------------------

    def _next_head(self, lease: Lease) -> Head | None:
        """The response's head, if it has come."""
        try:
            head = lease.exchange.head()
        except PeerClosed as error:
            raise self._closed(lease) from error
        except Unprocessed as error:
            raise self._unprocessed(lease, error) from error
        except ProtocolError as error:
            self.progress = Progress.RESPONSE_BEGUN
            message = f"{error} ({lease.address}); {self.progress}"
            raise TransportFailure("RemoteProtocolError", message, error) from error
        if isinstance(head, NeedData):
            return None
        if self.progress is Progress.NOT_SENT:
            self._note_sent(lease)
        self.progress = Progress.RESPONSE_BEGUN
        if self.observer is not None:
            self.heard()
        return head

    async def _pull(self, lease: Lease) -> None:
        """Wait until more of the response has come, watching the peer's kernel meanwhile."""
        exchange, call = lease.exchange, self.call
        if call.deadline is not NEVER and call.late:
            raise self._unanswered(lease)
        until = self.read_until = self.read_until or call.until(call.request.timeouts.read)
        if exchange.begun and self._arrived(lease):  # one read of TLS may leave more behind
            return
        if call.policy.first_byte is not None and not exchange.begun:
            until = self._first_byte_until(call.policy.first_byte)
        while True:
            if self.waiting is not RESPONSE:
                self.expect(RESPONSE, call.now())
            ready = await Wait(exchange.interests(writing=False), min(until, self.next_look))
            if ready and self._arrived(lease):
                return
            if call.now() >= until:
                raise self._unanswered(lease)
            if not ready:
                self._look(lease)

    def _arrived(self, lease: Lease) -> bool:
        try:
            return lease.exchange.pull()
        except OSError as error:
            raise self._read_failed(lease, error) from error

    # -- the watch -------------------------------------------------------------------------

    def _look(self, lease: Lease) -> None:
        """Read the kernel's state once; raise if the request is suspect, or its peer dead."""
        call, pool = self.call, self.call.engine.pool
        evicts = call.policy.watch and pool.crowded
        verdict = self.look(lease, call.user_timeout, alternative=self.watched or evicts)
        if verdict is not Liveness.SUSPECT and verdict is not Liveness.DEAD:
            return
        if verdict is Liveness.DEAD or self._unheard_of(lease):
            raise self._dead(lease)
        if self.watched and not lease.exchange.begun:
            self.watched = False  # once: a second attempt is all that this evidence is good for
            raise _Suspect
        if evicts:
            pool.evict(lease.connection)
