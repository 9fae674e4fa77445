"""Asking a proxy for a tunnel: talks, what becomes of those that fail, and CONNECT over h11.

A talk is a generator without I/O: it yields what to send and how much it can take, and is given
what has come (b"" at the end); it ends when the tunnel stands. `hold` carries it out. Source: RFC
9110 section 9.3.6; SOCKS5 is in `socks`.

A proxy that says no for good (authentication, rules) ends the connect at once: the same password
is not tried at its other addresses. A proxy that could not get through is well itself; another
of its addresses may do better. Refuses a tunnel through which something came unasked.
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from typing import TypeAlias

import h11

from outlast.errors import TransportFailure
from outlast.http.message import Headers
from outlast.net.dial import DialError, HandshakeError
from outlast.net.seam import READ, WRITE, Stream, Wait

__all__ = ["ProxyFault", "Talk", "beyond", "connect", "failure_of", "final", "hold", "merged"]

Talk: TypeAlias = "Generator[tuple[bytes, int], bytes, None]"  # (to send, most to take) -> came

MAX_HEAD = 100 * 1024  # of a proxy's answer, in bytes; httpcore's limit for any response


class ProxyFault(HandshakeError):
    """A tunnel that did not come about. `kind`: the name of the family's exception."""

    def __init__(self, kind: str, message: str, code: int | None = None, *, blame: bool) -> None:
        super().__init__(code, message, blame=blame)
        self.kind = kind


def beyond(error: OSError, where: str) -> ProxyFault:
    """TLS at the tunnel's far end has failed: nothing against the proxy."""
    code = error.errno if isinstance(error, ConnectionError) else None
    return ProxyFault("ConnectError", f"{where}: {error.strerror or error}", code, blame=False)


def failure_of(error: DialError) -> TransportFailure:
    """What a failed connect is for the caller. Nothing was sent, and it is final."""
    failure = _failure_of(error)
    failure.phase = error.phase
    return failure


def _failure_of(error: DialError) -> TransportFailure:
    cause = error.cause
    if error.timed_out:
        return TransportFailure("ConnectTimeout", error.message, cause or error, final=True)
    if not isinstance(cause, ProxyFault):
        return TransportFailure("ConnectError", error.message, cause or error, final=True)
    told = f"{cause}; nothing was sent" if cause.kind == "ProxyError" else error.message
    return TransportFailure(cause.kind, told, cause.__cause__ or cause, final=True)


def final(told: str) -> TransportFailure:
    """A refusal that no other address of the proxy is asked about."""
    return TransportFailure("ProxyError", f"{told}; nothing was sent", final=True)


def merged(ours: Headers, theirs: Headers) -> Headers:
    """Both, those of `theirs` in the place of ours of the same name."""
    names = {name.lower() for name, _ in theirs}
    return [*(field for field in ours if field[0].lower() not in names), *theirs]


# -- CONNECT -------------------------------------------------------------------------------


def connect(host: str, port: int, headers: Headers, proxy: str) -> Talk:
    """Ask an HTTP proxy for a tunnel. `headers` are for the proxy; `proxy` is its name in errors.

    Raises ProxyFault, or TransportFailure for a refusal that is final.
    """
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    target = authority.encode("ascii")
    machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
    fields = merged([(b"Host", target), (b"Accept", b"*/*")], headers)
    out = machine.send(h11.Request(method="CONNECT", target=target, headers=list(fields))) or b""
    out += machine.send(h11.EndOfMessage()) or b""
    taken = 0
    while True:
        data = yield out, MAX_HEAD
        out = b""
        taken += len(data)
        try:
            machine.receive_data(data)
            head = _response(machine)
            if head is None and taken >= MAX_HEAD:  # of many interim answers, too
                raise h11.RemoteProtocolError("no end of its answer")
        except h11.RemoteProtocolError as error:
            raise _unreadable(f"{proxy} to CONNECT {authority}", data, error) from error
        if head is not None:
            break
    if not 200 <= head.status_code < 300:
        raise _refused(head, f"{proxy} to CONNECT {authority}")
    if machine.trailing_data[0]:
        told = f"{proxy} to CONNECT {authority}: bytes behind the head of its answer"
        raise ProxyFault("RemoteProtocolError", told, blame=True)


def _response(machine: h11.Connection) -> h11.Response | None:
    """The answer's head, if it is there; interim responses are passed over."""
    while True:
        event = machine.next_event()
        if event is h11.NEED_DATA:
            return None
        if isinstance(event, h11.Response):
            return event
        if not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("the connection was closed")


def _unreadable(where: str, data: bytes, error: Exception) -> ProxyFault:
    if data:
        return ProxyFault("RemoteProtocolError", f"{where}: {error}", blame=True)
    told = f"{where}: Server disconnected without sending a response"
    return ProxyFault("RemoteProtocolError", told, errno.ECONNRESET, blame=True)


def _refused(head: h11.Response, where: str) -> Exception:
    told = f"{head.status_code} {head.reason.decode('ascii', 'ignore')}".strip() + f" ({where})"
    if head.status_code == 407:
        told += "; check the user and the password in the proxy's URL"
    if head.status_code >= 500:  # it could not; below, it would not
        return ProxyFault("ProxyError", told, blame=False)
    return final(told)


# -- I/O -----------------------------------------------------------------------------------


async def hold(stream: Stream, talk: Talk, proxy: str) -> None:
    """Carry a talk out over `stream`. Bounded by whoever runs it. Raises as the talk does."""
    out, most = next(talk)
    while True:
        try:
            await _send(stream, out)
            data = await _receive(stream, most)
        except OSError as error:
            told = f"{proxy}: {error.strerror or error}"
            raise ProxyFault("ReadError", told, error.errno, blame=True) from error
        try:
            out, most = talk.send(data)
        except StopIteration:
            return


async def _send(stream: Stream, out: bytes) -> None:
    while out:
        count = stream.send(out)
        out = out[count:]
        if not count:
            await Wait(((stream, WRITE),))
    while not stream.flush():
        await Wait(((stream, WRITE),))


async def _receive(stream: Stream, most: int) -> bytes:
    while (data := stream.recv(most)) is None:
        await Wait(((stream, READ),))
    return data
