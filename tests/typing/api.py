"""Typical uses, as a type checker sees them: with httpx2 installed, and without it.

What it says of httpx2's own types, where that is installed: `api_httpx2`. Never run; see
`test_checkers`.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl

import anyio.abc
import httpx
import tenacity
import trio
from typing_extensions import assert_type

import outlast
import outlast.httpx2
from outlast.events import AttemptFailed, EndpointEjected, OutlastEvent
from outlast.testing import SimNet


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
        policy=outlast.Policy(attempts=3, deadline="10s", retry_status=[503], keepalive=(5, 1, 6)),
    )
    outlast.AsyncTransport(verify=False, trust_env=False, retries=0, http1_parser="h11")
    with outlast.Transport() as transport:
        assert_type(transport, outlast.Transport)
        assert_type(transport.drop(), int)
        transport.drop("10.0.0.1:8080", reason="failed over", abort=True)
        assert_type(transport.handle_request(httpx.Request("GET", "http://a")), httpx.Response)


def targets() -> None:
    outlast.Target(
        "static://10.0.0.1:8080,10.0.0.2:8080;weight=2",
        balance=outlast.ConsistentHash(header="x-user", table="maglev"),
        health=outlast.HealthPlan(latency=0.5, count_only={"gateway_errors"}),
        check=outlast.HttpCheck("/healthz", status={200}, body=b"ok"),
        circuit=outlast.CircuitLimits(in_flight=64, adaptive=outlast.AdaptivePlan(start=20)),
        zone="a",
    )
    outlast.Target("orders:80", balance=outlast.P2C(), check=outlast.TcpCheck(interval=5))
    seen = outlast.snapshot().targets[0].endpoints[0]
    assert_type(seen.in_flight, int | None)
    assert_type(seen.full, str)


async def async_transport() -> None:
    async with outlast.AsyncTransport() as transport:
        assert_type(transport, outlast.AsyncTransport)
        request = httpx.Request("GET", "http://a")
        assert_type(await transport.handle_async_request(request), httpx.Response)


def clients(context: ssl.SSLContext) -> None:
    assert_type(outlast.client(), httpx.Client)
    with outlast.client(base_url="http://a", auth=("me", "secret")) as client:
        assert_type(client, httpx.Client)
        assert_type(client.get("/x"), httpx.Response)
    outlast.client(
        verify=context,
        cert=("cert.pem", "key.pem"),
        trust_env=False,
        http1=True,
        http2=True,
        limits=httpx.Limits(max_connections=10),
        proxy=httpx.Proxy("http://proxy:3128"),
        mounts={"http://": outlast.Transport(), "all://a": httpx.HTTPTransport(), "all://b": None},
        timeout=httpx.Timeout(5.0, connect=1.0),
        headers={"x": "y"},
        event_hooks={"request": [print]},
        policy=outlast.Policy(deadline=10.0),
        targets={"http://orders:8080": "static://10.0.0.1:8080"},
    )
    outlast.client(proxy="http://proxy:3128", limits=None, mounts=None, policy=None, targets=None)
    outlast.client(network=SimNet(seed=7), http1_parser="httptools")


async def async_clients() -> None:
    assert_type(outlast.async_client(), httpx.AsyncClient)
    async with outlast.async_client(http2=True, timeout=None) as client:
        assert_type(await client.get("http://a"), httpx.Response)
    outlast.async_client(mounts={"http://": outlast.AsyncTransport()}, network=SimNet())


def the_other_family() -> None:
    """What holds whether its types are known or not."""
    outlast.httpx2.Transport(http2=True, retries=0, policy=outlast.Policy(attempts=1))
    outlast.httpx2.AsyncTransport(verify=False)
    outlast.httpx2.client(http2=True, timeout=5.0, policy=outlast.Policy(attempts=1))
    outlast.httpx2.async_client(targets={"http://orders:8080": "static://10.0.0.1:8080"})


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
    outlast.Policy(hedge="p95", retry_budget=(0.1, 5), attempt_timeout="split", deadline=5)
    outlast.Policy(hedge=0.05, sticky_cookies={"SERVERID", re.compile("lb-.*")}, dry_run="hedge")
    outlast.Policy(sticky_cookies="openshift", dry_run=["repeats", "gateway_errors"])
    outlast.Policy(
        backoff=tenacity.wait_fixed(1) + tenacity.wait_random(0, 1),
        stop=tenacity.stop_after_attempt(3) | tenacity.stop_after_delay(5),
        retry_if=tenacity.retry_if_exception_type(OSError),
        deadline_header="grpc-timeout",
    )
    outlast.Policy(backoff=lambda state: 0.5, stop=lambda state: False, retry_if=None)
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


def liveness(sock: socket.socket, tls: ssl.SSLSocket, writer: asyncio.StreamWriter) -> None:
    watched = outlast.watch(sock)
    assert_type(watched, outlast.Watched)
    assert_type(watched.verdict, outlast.Liveness)
    assert_type(watched.check(), outlast.Liveness)
    assert_type(watched.why, str)
    assert_type(watched.over, bool)
    watched.stop()
    outlast.watch(tls, awaiting=True, abort=True, user_timeout=11.0)
    outlast.watch(writer)
    assert_type(outlast.tune(sock.fileno()), outlast.Tuned)
    held = outlast.tune(tls, keepalive=(5, 1, 6), user_timeout=11.0, rto_max=None, nodelay=True)
    assert_type(held.keepalive, outlast.Keepalive | None)
    assert_type(held.rto_max, float | None)
    outlast.tune(sock, keepalive=outlast.Keepalive(5, 1, 6))
    assert_type(outlast.report_of(sock), outlast.Report | None)


async def async_liveness(stream: trio.SocketStream) -> None:
    outlast.watch(stream)
    outlast.watch(await outlast.connect_tcp("db", 5432))
    outlast.tune(await outlast.connect_tcp("db", 5432, tls=True), keepalive=False)


async def async_connections(context: ssl.SSLContext) -> None:
    assert_type(await outlast.connect_tcp("db", 5432), anyio.abc.SocketStream)
    stream = await outlast.connect_tcp("db", 5432, tls=True, ssl_context=context)
    await stream.send(b"x")


def durations() -> None:
    policy = outlast.Policy(deadline="250ms", connect_timeout="3s", unsafe_status={"POST": [503]})
    assert_type(policy.connect_timeout, float)
    assert_type({policy: 1}[policy], int)


def told(event: OutlastEvent) -> None:
    assert_type(event.target, str)


def told_of_either(event: EndpointEjected | AttemptFailed) -> None:
    assert_type(event.address, str)


def told_of_one(event: EndpointEjected) -> None:
    assert_type(event.until, float)


def events(seen: list[OutlastEvent]) -> None:
    with outlast.subscribe(told) as subscription:
        assert_type(subscription, outlast.Subscription)
        with subscription.muted():
            pass
    outlast.subscribe(told, EndpointEjected, AttemptFailed)
    outlast.subscribe(told_of_one, EndpointEjected)
    outlast.subscribe(told_of_either, EndpointEjected, AttemptFailed)
    outlast.subscribe(seen.append, EndpointEjected, AttemptFailed, outlast.events.EndpointLeft)
    outlast.subscribe(lambda event: event.rule, EndpointEjected).cancel()
    outlast.log_events(EndpointEjected, logger="shop", level=20).cancel()
