"""`create_connection` and `connect_tcp`: sockets that outlive an endpoint's loss while dialling.

The signatures of `socket.create_connection` and `anyio.connect_tcp`, plus `policy`. Both race
over all addresses of the name, and again over the same address from a new socket, within one
budget for look-up, dials and (for `connect_tcp`) TLS.

The socket handed out is the caller's, and a plain one. It is watched (`net.sentry`) as long as it
is open, so a user timeout may stand on it. Where the policy or the platform rules that out none
does (it would kill a live peer that merely does not read): keepalive does, and a cap on the gap
between retransmissions where the kernel has one (linux-tcp facts 5.3, 5.4).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal, overload

from outlast.core.report import Report
from outlast.net.dial import DialError
from outlast.net.handout import (
    GLOBAL_DEFAULT,
    GlobalDefault,
    as_anyio,
    default_context,
    default_timeout,
    keep_report,
    plain_error,
)
from outlast.net.kernel import kernel
from outlast.net.run import run_async, run_sync
from outlast.net.seam import Network
from outlast.net.tls import TlsStream, handshake
from outlast.policy import Policy, current_override, seconds
from outlast.service.arguments import Host, read_address, read_local, read_remote, read_source
from outlast.service.handed import watch_by_policy
from outlast.service.reach import dial_request, reach
from outlast.target import target_of

if TYPE_CHECKING:
    import socket
    import ssl

    from anyio.abc import SocketStream
    from anyio.streams.tls import TLSStream

__all__ = ["connect_tcp", "create_connection"]

SHORTEST_DELAY = 0.010  # seconds; RFC 8305 section 5


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
    source_address: (address, port) to bind before connecting; an IP address, not a name.
    all_errors: raise an ExceptionGroup of every dial's error, and of the timeout if there was one.
    policy: connect_timeout, attempt_delay, open_attempts, keepalive, watch and user_timeout are
        used here.

    Raises TimeoutError at the deadline, else the OSError kind of the most telling dial
    (ConnectionRefusedError, socket.gaierror, ...), with `.report`. ValueError for what is
    malformed. Thread-safe.
    """
    host, port = read_address(address)
    limit = default_timeout() if isinstance(timeout, GlobalDefault) else timeout
    limit = None if limit is None else seconds(limit, "timeout")
    source = read_source(source_address)
    chosen = _merged(policy)
    world = kernel() if network is None else network
    report = Report(world.now())
    request = dial_request(world, target_of(host, port), chosen, limit=limit, source=source)
    outcome = run_sync(world, reach(world, request, report))
    if isinstance(outcome, DialError):
        raise plain_error(outcome, report, all_errors=all_errors)
    sock = outcome.stream.detach()
    sock.settimeout(limit)
    watch_by_policy(world, outcome.stream, sock, chosen, report)
    keep_report(sock, report)
    return sock


@overload
async def connect_tcp(
    remote_host: Host,
    remote_port: int,
    *,
    local_host: Host | None = ...,
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
    remote_host: Host,
    remote_port: int,
    *,
    local_host: Host | None = ...,
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
    remote_host: Host,
    remote_port: int,
    *,
    local_host: Host | None = None,
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

    local_host, local_port: to bind before connecting; an IP address, not a name.
    happy_eyeballs_delay: seconds from one dial to the next, at least 0.01 (RFC 8305 section 5);
        None adapts to the target.
    tls, ssl_context, tls_hostname, tls_standard_compatible: as in anyio; the handshake is within
        the same budget.
    policy: connect_timeout, attempt_delay, open_attempts, keepalive, watch and user_timeout are
        used here.

    Raises TimeoutError at the deadline, else the OSError kind of the most telling dial, with
    `.report`. ValueError for what is malformed. Runs on asyncio and trio; cancellation ends every
    dial at once.
    """
    host, port = read_remote(remote_host, remote_port)
    source = read_local(local_host, local_port)
    chosen = _merged(policy, happy_eyeballs_delay)
    finish = None
    if tls or ssl_context or tls_hostname:
        context = ssl_context or default_context()
        finish = functools.partial(handshake, context=context, name=tls_hostname or host)
    world = kernel() if network is None else network
    report = Report(world.now())
    request = dial_request(world, target_of(host, port), chosen, source=source, finish=finish)
    outcome = await run_async(world, reach(world, request, report))
    if isinstance(outcome, DialError):
        raise plain_error(outcome, report)
    raw = outcome.stream.raw if isinstance(outcome.stream, TlsStream) else outcome.stream
    return await as_anyio(
        outcome.stream,
        report,
        standard_compatible=tls_standard_compatible,
        handed=lambda sock: watch_by_policy(world, raw, sock, chosen, report),
    )


# -- both ----------------------------------------------------------------------------------


def _merged(policy: Any, delay: float | None = None) -> Policy:
    if policy is not None and not isinstance(policy, Policy):
        form = "Policy(connect_timeout=2.0)"
        raise ValueError(f"policy: {policy!r} is no outlast.Policy, such as {form}")
    fields = current_override()
    chosen = Policy() if policy is None else policy
    chosen = chosen.merged(fields) if fields else chosen
    if delay is None:
        return chosen
    least = max(SHORTEST_DELAY, seconds(delay, "happy_eyeballs_delay"))
    return chosen.merged({"attempt_delay": least})
