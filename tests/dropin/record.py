"""What a client got and what its server saw, in a form that can be compared and read."""

from __future__ import annotations

import difflib
import pprint
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import httpx

from tests.dropin.family import FAMILY
from tests.dropin.stage import Line

NOT_COMPARED = {"outlast"}  # what only one side has: the report
PORT = re.compile(r":\d{4,5}\b")
PROXYING = re.compile(r"(CONNECT|SOCKS5) [^,]*")
BROKEN = {"RemoteProtocolError", "ReadError", "WriteError", "ReadTimeout", "WriteTimeout"}
LONG = 2000  # bytes
CLOCKS = {b"Date", b"date"}  # tells only when a real server was asked


@dataclass(frozen=True)
class Outcome:
    """How one request ended: its status or its exception's class, and everything about it."""

    word: str
    detail: dict[str, object] = field(default_factory=dict)

    @property
    def over_http2(self) -> bool:
        """Whether it is a response over HTTP/2."""
        return self.detail.get("version") == "HTTP/2"


@dataclass(frozen=True)
class Record:
    """One client's run. `kept`: idle connections in its pool before it was closed; None
    if the server had ended one, which the client may know or not."""

    outcomes: Sequence[tuple[str, Outcome]]
    lines: Sequence[Line]
    kept: int | None

    def words(self) -> str:
        """The run in one line: outcomes, and the requests on each connection; no ports."""
        ends = ", ".join(outcome.word for _, outcome in self.outcomes)
        seen = [re.sub(PORT, "", ", ".join(line.requests)) or "nothing" for line in self.lines]
        return " | ".join([ends, *_without_crowds(seen)])


def _without_crowds(seen: list[str]) -> list[str]:
    """How many connections end before their first request depends on how fast they end."""
    poor = [each for each in seen if each == "nothing" or PROXYING.fullmatch(each)]
    crowds = {each for each in poor if poor.count(each) > 2}
    told = {"nothing": "many without a request"}
    rest = [each for each in seen if each not in crowds]
    return [*rest, *(told.get(each, f"many times {each}") for each in sorted(crowds))]


def reused(record: Record) -> str:
    """What is wrong where every response of HTTP/1 was broken: such a connection serves no second
    request, and none is kept. Empty if nothing is."""
    if not all(outcome.word in BROKEN for _, outcome in record.outcomes):
        return ""
    again = [line.requests for line in record.lines if len(line.requests) > 1]
    if again or record.kept:
        return f"a broken connection is kept or was used again: {again}, {record.kept} idle"
    return ""


def answered(response: httpx.Response, body: bytes) -> Outcome:
    """The outcome of a response; `body` as the caller got it."""
    return Outcome(
        str(response.status_code),
        {
            "reason": response.reason_phrase,
            "version": response.http_version,
            "headers": [each for each in response.headers.raw if each[0] not in CLOCKS],
            "body": _in_brief(body),
            "url": str(response.url),
            "history": [(each.status_code, str(each.url)) for each in response.history],
            "cookies": dict(response.cookies),
            "extensions": sorted(set(response.extensions) - NOT_COMPARED),
        },
    )


def raised(error: Exception, body: bytes = b"") -> Outcome:
    """The outcome of an exception; `body`: what the caller had got before it."""
    kind = type(error)
    request = error.request if isinstance(error, httpx.RequestError) else None
    room = kind.__module__.partition(".")[0]
    return Outcome(
        kind.__name__ if room in (FAMILY, "builtins") else f"{room}.{kind.__name__}",
        {
            "request": request and f"{request.method} {request.url}",
            "body": _in_brief(body),
        },
    )


def _in_brief(body: bytes) -> object:
    return body if len(body) < 1000 else (len(body), hash(body))


def difference(plain: Record, ours: Record) -> str:
    """Where two records differ, as a text; empty if they do not."""
    if plain == ours:
        return ""
    a, b = (pprint.pformat(_brief(record), width=110).splitlines() for record in (plain, ours))
    return "\n".join(difflib.unified_diff(a, b, "httpx", "outlast", lineterm="", n=2))


def _brief(record: Record) -> Record:
    """For the eye: without the megabytes that a server may have read."""
    lines = [
        line if len(line.raw) < LONG else replace(line, raw=bytearray(_told(line.raw)))
        for line in record.lines
    ]
    return replace(record, lines=lines)


def _told(raw: bytearray) -> bytes:
    return bytes(raw[:200]) + f"... {len(raw)} bytes, hash {hash(bytes(raw))}".encode()
