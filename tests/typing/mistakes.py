"""Typical mistakes, as a type checker sees them: with httpx2 installed, and without it.

Every mistake carries the code of the error that it must be; the checkers are told to complain
about an ignore that is not needed, so a mistake that passes is found too. Never run; see
`test_checkers`.
"""

from __future__ import annotations

import socket

import httpx

import outlast
import outlast.httpx2
from outlast.events import AttemptFailed, EndpointEjected


def core(policy: outlast.Policy, client: httpx.Client) -> None:
    outlast.Policy(3)  # type: ignore[call-arg]  # fields are given by name
    outlast.Policy(atempts=3)  # type: ignore[call-arg]  # misspelt
    outlast.Policy(attempts="3")  # type: ignore[arg-type]  # no number
    outlast.Policy(retry_status=503)  # type: ignore[arg-type]  # no set
    outlast.Policy(unsafe_status={503: "POST"})  # type: ignore[dict-item]  # the wrong way round
    policy.attempts = 4  # type: ignore[misc]  # frozen
    outlast.Transport(policy={"attempts": 3})  # type: ignore[arg-type]  # no Policy
    outlast.Transport(timeout=5.0)  # type: ignore[call-arg]  # the client's, not the transport's
    outlast.Transport(targets="static://10.0.0.1:80")  # type: ignore[arg-type]  # for which origin?
    outlast.Transport(http1_parser="llhttp")  # type: ignore[arg-type]  # no parser of that name
    outlast.Transport(limits=10)  # type: ignore[arg-type]  # httpx.Limits
    httpx.Client(transport=outlast.AsyncTransport())  # type: ignore[arg-type]  # the other kind
    httpx.AsyncClient(transport=outlast.Transport())  # type: ignore[arg-type]  # the other kind
    outlast.create_connection("db:5432")  # type: ignore[arg-type]  # a pair
    outlast.create_connection(("db", "5432"))  # type: ignore[arg-type]  # a number
    outlast.connect_tcp("db")  # type: ignore[call-overload]  # no port
    outlast.Keepalive(idle=5.0)  # type: ignore[arg-type]  # whole seconds
    outlast.no_such_name()  # type: ignore[attr-defined]  # the face names all it has
    try:
        client.get("http://a")
    except httpx.TransportError as error:
        _ = error.report  # type: ignore[attr-defined]  # httpx declares none: use report_of


def clients() -> None:
    outlast.client(verfy=False)  # type: ignore[call-arg]  # misspelt
    outlast.client(transport=outlast.Transport())  # type: ignore[call-arg]  # it makes its own
    outlast.client(("me", "secret"))  # type: ignore[call-arg]  # by name
    outlast.client(policy={"attempts": 3})  # type: ignore[arg-type]  # no Policy
    outlast.client(mounts={"http://": outlast.AsyncTransport()})  # type: ignore[dict-item]  # the other kind
    outlast.client(proxy=3128)  # type: ignore[arg-type]  # a URL
    outlast.client(http2="yes")  # type: ignore[arg-type]  # a bool
    outlast.async_client(retries=3)  # type: ignore[call-arg]  # the transport's, not the client's
    outlast.async_client(mounts={"all://": outlast.Transport()})  # type: ignore[dict-item]  # the other kind


def liveness(sock: socket.socket) -> None:
    outlast.watch("db:5432")  # type: ignore[arg-type]  # no socket
    outlast.watch(sock, abrt=True)  # type: ignore[call-arg]  # misspelt
    outlast.tune(sock, keepalive=5)  # type: ignore[arg-type]  # three figures
    outlast.tune(sock, user_timeout="11s")  # type: ignore[arg-type]  # a number


def ejected(event: EndpointEjected) -> None:
    event.until = 0.0  # type: ignore[misc]  # frozen
    _ = event.status  # type: ignore[attr-defined]  # of an attempt


def events() -> None:
    outlast.subscribe(ejected)  # type: ignore[arg-type]  # it would be told of all
    outlast.subscribe(ejected, AttemptFailed)  # type: ignore[arg-type]  # another kind
    outlast.log_events(level="INFO")  # type: ignore[arg-type]  # a number


def the_other_family() -> None:
    """Wrong keywords are wrong whether its types are known or not."""
    outlast.httpx2.Transport(timeout=5.0)  # type: ignore[call-arg]  # the client's
    outlast.httpx2.AsyncTransport(polcy=None)  # type: ignore[call-arg]  # misspelt
    outlast.httpx2.Transport(policy={"attempts": 3})  # type: ignore[arg-type]  # no Policy
    outlast.httpx2.client(verfy=False)  # type: ignore[call-arg]  # misspelt
    outlast.httpx2.client(transport=None)  # type: ignore[call-arg]  # it makes its own
    outlast.httpx2.async_client(http2="yes")  # type: ignore[arg-type]  # a bool
    outlast.httpx2.async_client(targets="static://10.0.0.1:80")  # type: ignore[arg-type]  # for which?
    outlast.httpx2.no_such_name()  # type: ignore[attr-defined]  # the module names all it has
