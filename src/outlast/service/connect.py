"""`create_connection` and `connect_tcp`: sockets that outlive an endpoint's loss while dialling.

The signatures of `socket.create_connection` and `anyio.connect_tcp`, plus `policy`. Both race
over all addresses of the name, and again over the same address from a new socket, within one
budget for look-up, dials and (for `connect_tcp`) TLS.

The socket handed out is the caller's. Nothing of ours watches it, so no user timeout stands on
it (it would kill a live peer that merely does not read): keepalive does, and a cap on the gap
between retransmissions where the kernel has one (linux-tcp facts 5.3, 5.4).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, overload

from outlast.core.report import Report
from outlast.net.dial import DialError, DialRequest
from outlast.net.handout import (
    GLOBAL_DEFAULT,
    GlobalDefault,
    as_anyio,
    default_context,
    default_timeout,
    plain_error,
)
from outlast.net.kernel import kernel
from outlast.net.options import SocketPlan
from outlast.net.race_driver import dial
from outlast.net.run import run_async, run_sync
from outlast.net.seam import Network, Stream
from outlast.net.tls import handshake
from outlast.policy import Policy, current_override
from outlast.service.table import service_of
from outlast.target import target_of

if TYPE_CHECKING:
    import socket
    import ssl

    from anyio.abc import SocketStream
    from anyio.streams.tls import TLSStream

__all__ = ["connect_tcp", "create_connection"]

RTO_CAP = 2.0  # seconds; DESIGN section 6, for sockets without a watcher


def create_connection(
    address: tuple[str | None, int],
    timeout: float | GlobalDefault | None = GLOBAL_DEFAULT,
    source_address: tuple[str, int] | None = None,
    *,
    all_errors: bool = False,
    policy: Policy | None = None,
    network: Network | None = None,
) -> socket.socket:
    """Connect to `address` (host, port) and return the socket, as `socket.create_connection`.

    timeout: seconds for the whole connect, name look-up included, and the returned socket's own
        timeout; None leaves the connect to `policy.connect_timeout` and the socket blocking. Not
        given: `socket.getdefaulttimeout()`.
    source_address: (host, port) to bind before connecting.
    all_errors: raise an ExceptionGroup of every dial's error (Python 3.11).
    policy: connect_timeout, attempt_delay, open_attempts and keepalive are used here.

    Raises TimeoutError at the deadline, else the OSError kind of the most telling dial
    (ConnectionRefusedError, socket.gaierror, ...), with `.report`. Thread-safe.
    """
    seconds = default_timeout() if isinstance(timeout, GlobalDefault) else timeout
    world = kernel() if network is None else network
    report = Report(world.now())
    request = _request(world, address, seconds, source_address, _merged(policy))
    try:
        won = run_sync(world, dial(world, request, report))
    except DialError as error:
        raise plain_error(error, report, all_errors=all_errors) from error.cause
    for spare in won.spare:
        spare.close()
    sock = won.stream.detach()
    sock.settimeout(seconds)
    return sock


@overload
async def connect_tcp(
    remote_host: str,
    remote_port: int,
    *,
    local_host: str | None = ...,
    local_port: int | None = ...,
    tls: Literal[False] = ...,
    ssl_context: None = ...,
    tls_standard_compatible: bool = ...,
    tls_hostname: None = ...,
    happy_eyeballs_delay: float | None = ...,
    policy: Policy | None = ...,
    network: Network | None = ...,
) -> SocketStream: ...


@overload
async def connect_tcp(
    remote_host: str,
    remote_port: int,
    *,
    local_host: str | None = ...,
    local_port: int | None = ...,
    tls: bool = ...,
    ssl_context: ssl.SSLContext | None = ...,
    tls_standard_compatible: bool = ...,
    tls_hostname: str | None = ...,
    happy_eyeballs_delay: float | None = ...,
    policy: Policy | None = ...,
    network: Network | None = ...,
) -> SocketStream | TLSStream: ...


async def connect_tcp(
    remote_host: str,
    remote_port: int,
    *,
    local_host: str | None = None,
    local_port: int | None = None,
    tls: bool = False,
    ssl_context: ssl.SSLContext | None = None,
    tls_standard_compatible: bool = True,
    tls_hostname: str | None = None,
    happy_eyeballs_delay: float | None = None,
    policy: Policy | None = None,
    network: Network | None = None,
) -> SocketStream | TLSStream:
    """Connect to a host and port and return an anyio stream, as `anyio.connect_tcp`.

    happy_eyeballs_delay: seconds from one dial to the next; None adapts to the target.
    tls, ssl_context, tls_hostname, tls_standard_compatible: as in anyio; the handshake is within
        the same budget.
    policy: connect_timeout, attempt_delay, open_attempts and keepalive are used here.

    Raises TimeoutError at the deadline, else the OSError kind of the most telling dial, with
    `.report`. Runs on asyncio and trio; cancellation ends every dial at once.
    """
    world = kernel() if network is None else network
    chosen = _merged(policy)
    if happy_eyeballs_delay is not None:
        chosen = chosen.merged({"attempt_delay": happy_eyeballs_delay})
    source = None if local_host is None and not local_port else (local_host or "", local_port or 0)
    finish = None
    if tls or ssl_context or tls_hostname:
        context = ssl_context or default_context()
        finish = functools.partial(handshake, context=context, name=tls_hostname or remote_host)
    report = Report(world.now())
    request = _request(world, (remote_host, remote_port), None, source, chosen, finish)
    try:
        won = await run_async(world, dial(world, request, report))
    except DialError as error:
        raise plain_error(error, report) from error.cause
    for spare in won.spare:
        spare.close()
    return await as_anyio(won.stream, standard_compatible=tls_standard_compatible)


# -- both ----------------------------------------------------------------------------------


def _merged(policy: Policy | None) -> Policy:
    fields = current_override()
    chosen = Policy() if policy is None else policy
    return chosen.merged(fields) if fields else chosen


def _request(
    world: Network,
    address: tuple[str | None, int],
    seconds: float | None,
    source: tuple[str, int] | None,
    policy: Policy,
    finish: Callable[[Stream], Coroutine[Any, Any, Stream]] | None = None,
) -> DialRequest:
    host, port = _host_and_port(address)
    if seconds is not None and seconds < 0:
        raise ValueError(f"timeout: {seconds!r} is below 0; write seconds (2.5), or None")
    budget = policy.connect_timeout if seconds is None else seconds
    service = service_of(target_of(host, port), world)
    now = world.now()
    order = service.order(now)
    return DialRequest(
        memory=service.memory,
        deadline=now + budget,
        plan=SocketPlan(keepalive=policy.keepalive, rto_max=RTO_CAP, source=source),
        name=service.target.name,
        addresses=order if service.target.name is None else (),
        finish=finish,
        max_open=policy.open_attempts,
        attempt_delay=policy.attempt_delay,
        watcher=service,
    )


def _host_and_port(address: Any) -> tuple[str, int]:
    form = "write it like ('db.shop.svc', 5432)"
    if not isinstance(address, (tuple, list)) or len(address) < 2:
        raise ValueError(f"address: {address!r} is no (host, port); {form}")
    host, port = address[0], address[1]
    if host is not None and (not isinstance(host, str) or not host):
        raise ValueError(f"address: host {host!r} of {address!r} is no name or address; {form}")
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise ValueError(f"address: port {port!r} of {address!r} is not from 1 to 65535; {form}")
    return "localhost" if host is None else host, port
