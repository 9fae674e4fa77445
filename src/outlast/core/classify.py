"""What a failure means: how far the request got, whose fault it was, whether it may be repeated.

Sources: RFC 9110 section 9.2.2 (idempotent methods); linux-tcp facts for errno (every error
before a connection stands means that nothing was sent); DESIGN section 2 for the rule of
repetition. Refuses to call anything safe that is merely likely.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import Enum, IntEnum

from outlast.core.health_plan import Fault

__all__ = [
    "IDEMPOTENT_METHODS",
    "ConnectFault",
    "Progress",
    "Verdict",
    "answer_fault",
    "connect_fault",
    "may_repeat_after_failure",
    "may_repeat_after_status",
    "parse_retry_after",
]

# RFC 9110 section 9.2.2: the safe methods, and PUT and DELETE.
IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
GATEWAY = frozenset({502, 503, 504})  # RFC 9110 section 15.6; Envoy: gateway errors


class Progress(IntEnum):
    """How far a request got before it failed."""

    NOT_SENT = 0
    SENT = 1
    RESPONSE_BEGUN = 2
    BODY = 3

    def __str__(self) -> str:
        return _PROGRESS_WORDS[self]


_PROGRESS_WORDS = {
    Progress.NOT_SENT: "nothing sent",
    Progress.SENT: "sent, no response",
    Progress.RESPONSE_BEGUN: "response begun",
    Progress.BODY: "body under way",
}


class ConnectFault(Enum):
    """Why a dial ended without a connection."""

    REFUSED = "refused"  # somebody answered: no listener, or a Service without endpoints
    UNREACHABLE = "unreachable"  # the network says that nobody is there
    SILENT = "no answer"
    LOCAL = "refused by this machine"  # the same dial would meet the same answer
    HANDSHAKE = "handshake failed"

    @property
    def worth_another_port(self) -> bool:
        """Whether the same address may answer a dial from a new local port."""
        return self not in (ConnectFault.LOCAL, ConnectFault.HANDSHAKE)


_REFUSED = frozenset({errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE})
_UNREACHABLE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENOPROTOOPT})
_UNREACHABLE |= {getattr(errno, "EHOSTDOWN", errno.EHOSTUNREACH)}


def connect_fault(code: int | None) -> ConnectFault:
    """The kind of a failed dial, by errno. What is not known is this machine's own refusal."""
    if code in _REFUSED:
        return ConnectFault.REFUSED
    if code in _UNREACHABLE:
        return ConnectFault.UNREACHABLE
    if code == errno.ETIMEDOUT:
        return ConnectFault.SILENT
    return ConnectFault.LOCAL


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to repeat, and why or why not, in words for the report."""

    repeat: bool
    why: str


def may_repeat_after_failure(progress: Progress, *, safe: bool, replayable: bool) -> Verdict:
    """Whether a request that failed at `progress` may be sent again.

    `safe`: the method is idempotent, or the request carries an Idempotency-Key.
    `replayable`: the body can be produced again, byte for byte.
    """
    if progress is Progress.NOT_SENT:
        if replayable:
            return Verdict(True, "nothing was sent")
        return Verdict(False, "nothing was sent, but the body was partly consumed")
    if progress is not Progress.SENT:
        return Verdict(False, "the response had begun")
    if not safe:
        return Verdict(False, "not idempotent and maybe sent")
    if not replayable:
        return Verdict(False, "the body cannot be replayed")
    return Verdict(True, "idempotent and unanswered")


def may_repeat_after_status(
    status: int, *, listed: frozenset[int], safe: bool, replayable: bool
) -> Verdict:
    """Whether a request that was answered with `status` may be sent again."""
    if status not in listed:
        return Verdict(False, "an answer")
    if not safe:
        return Verdict(False, f"status {status}, but not idempotent")
    if not replayable:
        return Verdict(False, f"status {status}, but the body cannot be replayed")
    return Verdict(True, f"status {status}")


def parse_retry_after(value: str | None, wall_clock: float) -> float | None:
    """Seconds to wait by a Retry-After header, in both forms; None if absent or unreadable.

    `wall_clock` is the Unix time now, for the date form (RFC 9110 section 10.2.3).
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    moment = _http_date(text)
    return None if moment is None else max(0.0, moment - wall_clock)


def _http_date(text: str) -> float | None:
    from datetime import timezone
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:  # the form of asctime, which is in GMT too (RFC 9110 5.6.7)
            moment = moment.replace(tzinfo=timezone.utc)
        return moment.timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def answer_fault(status: int) -> Fault | None:
    """What an answer's status tells against the endpoint: a gateway error (502, 503, 504), another
    server error, or nothing."""
    if status < 500:
        return None
    return Fault.GATEWAY if status in GATEWAY else Fault.ERROR
