"""One HTTP/2 connection and the exchanges on it: who reads, who writes, who hears of what.

h2 frames; this module moves bytes. There is one reader at a time: an exchange that waits takes the
part, hands events to the others and wakes them, and passes it on when it has its own. What is to be
sent goes into one queue; whoever finds nobody moving bytes moves them, for all. No lock meanwhile.

Connection-level credit is returned as data comes in, so that an unread response never starves
its siblings; stream-level credit when the data is read. Source: RFC 9113. Refuses to reuse a
connection after a protocol error, and to send on one that the server is leaving (GOAWAY).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock

import h2.errors
import h2.events
import h2.exceptions
import h11

from outlast.http.exchange import PeerClosed, Unprocessed
from outlast.http.h2_begin import MOST_STREAMS, begun
from outlast.http.h2_frames import Farewell, Frames
from outlast.http.h2_hearer import Hearer
from outlast.http.h2_mute import Silence
from outlast.http.message import Headers
from outlast.net.raising import anew
from outlast.net.seam import Network, Stream

__all__ = ["H2Session"]

CHUNK = 65_536
CREDIT = 1 << 19  # connection credit is returned in pieces of this size


class H2Session:
    """An HTTP/2 connection's state, shared by its exchanges. Thread-safe.

    `grown` is called, without the lock, when the server has said that it takes more at once.
    """

    def __init__(
        self, stream: Stream, network: Network, grown: Callable[[], object] = bool
    ) -> None:
        self.stream = stream
        self.network = network
        self._grown = grown
        self.failure: Exception | None = None
        self.leaving = False  # GOAWAY came, identifiers are used up, or the peer is mute
        self._why = "is leaving (GOAWAY)"
        self.silence = Silence()
        self._broken: Exception | None = None  # the same as `failure`, a moment before others hear
        self._settled = False  # the server has said how many streams it takes
        self._lock = Lock()
        self._h2 = begun()
        self._most = self._h2.remote_settings.max_concurrent_streams  # by the server's word
        self._frames = Frames()
        self._exchanges: dict[int, Hearer] = {}
        self._waiting: dict[Hearer, None] = {}  # to begin
        self._out: deque[bytes] = deque()
        self._moving = False
        self._wish_read = self._wish_send = False
        self.wants_room = False  # something queued waits for the network to take it
        self._reader: Hearer | None = None
        self._debt = 0  # connection credit that has not been returned yet
        self._queue_out()

    def renew(self) -> None:
        """In the child of a fork: the connection is the parent's. Nothing goes out on it from
        here, and nobody here waits for anything on it."""
        self._lock = Lock()
        self._exchanges.clear()
        self._waiting.clear()
        self._reader = None
        self._moving = False
        self.failure = ConnectionResetError("the HTTP/2 connection is another process's, by a fork")

    # -- room ------------------------------------------------------------------------------

    @property
    def capacity(self) -> int:
        """How many exchanges may be under way at once."""
        return min(MOST_STREAMS, self._most)

    @property
    def usable(self) -> bool:
        """Whether new exchanges may begin."""
        return self.failure is None and not self.leaving

    def quiet(self) -> bool:
        """Take in what has come while nobody used the connection; whether it may still be used."""
        self.move(read=True)
        return self.usable

    # -- sending ---------------------------------------------------------------------------

    def open(self, exchange: Hearer, headers: Headers, *, end: bool) -> int:
        """Send a request's head; its stream's number. Raises h11.LocalProtocolError.

        0: not yet, `exchange` will be woken: the server takes no more at the moment. Until it has
        said how many it takes that is one: more might break its rule, which ends the connection.
        """
        try:
            with self._lock:
                self._check()
                if not self.leaving and not self._takes_one():
                    self._waiting.setdefault(exchange)
                    return 0
                self._waiting.pop(exchange, None)
                number = self._begin(headers, end)
                self._exchanges[number] = exchange
                self._queue_out()
                return number
        finally:
            self._call_next()

    def _begin(self, headers: Headers, end: bool) -> int:
        """Under the lock: a new stream's number."""
        if self.leaving:
            raise Unprocessed(f"the server {self._why}")
        try:
            number = self._h2.get_next_available_stream_id()
            self._h2.send_headers(number, list(headers), end_stream=end)
        except h2.exceptions.NoAvailableStreamIDError as error:
            self.leaving = True
            raise Unprocessed("the connection's stream numbers are used up") from error
        except h2.exceptions.ProtocolError as error:
            self.leaving = True  # some of the head may stand in HPACK's table already
            raise h11.LocalProtocolError(str(error)) from error
        return number

    def _takes_one(self) -> bool:
        """Under the lock: whether one more stream may begin now."""
        most = self._most if self._settled else 1
        # To count what is open takes h2 longer; it is no more than the exchanges.
        return len(self._exchanges) < most or self._h2.open_outbound_streams < most

    def may_begin(self) -> bool:
        """Whether it is worth while to try `open` again: it begins, or says why it never will."""
        with self._lock:
            return self.leaving or self._broken is not None or self._takes_one()

    def _call_next(self) -> None:
        """Wake the first who waits to begin, if it may."""
        if self._waiting and self.may_begin():
            with self._lock:
                first = next(iter(self._waiting), None)
            if first is not None:
                first.wake()

    def room(self, number: int) -> int:
        """Bytes of a body that stream `number` may send now."""
        try:
            window = self._h2.local_flow_control_window(number)
        except h2.exceptions.ProtocolError:  # the stream has been reset: nobody wants the rest
            return CHUNK
        # A server that shrinks its windows leaves them below 0 (RFC 9113 section 6.9.2).
        return max(0, min(window, self._h2.max_outbound_frame_size))

    def send(self, number: int, data: bytes | memoryview, *, end: bool) -> int:
        """Queue as much of a body as the peer's windows allow; the bytes taken."""
        with self._lock:
            self._check()
            count = min(len(data), self.room(number))
            if not count and not (end and not data):
                return 0
            try:
                last = end and count == len(data)
                self._h2.send_data(number, bytes(data[:count]), end_stream=last)
            except h2.exceptions.StreamClosedError:  # reset by the peer; its answer tells why
                return len(data)
            except h2.exceptions.ProtocolError as error:
                raise h11.LocalProtocolError(str(error)) from error
            self._queue_out()
            return count

    # -- moving bytes ----------------------------------------------------------------------

    def move(self, *, read: bool = False) -> None:
        """Hand over what is queued, and with `read` take in what has arrived.

        One thread moves at a time, without the lock: who comes meanwhile leaves the wish to it.
        Never raises: a broken connection stands in `failure`, and everybody is woken.
        """
        with self._lock:
            self._wish_read |= read
            self._wish_send = True
            if self._moving:
                return
            self._moving = True
        try:
            while self._next_move():
                pass
        except OSError as error:
            self.fail(error)  # first: what is queued must not go out once others have heard of it
            self._moving = False

    def _next_move(self) -> bool:
        with self._lock:
            read, send = self._wish_read, self._wish_send
            self._wish_read = self._wish_send = False
            if self.failure is not None or not (read or send):
                self._moving = False
                return False
        if send:
            self._hand_over()
        if read:
            self._take_in()
        return True

    def _hand_over(self) -> None:
        while self._out:
            part = self._out.popleft()
            count = self.stream.send(part)
            if count < len(part):
                self._out.appendleft(part[count:])
                break
        wanted, self.wants_room = self.wants_room, bool(self._out) or not self.stream.flush()
        if self.wants_room and not wanted:
            self._wake(lambda e: e is self._reader)  # it is to wait for room too
        elif wanted and not self.wants_room:
            self._wake(lambda e: e.blocked)

    def _take_in(self) -> None:
        """One read: one TLS record or more; asked again if there may be something left."""
        data = self.stream.recv(CHUNK)
        if data is None:
            return
        if not data:
            self.fail(PeerClosed("the server has closed the connection"))
            return
        self.silence.broken()
        failure: Exception | None = None
        heard: dict[Hearer, None] = {}
        before = self.capacity
        with self._lock:
            try:
                for part in self._frames.split(data):
                    heard.update(self._received(part))
            except h2.exceptions.ProtocolError as error:
                failure = self._broken = h11.RemoteProtocolError(str(error))
                self.leaving = True
            self._queue_out()
            self._wish_read |= len(data) == CHUNK  # else that was all, of TLS too
        for exchange in heard:
            exchange.wake()
        if self.capacity > before:
            self._grown()
        if failure is not None:
            try:
                self._hand_over()  # the reason goes out as GOAWAY
            finally:
                self.fail(failure)

    def _wake(self, wanted: Callable[[Hearer], bool]) -> None:
        with self._lock:
            chosen = [exchange for exchange in self._all() if wanted(exchange)]
        for exchange in chosen:
            exchange.wake()

    def _queue_out(self) -> None:
        data = self._h2.data_to_send()
        if data:
            self._out.append(data)
            self._wish_send = True

    # -- receiving -------------------------------------------------------------------------

    def take_part(self, exchange: Hearer) -> bool:
        """Become the reader, if there is none; whether `exchange` is the reader now."""
        with self._lock:
            if self._reader is None:
                self._reader = exchange
            return self._reader is exchange

    def pass_on(self, exchange: Hearer) -> None:
        """Be the reader no more; somebody who waits becomes it."""
        with self._lock:
            if self._reader is not exchange and self._reader is not None:
                return
            self._reader = None
            heir = next((e for e in self._all() if e.parked and e is not exchange), None)
        if heir is not None:
            heir.wake()

    def _received(self, part: bytes | Farewell) -> dict[Hearer, None]:
        """Under the lock: give what has arrived to its exchanges, which are to be woken."""
        if isinstance(part, Farewell):
            return self._farewell(part)
        heard: dict[Hearer, None] = {}
        for event in self._h2.receive_data(part):
            if isinstance(event, h2.events.DataReceived):
                self._return_credit(event.flow_controlled_length or 0)
            stream: int = getattr(event, "stream_id", None) or 0
            owner = self._exchanges.get(stream)
            if owner is not None:
                owner.hear(event)
                heard[owner] = None
            elif isinstance(event, (h2.events.WindowUpdated, h2.events.RemoteSettingsChanged)):
                if isinstance(event, h2.events.RemoteSettingsChanged):
                    self._settled = True
                    self._most = self._h2.remote_settings.max_concurrent_streams
                heard.update(dict.fromkeys(self._all()))  # room for all who wait for it
        return heard

    def _farewell(self, farewell: Farewell) -> dict[Hearer, None]:
        """The server takes no more streams, and acts on none beyond its last one: of those it
        is told nothing more either.

        A connection whose very first stream meets an error would meet it again elsewhere: that
        is an error, not something to repeat (as in Go's client).
        """
        self.leaving = True
        hearers = dict.fromkeys(self._all())
        told = f"the server was leaving (GOAWAY, code {farewell.code})"
        for number in [each for each in self._exchanges if each > farewell.last]:
            exchange = self._exchanges.pop(number)
            poor = farewell.code and number == 1
            exchange.hear(h11.RemoteProtocolError(told) if poor else Unprocessed(told))
        return hearers

    def _all(self) -> list[Hearer]:
        return [*self._exchanges.values(), *self._waiting]

    def _return_credit(self, size: int) -> None:
        self._debt += size
        if self._debt >= CREDIT:
            self._h2.increment_flow_control_window(self._debt)
            self._debt = 0

    def credit(self, number: int, size: int) -> None:
        """So many bytes of a response have been read: its stream may send as many more."""
        with self._lock:
            try:
                self._h2.increment_flow_control_window(size, number)
            except (h2.exceptions.ProtocolError, KeyError):  # ended meanwhile, or forgotten by h2
                return
            self._queue_out()
        self.move()

    # -- endings ---------------------------------------------------------------------------

    def leave(self, number: int, *, reset: bool) -> None:
        """An exchange is over. With `reset` the server is told to stop."""
        with self._lock:
            exchange = self._exchanges.pop(number, None)
            if reset and exchange is not None and self.failure is None:
                try:
                    self._h2.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
                except h2.exceptions.ProtocolError:  # it had ended by itself
                    pass
                self._queue_out()
        if exchange is not None:
            self.pass_on(exchange)
        self._call_next()
        if reset:
            self.move()

    def give_up(self, since: float, heard: int) -> None:
        """An exchange is given up unanswered, `since` whose last sign of life, when so much was
        `heard`, nothing has come for it."""
        if self.silence.lasts(self.network.now() - since, heard):
            self.leaving, self._why = True, "has not answered others"

    def doubt(self) -> None:
        """There is evidence against the peer: streams go on, and who waits to begin one is told
        that nothing was sent."""
        self.leaving, self._why = True, "is suspect"
        self._call_next()

    def forget(self, exchange: Hearer) -> None:
        """An exchange that waits to begin will not."""
        with self._lock:
            self._waiting.pop(exchange, None)
        self._call_next()

    def fail(self, error: Exception) -> None:
        """The connection is broken: everybody on it hears of it."""
        with self._lock:
            if self.failure is None:
                self.failure = anew(error)  # never raised itself: see `net.raising`
            exchanges = self._all()
        for exchange in exchanges:
            exchange.wake()

    def _check(self) -> None:
        """Under the lock: refuse to begin or go on over a broken connection."""
        failure = self.failure or self._broken
        if isinstance(failure, OSError):
            raise anew(failure)
        if failure is not None:
            raise ConnectionResetError(f"the HTTP/2 connection has failed: {failure}")
