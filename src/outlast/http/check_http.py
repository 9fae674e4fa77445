"""The active check by HTTP: one request on a connection of its own, and what its answer has to be.

HTTP/1.1, as HAProxy and Kubernetes check, also where the target's users speak HTTP/2; over TLS
where they do, the name that the user wrote verified. h11 frames. A status that is right is enough
as soon as the head is there; of a body at most 64 KiB are looked at.

Source: HAProxy 3.0 `option httpchk` and `http-check expect` (2xx and 3xx are well); kubelet's HTTP
probe (200 to 399, `Connection: close`). Refuses to follow redirects, and to send a body.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from outlast.core.health_plan import Evidence
from outlast.http.exchange import NeedData, PeerClosed, ProtocolError
from outlast.http.h1 import H1Exchange
from outlast.http.message import Head, Headers
from outlast.net.handout import default_context
from outlast.net.options import LocalRefusal
from outlast.net.seam import WRITE, Stream, Wait
from outlast.net.tls import handshake
from outlast.service.check_kinds import (
    CheckSchedule,
    CheckWay,
    Outcome,
    Subject,
    connect,
    read_port,
)

__all__ = ["HttpCheck"]

MOST_BODY = 65_536  # bytes
WELL = range(200, 400)
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
TARGET = re.compile(r"/[!-\"$-~]*")  # RFC 9112 section 3.2.1; a fragment is not sent
AUTHORITY = re.compile(r"[!-\"$-.0->A-~]+")  # no space, no '/', '?', '#' or '@'
VALUE = re.compile(r"[ \t!-~\x80-\xff]*")  # RFC 9110 section 5.5
# Header fields that are the check's own to say: where it goes, its end, and that it has no body.
OWN = {"host", "connection", "content-length", "transfer-encoding"}
AGENT = ("user-agent", "outlast-check")


@dataclass(frozen=True, slots=True)
class HttpCheck(CheckSchedule):
    """The endpoint answers a request as it should.

    path: of the request, with its query: "/healthz?full=1".
    host: what Host says; None is the name by which the target's users reach it.
    method: GET, HEAD, OPTIONS, or any other; it is sent without a body.
    status: those that are well, such as {200, 204} or range(200, 400).
    body: what the answer's body, of which 64 KiB are looked at, has to contain: bytes, or a
        pattern of bytes that is searched for. None: anything.
    headers: more fields of the request, as pairs or as a mapping.
    port: another port of the same host. None: the endpoint's own.
    tls: whether to speak TLS; None: as the target's users do. Where those do not, the system's
        trust store decides. The name is verified as theirs is: `host` does not change it.

    See `CheckSchedule` for the other figures. Raises ValueError naming what is wrong.
    """

    path: str = "/"
    _: KW_ONLY
    host: str | None = None
    method: str = "GET"
    status: Collection[int] = WELL
    body: bytes | re.Pattern[bytes] | None = None
    headers: Iterable[tuple[str, str]] | Mapping[str, str] = ()
    port: int | None = None
    tls: bool | None = None

    def __post_init__(self) -> None:
        CheckSchedule.__post_init__(self)
        _match("path", self.path, TARGET, "write it like '/healthz?full=1'")
        if self.host is not None:
            _match("host", self.host, AUTHORITY, "write it like 'orders.shop.svc'")
        _match("method", self.method, TOKEN, "write 'GET'")
        read_port("HttpCheck", self.port)
        _read_tls(self.tls)
        object.__setattr__(self, "status", _statuses(self.status))
        object.__setattr__(self, "headers", _fields(self.headers))
        self._read_body()

    def _read_body(self) -> None:
        wanted = self.body
        if wanted is None:
            return
        inner: object = wanted.pattern if isinstance(wanted, re.Pattern) else wanted
        if not isinstance(inner, bytes) or not inner:
            raise ValueError(
                f"HttpCheck: body {wanted!r} is neither bytes nor a pattern of bytes; write "
                "b'ready' or re.compile(rb'up|ready')"
            )
        if self.method == "HEAD":
            raise ValueError("HttpCheck: body: an answer to HEAD has none; write method='GET'")

    async def probe(self, subject: Subject) -> Outcome:
        """See `CheckKind.probe`."""
        context = self._context(subject.way)
        raw = stream = await connect(subject, self.port)
        try:
            if context is not None:
                subject.stage = "the TLS handshake"
                name = subject.way.host or subject.address.host
                stream = await handshake(raw, context=context, name=name, protocols=("http/1.1",))
            outcome = await self._talk(subject, stream)
        except Exception:
            stream.close()
            raise
        except BaseException:  # at its time-out
            stream.abort()
            raise
        stream.close()
        return outcome

    def _context(self, way: CheckWay) -> Any:
        """Made before anything is dialled: to load a trust store takes time."""
        if self.tls is False or (self.tls is None and way.trust is None):
            return None
        try:
            return default_context() if way.trust is None else way.trust()
        except OSError as error:  # a file of certificates that is not there: nobody else's fault
            text = f"no TLS context for the check: {error.strerror or error}"
            raise LocalRefusal(error.errno or errno.EINVAL, text) from error

    async def _talk(self, subject: Subject, stream: Stream) -> Outcome:
        exchange = H1Exchange(stream)
        subject.stage = "room for the request"
        exchange.start(self.method, self.path.encode("ascii"), self._headers(subject))
        exchange.end()
        try:
            while not exchange.push():
                await Wait(((stream, WRITE),))
            subject.stage = "an answer"
            head = await _head(exchange)
            outcome = self._judge(head)
            if outcome.ok and self.body is not None:
                subject.stage = "the answer's body"
                outcome = self._judge_body(await self._read(exchange))
        except PeerClosed:
            return _ill("the server closed the connection without an answer")
        except ProtocolError as error:
            return _ill(f"the answer is not valid HTTP/1.1: {error}")
        return outcome

    def _headers(self, subject: Subject) -> Headers:
        way = subject.way
        host = self.host or way.authority or way.host or str(subject.address)
        fields: Any = self.headers  # pairs, since they were checked
        given = [(name.encode("ascii"), value.encode("latin-1")) for name, value in fields]
        if not any(name.lower() == b"user-agent" for name, _ in given):
            given.insert(0, (AGENT[0].encode(), AGENT[1].encode()))
        return [(b"host", host.encode("ascii")), *given, (b"connection", b"close")]

    def _judge(self, head: Head) -> Outcome:
        status = head.status
        if status in self.status:
            return Outcome(True, f"status {status}", Evidence.ANSWERS)
        return _ill(f"status {status}, and {_in_words(self.status)} would be well")

    async def _read(self, exchange: H1Exchange) -> bytes:
        """The body, or as much of it as is looked at or needed."""
        data, wanted = bytearray(), self.body
        while len(data) < MOST_BODY:
            piece = exchange.body()
            if isinstance(piece, NeedData):
                await _more(exchange)
                continue
            data += piece
            if not piece or (isinstance(wanted, bytes) and wanted in data):
                break
        return bytes(data[:MOST_BODY])

    def _judge_body(self, data: bytes) -> Outcome:
        wanted = self.body
        assert wanted is not None
        if isinstance(wanted, re.Pattern):
            found, wanted = wanted.search(data) is not None, wanted.pattern
        else:
            found = wanted in data
        if found:
            return Outcome(True, "status and body are as they should be", Evidence.ANSWERS)
        return _ill(f"{wanted!r} is not in the first {len(data)} bytes of the body")


def _ill(why: str) -> Outcome:
    """Somebody is there, and does not answer as it should."""
    return Outcome(False, why, Evidence.ANSWERS)


async def _head(exchange: H1Exchange) -> Head:
    while isinstance(head := exchange.head(), NeedData):
        await _more(exchange)
    return head


async def _more(exchange: H1Exchange) -> None:
    """Take in what arrives next, or the end."""
    while not exchange.pull():
        await Wait(exchange.interests(writing=False))


# -- what was written ----------------------------------------------------------------------


def _match(name: str, value: object, form: re.Pattern[str], right: str) -> None:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError(f"HttpCheck: {name} {value!r} is none; {right}")


def _read_tls(value: object) -> None:
    if not (value is None or isinstance(value, bool)):
        raise ValueError(f"HttpCheck: tls {value!r} is not True, False or None")


def _statuses(value: object) -> Collection[int]:
    """The statuses, as a value that cannot change."""
    right = "write {200, 204} or range(200, 400)"
    if not isinstance(value, Collection) or isinstance(value, (str, bytes, Mapping)):
        raise ValueError(f"HttpCheck: status {value!r} is no set of status codes; {right}")
    if not value:
        raise ValueError(f"HttpCheck: status {value!r} is empty: no answer would be well; {right}")
    for status in value:
        if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599:
            raise ValueError(f"HttpCheck: status {status!r} is not from 200 to 599; {right}")
    return value if isinstance(value, range) else frozenset(value)


def _fields(value: object) -> tuple[tuple[str, str], ...]:
    """The header fields, as a value that cannot change."""
    right = "write {'x-probe': '1'} or [('x-probe', '1')]"
    pairs = value.items() if isinstance(value, Mapping) else value
    if not isinstance(pairs, Iterable) or isinstance(pairs, (str, bytes)):
        raise ValueError(f"HttpCheck: headers {value!r} are no pairs; {right}")
    return tuple(_field(pair, right) for pair in pairs)


def _field(pair: object, right: str) -> tuple[str, str]:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ValueError(f"HttpCheck: headers: {pair!r} is no pair of name and value; {right}")
    name, value = pair
    if not isinstance(name, str) or not TOKEN.fullmatch(name):
        raise ValueError(f"HttpCheck: headers: {name!r} is no name of a field; {right}")
    if name.lower() in OWN:
        other = "; write host=..." if name.lower() == "host" else ""
        raise ValueError(f"HttpCheck: headers: {name!r} is the check's own to say{other}")
    if not isinstance(value, str) or not VALUE.fullmatch(value):
        raise ValueError(f"HttpCheck: headers: {name!r} cannot be {value!r}; {right}")
    return name, value.strip(" \t")


def _in_words(status: Collection[int]) -> str:
    if isinstance(status, range) and status.step == 1:
        return f"{status.start} to {status.stop - 1}"
    return ", ".join(map(str, sorted(status)))
