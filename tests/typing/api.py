"""Typical uses, and typical mistakes, as a type checker sees them.

Every mistake carries the code of the error that it must be; mypy is told to complain about an
ignore that is not needed, so a mistake that passes is found too.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any

import anyio.abc
import httpx
from typing_extensions import assert_type

import outlast


def transports(context: ssl.SSLContext) -> None:
    httpx.Client(transport=outlast.Transport())
    httpx.AsyncClient(transport=outlast.AsyncTransport())
    httpx.Client(mounts={"http://": outlast.Transport()})
    outlast.Transport(
        verify=context,
        cert=("cert.pem", "key.pem"),
        limits=httpx.Limits(max_connections=10),
        local_address="10.0.0.7",
        socket_options=[(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)],
        targets={"http://orders.shop.svc:8080": "static://10.0.0.1:8080"},
        policy=outlast.Policy(attempts=3, deadline=10.0),
    )
    outlast.AsyncTransport(verify=False, trust_env=False, retries=0)
    with outlast.Transport() as transport:
        assert_type(transport, outlast.Transport)
        assert_type(transport.handle_request(httpx.Request("GET", "http://a")), httpx.Response)


async def async_transport() -> None:
    async with outlast.AsyncTransport() as transport:
        assert_type(transport, outlast.AsyncTransport)
        request = httpx.Request("GET", "http://a")
        assert_type(await transport.handle_async_request(request), httpx.Response)


def policies() -> None:
    policy = outlast.Policy(
        attempts=2,
        deadline=None,
        retry_status={502, 503},
        unsafe_status={"POST": {503}},
        idempotent=True,
        backoff=outlast.Backoff(base=0.1, cap=1.0),
        keepalive=outlast.Keepalive(idle=5, interval=1, count=6),
        watch=False,
    )
    assert_type(policy.attempts, int)
    assert_type(policy.deadline, float | None)
    assert_type(policy.user_timeout, float)
    assert_type(policy.merged({"attempts": 1}), outlast.Policy)
    outlast.Policy(retry_status=frozenset({503}))
    outlast.Policy(unsafe_status={"POST": frozenset({503})})
    with outlast.override(attempts=1, deadline=2.0):
        pass


def errors_and_reports(client: httpx.Client) -> None:
    try:
        response = client.get("http://a", extensions={"outlast": {"attempts": 1}})
    except httpx.TransportError as error:
        assert_type(outlast.report_of(error), outlast.Report | None)
        return
    report = outlast.report_of(response)
    if report is not None:
        assert_type(report.events, list[outlast.Event])
        assert_type(report.progress, outlast.Progress)
        assert_type([event.address for event in report], list[str])
        assert_type(report.progress < outlast.Progress.RESPONSE_BEGUN, bool)


def connections() -> None:
    assert_type(outlast.create_connection(("db", 5432)), socket.socket)
    assert_type(outlast.create_connection(("db", 5432), 5.0, ("", 0)), socket.socket)
    assert_type(outlast.create_connection(("db", 5432), timeout=None), socket.socket)


async def async_connections(context: ssl.SSLContext) -> None:
    assert_type(await outlast.connect_tcp("db", 5432), anyio.abc.SocketStream)
    stream = await outlast.connect_tcp("db", 5432, tls=True, ssl_context=context)
    await stream.send(b"x")


# -- mistakes ------------------------------------------------------------------------------


def mistakes(policy: outlast.Policy, client: httpx.Client, anything: Any) -> None:
    outlast.Policy(3)  # type: ignore[call-arg]  # fields are given by name
    outlast.Policy(atempts=3)  # type: ignore[call-arg]  # misspelt
    outlast.Policy(attempts="3")  # type: ignore[arg-type]  # no number
    outlast.Policy(retry_status=503)  # type: ignore[arg-type]  # no set
    outlast.Policy(unsafe_status={503: "POST"})  # type: ignore[dict-item]  # the wrong way round
    policy.attempts = 4  # type: ignore[misc]  # frozen
    outlast.Transport(policy={"attempts": 3})  # type: ignore[arg-type]  # no Policy
    outlast.Transport(timeout=5.0)  # type: ignore[call-arg]  # the client's, not the transport's
    outlast.Transport(targets="static://10.0.0.1:80")  # type: ignore[arg-type]  # for which origin?
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
