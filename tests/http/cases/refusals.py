"""Arguments that are wrong, or that this version cannot serve: refused by name, at once."""

from __future__ import annotations

import socket
from typing import Any

import httpx
import pytest

from tests.http.cases.table import Open, case

ORIGIN = "http://orders.shop.svc:8080"


async def refused(open_caller: Open, text: str, kind: type[Exception], **arguments: Any) -> None:
    with pytest.raises(kind, match=text):
        async with open_caller(**arguments):
            pass


@case
async def what_comes_later_is_refused_by_name(open_caller: Open) -> None:
    for scheme in ("srv", "k8s", "nodeport"):
        targets = {ORIGIN: f"{scheme}://shop/orders:http"}
        await refused(open_caller, f"{scheme}:// is not available yet", ValueError, targets=targets)


@case
async def the_defaults_written_out_are_accepted(open_caller: Open) -> None:
    plain: dict[str, Any] = {"http1": True, "http2": False, "proxy": None, "uds": None}
    async with open_caller(retries=0, limits=None, verify=True, cert=None, **plain):
        pass


@case
async def targets_are_checked(open_caller: Open) -> None:
    wrong: list[tuple[Any, str]] = [
        ({ORIGIN: "orders.shop.svc"}, "target 'orders.shop.svc': .* has no port"),
        ({ORIGIN: "static://orders:80"}, "'orders' is no IP address.*dns://orders:80"),
        ({ORIGIN: "http://10.0.0.1:80"}, "unknown scheme 'http'"),
        ({ORIGIN: ""}, "names nothing"),
        ({ORIGIN: None}, "target: None is no text"),
        ({ORIGIN: b"static://10.0.0.1:80"}, "is no text"),
        ({"orders.shop.svc:8080": "10.0.0.1:80"}, "key 'orders.shop.svc:8080' is no http:// or"),
        ({7: "10.0.0.1:80"}, "key 7 is no http:// or"),
        ({f"{ORIGIN}/path": "10.0.0.1:80"}, "has more than scheme, host and port"),
        ({ORIGIN: "10.0.0.1:80", f"{ORIGIN}/": "10.0.0.2:80"}, "names an origin a second time"),
        ([(ORIGIN, "10.0.0.1:80")], "targets: .* maps no origins to targets"),
    ]
    for targets, text in wrong:
        await refused(open_caller, text, ValueError, targets=targets)


@case
async def the_policy_is_checked(open_caller: Open) -> None:
    await refused(
        open_caller, "policy: .* is no outlast.Policy", ValueError, policy={"attempts": 1}
    )


@case
async def limits_are_checked(open_caller: Open) -> None:
    for arguments in ({"limits": 100}, {"limits": {"max_connections": 1}}):
        await refused(open_caller, r"limits: .* is no httpx.Limits", ValueError, **arguments)
    limits = httpx.Limits(max_connections=0)
    await refused(open_caller, "max_connections=0 leaves no place", ValueError, limits=limits)


@case
async def socket_options_are_checked(open_caller: Open) -> None:
    wrong: list[Any] = [
        [(socket.SOL_SOCKET, socket.SO_KEEPALIVE)],
        [("SOL_SOCKET", "SO_KEEPALIVE", 1)],
        [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, "1")],
        [7],
        7,
    ]
    for options in wrong:
        await refused(open_caller, "socket_options: .*level", ValueError, socket_options=options)


@case
async def a_local_address_is_an_address(open_caller: Open) -> None:
    for address in ("eth0", "300.0.0.1", "", 7):
        await refused(
            open_caller, "local_address: .* is no IP address", ValueError, local_address=address
        )


@case
async def certificates_are_loaded_at_once(open_caller: Open) -> None:
    """A wrong path is an error of the constructor, as in httpx; not of the first request."""
    with pytest.warns(DeprecationWarning, match="verify"):
        await refused(open_caller, "No such file", OSError, verify="/nowhere/ca.pem")
