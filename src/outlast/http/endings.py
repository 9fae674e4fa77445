"""How an attempt may end without an answer, in words: what happened, where, how far it got.

What follows from an ending is `core.call`'s to decide. Refuses to call a request unsent once a
byte of it has been taken by the kernel, unless the server says that it did not act on it.
"""

from __future__ import annotations

import errno
import ssl

from outlast.core.classify import Progress
from outlast.errors import TransportFailure
from outlast.http.connection import Lease
from outlast.http.exchange import Refused, Unprocessed
from outlast.http.watching import Watching, never_acknowledged, outcome

__all__ = ["Endings", "excused"]


class Endings(Watching):
    """What an attempt knows of its end. Whoever inherits it sets all fields."""

    __slots__ = (
        "broken",
        "first_until",
        "progress",
        "read_until",
        "refused",
        "unacknowledged",
        "unprocessed",
    )

    progress: Progress
    unprocessed: bool  # by the server's own word
    refused: bool  # the same, by a server that takes no more for now
    unacknowledged: bool  # never acknowledged, and such may be repeated, by the policy's word
    broken: OSError | None  # the write side has failed; an answer may still come
    read_until: float  # 0: no read under way
    first_until: float  # when the policy's patience with the first byte ends; 0: not begun

    def _note_sent(self, lease: Lease) -> None:
        """Asked again when something has come of it: on a connection that is shared another
        thread may have handed over what this one has queued."""
        if self.progress is Progress.NOT_SENT and lease.exchange.sent and not self.unprocessed:
            self.progress = Progress.SENT
            self.call.wrote()

    def _nothing_sent(self, lease: Lease, error: OSError) -> TransportFailure:
        """A write that failed at once. What has arrived may tell why: the alert of a server that
        wants a certificate (TLS 1.3 refuses after the handshake). It would say so again."""
        try:
            lease.exchange.pull()
        except OSError as told:
            error = told
        final = isinstance(error, ssl.SSLError)
        message = f"write to {lease.address}: {error}"
        return TransportFailure("ReadError", message, error, final=final)

    def _write_timeout(self, lease: Lease) -> TransportFailure:
        limit = self.call.words(self.call.request.timeouts.write)
        unsent = self.progress is Progress.NOT_SENT
        told = self.progress if unsent else "a part of the request was sent"
        message = f"write to {lease.address} timed out after {limit}; {told}"
        return excused(lease, TransportFailure("WriteTimeout", message, final=True))

    def _first_byte_until(self, patience: float) -> float:
        """When the wait for the first byte of the response ends: by the policy, or the caller."""
        self.first_until = self.first_until or self.call.now() + patience
        return min(self.first_until, self.read_until)

    def _unanswered(self, lease: Lease) -> TransportFailure:
        policy, told = self.call.policy, outcome(lease)
        if policy.first_byte is not None and 0 < self.first_until < self.read_until:
            limit = f"{policy.first_byte:g} s (first_byte)"
            told = f"no response from {lease.address} within {limit}; {told}"
            return excused(lease, TransportFailure("ReadTimeout", told))
        limit = self.call.words(self.call.request.timeouts.read)
        told = f"no response from {lease.address} within {limit}; {told}"
        return excused(lease, TransportFailure("ReadTimeout", told, final=True))

    def _unprocessed(self, lease: Lease, error: Unprocessed) -> TransportFailure:
        """By the server's own word it has not acted on the request: as good as never sent."""
        self.progress = Progress.NOT_SENT
        self.unprocessed = True
        self.refused = isinstance(error, Refused)
        message = f"{error} ({lease.address}); the request was not processed"
        return TransportFailure("RemoteProtocolError", message, error)

    def _closed(self, lease: Lease) -> TransportFailure:
        if lease.exchange.begun:
            self.progress = Progress.RESPONSE_BEGUN
        if lease.connection.dropped:
            return self._dropped(lease, None)
        if self.broken is not None and self.broken.errno == errno.ETIMEDOUT:
            # The peer has not left: the kernel has given it up.
            message = f"write to {lease.address}: {self.broken}; {self.progress}"
            return excused(lease, TransportFailure("WriteError", message, self.broken))
        text = f"Server disconnected without sending a response. ({lease.address})"
        if self.broken is not None:
            text = f"{text}; write failed before: {self.broken}"
        return TransportFailure("RemoteProtocolError", f"{text}; {self.progress}", self.broken)

    def _dropped(self, lease: Lease, error: OSError | None) -> TransportFailure:
        message = f"the connection to {lease.address} was dropped: {lease.connection.dropped}"
        return TransportFailure("ReadError", f"{message}; {self.progress}", error)

    def _read_failed(self, lease: Lease, error: OSError) -> TransportFailure:
        if lease.exchange.begun:
            self.progress = Progress.RESPONSE_BEGUN
        self._note_sent(lease)
        if lease.connection.dropped:
            return self._dropped(lease, error)
        told = str(self.progress)
        if self.progress is Progress.SENT and error.errno == errno.ETIMEDOUT:  # the kernel's word
            told = outcome(lease)
            self._unheard_of(lease)
        message = f"read from {lease.address}: {error}; {told}"
        if self.broken is not None and str(self.broken) != str(error):
            message = f"{message}; write failed before: {self.broken}"
        failure = TransportFailure("ReadError", message, error)
        return excused(lease, failure) if error.errno == errno.ETIMEDOUT else failure

    def _dead(self, lease: Lease) -> TransportFailure:
        if lease.exchange.begun:
            self.progress = Progress.RESPONSE_BEGUN
        told = "was never heard of" if self.unacknowledged else "is dead"
        message = f"{lease.address} {told}: {self.evidence}; {outcome(lease)}"
        return TransportFailure("ReadError", message)

    def _unheard_of(self, lease: Lease) -> bool:
        """Whether the policy lets a request be repeated that otherwise may not be, because the
        peer's kernel has never acknowledged any of it. It must be this connection's alone: what is
        aborted then takes what is unacknowledged along, so that it cannot arrive later."""
        call = self.call
        request = call.request
        if call.policy.repeat_unacknowledged and request.body.replayable and not request.safe:
            alone = lease.connection.session is None
            self.unacknowledged = alone and never_acknowledged(lease)
        return self.unacknowledged


def excused(lease: Lease, failure: TransportFailure) -> TransportFailure:
    """Silence behind our own pulled cable is not held against the peer (DESIGN section 7)."""
    if not lease.connection.linked():
        failure.ours = True
        failure.message = f"{failure.message}; this machine's own link is down"
    return failure
