"""gRPC: targets, channel arguments and channels by which grpc's own core outlives its endpoints.

grpc dials in C, and takes neither a socket nor a resolver from Python. What it takes is a list of
addresses (`ipv4:10.0.0.1:50051,10.0.0.2:50051`) and channel arguments. So a target's endpoints are
listed, the arguments say what this library's defaults say (calls go round over all that stand, one
that is silent is dialled again soon), and the sockets that its core opens are found by their
descriptors and watched, so that a server that is lost is left within 12 s. The caller's arguments
win.

Sources: gRPC naming (doc/naming.md), core channel arguments (grpc_types.h), keepalive (gRFC A8,
and A18 by which its timeout is also the socket's user timeout). A name that is not mapped stays
grpc's to look up, again and again. Refuses lists of both families: grpc has no such list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from socket import AddressFamily
from typing import Any, TypeAlias

import grpc

from outlast.net.address import split_host_port
from outlast.policy import Policy
from outlast.shims.adapters.dialler import Dialler
from outlast.shims.adapters.lookout import look_out
from outlast.target import Target

__all__ = ["aio_channel", "channel", "options", "target"]

Argument: TypeAlias = "tuple[str, Any]"
SCHEMES = {AddressFamily.AF_INET: "ipv4", AddressFamily.AF_INET6: "ipv6"}
FIRST_BACKOFF, LAST_BACKOFF = 100, 5000  # ms; grpc's own are 1 s and 2 min
# ms. Servers answer pings that come oftener than each 5 minutes, while nothing else is sent, with
# GOAWAY (gRFC A8): measured, a call that is silent for 190 s dies of pings each 5 s.
TOLERATED = 330_000


def target(where: str, targets: Mapping[str, str | Target] | None = None) -> str:
    """What grpc is to be told in place of "host:port": the addresses of the target behind it, or
    its name. Looks nothing up. Raises ValueError naming what is wrong."""
    return _words(where, _found(where, Dialler(targets)))


def _found(where: str, dialler: Dialler) -> Target:
    return dialler.target(*split_host_port(where, what="grpc target", example="orders.svc:50051"))


def _words(where: str, found: Target) -> str:
    if found.name is not None:
        name, number = found.name
        return f"dns:///{name}:{number}"
    families = {address.family for address in found.addresses}
    if len(families) > 1:
        raise ValueError(
            f"{where!r} has IPv4 and IPv6 addresses, and grpc no list for both: {found.text}; "
            "list those of one"
        )
    scheme = SCHEMES[AddressFamily(families.pop())]
    return f"{scheme}:" + ",".join(map(str, found.addresses))


def options(
    policy: Policy | None = None, *, server: str | None = None, pings: bool = False
) -> list[Argument]:
    """Channel arguments that mean what the policy means.

    server: the "host:port" that the channel speaks to, for `:authority`, and for TLS to verify.
    pings: have HTTP/2 pings leave as often as the policy's keepalive probes, while calls are open,
        for servers that allow them; else as often as servers tolerate unasked.
    """
    chosen = Policy() if policy is None else policy
    told: dict[str, Any] = {
        "grpc.service_config": json.dumps({"loadBalancingConfig": [{"round_robin": {}}]}),
        "grpc.initial_reconnect_backoff_ms": FIRST_BACKOFF,
        "grpc.min_reconnect_backoff_ms": round(chosen.connect_timeout * 1000),  # of one dial
        "grpc.max_reconnect_backoff_ms": LAST_BACKOFF,
    }
    keepalive = chosen.keepalive
    if keepalive is not None:
        late = keepalive.interval * keepalive.count
        told["grpc.keepalive_time_ms"] = keepalive.idle * 1000 if pings else TOLERATED
        told["grpc.keepalive_timeout_ms"] = (late if pings else keepalive.idle + late) * 1000
    if server is not None:
        told["grpc.default_authority"] = server
        told["grpc.ssl_target_name_override"] = server.rpartition(":")[0].strip("[]")
    return list(told.items())


def channel(
    where: str,
    *,
    targets: Mapping[str, str | Target] | None = None,
    policy: Policy | None = None,
    credentials: Any = None,
    options: Iterable[Argument] = (),
    pings: bool = False,
    **kwargs: Any,
) -> Any:
    """A channel to "host:port", as `grpc.insecure_channel` makes it, or with `credentials` as
    `grpc.secure_channel`. `options` of the caller's win over ours; TLS verifies the host that is
    written in `where`. pings: see `options`. Raises ValueError for what is malformed."""
    given = {**dict(_told(policy, server=where, pings=pings)), **dict(options)}
    return _made(grpc, where, Dialler(targets, policy), credentials, given, kwargs)


def aio_channel(
    where: str,
    *,
    targets: Mapping[str, str | Target] | None = None,
    policy: Policy | None = None,
    credentials: Any = None,
    options: Iterable[Argument] = (),
    pings: bool = False,
    **kwargs: Any,
) -> Any:
    """The same of `grpc.aio`."""
    import grpc.aio

    given = {**dict(_told(policy, server=where, pings=pings)), **dict(options)}
    return _made(grpc.aio, where, Dialler(targets, policy), credentials, given, kwargs)


_told = options  # where a parameter has its name


def _made(
    makers: Any,
    where: str,
    dialler: Dialler,
    credentials: Any,
    given: dict[str, Any],
    kwargs: dict[str, Any],
) -> Any:
    found = _found(where, dialler)
    to, merged = _words(where, found), list(given.items())
    if credentials is None:
        made = makers.insecure_channel(to, options=merged, **kwargs)
    else:
        made = makers.secure_channel(to, credentials, options=merged, **kwargs)
    look_out(made, found, dialler)
    return made
