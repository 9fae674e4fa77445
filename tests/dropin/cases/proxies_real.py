"""Real proxies: what goes through tinyproxy, proxy.py and microsocks, which of it shares a
connection to the origin, who is let through, and what the environment and NO_PROXY choose."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import httpx

from tests.dropin.authority import speaking
from tests.dropin.h2_talk import echo_h2
from tests.dropin.real_proxies import KINDS, RealProxyStage
from tests.dropin.sides import Side, Upload
from tests.dropin.stage import Handler, Stage, echo
from tests.dropin.table import add

TLS = functools.partial(speaking, "http/1.1")
H2 = functools.partial(speaking, "h2")
HERE = {"localhost": ("127.0.0.1",)}


def opened(kind: str, *handlers: Handler, tls: Any = None, **more: Any) -> Any:
    return lambda: RealProxyStage(kind, *handlers, context=tls and tls(), **more)


def proxy_of(stage: Stage) -> str:
    assert isinstance(stage, RealProxyStage)
    return stage.proxy


def through(stage: Stage) -> dict[str, Any]:
    return {"proxy": proxy_of(stage)}


def anew(stage: Stage) -> dict[str, Any]:
    """Nothing is kept: on a connection that the proxy is about to close httpx may lose a POST."""
    return {**through(stage), "limits": httpx.Limits(max_keepalive_connections=0)}


async def requests(side: Side) -> None:
    await side.get("/1")
    await side.post("/2")
    await side.post("/3", Upload(b"one", b"two" * 1000))
    await side.request("HEAD", "/4")
    await side.pieces("POST", "/5?a=b", content=b"x" * 100_000)
    await side.get("/6")


async def two(side: Side) -> None:
    """Without bodies: tinyproxy reads none before it refuses, and so resets what it has said."""
    await side.get("/1")
    await side.get("/2")


async def two_names(side: Side) -> None:
    for host in ("127.0.0.1", "localhost", "127.0.0.1", "localhost"):
        await side.post(f"{side.stage.scheme}://{host}:{side.stage.port}/{host}")


def environment(stage: Stage) -> Mapping[str, str]:
    return {"ALL_PROXY": proxy_of(stage), "NO_PROXY": "localhost"}


USERS = {"right": "user:word", "wrong": "user:other", "missing": ""}
# tinyproxy shuffles header lines, and closes a connection when it has forwarded one request.
LOOSE: dict[str, Any] = {"cut": True, "kept": False}
for _kind in KINDS:
    _more = LOOSE if _kind == "tinyproxy" else {}
    for _how, _tls in (("plain", None), ("tls", TLS)):
        _name = f"proxies_real-{_kind}_{_how}"
        _client = anew if _kind == "tinyproxy" else through
        add(_name, requests, open=opened(_kind, echo, tls=_tls), client=_client, **_more)
        for _who, _user in USERS.items():
            _open = opened(_kind, echo, tls=_tls, user=_user, closed=True)
            add(f"{_name}_{_who}", two, open=_open, client=through, leaks=True, **_more)
    _open = opened(_kind, echo_h2, tls=H2)
    add(
        f"proxies_real-{_kind}_http2",
        requests,
        open=_open,
        client=lambda stage: {**through(stage), "http2": True},
    )
    add(
        f"proxies_real-{_kind}_two_names",
        two_names,
        open=opened(_kind, echo),
        client=anew if _kind == "tinyproxy" else through,
        names=HERE,
        **_more,
    )
    add(
        f"proxies_real-{_kind}_by_environment",
        two_names,
        open=opened(_kind, echo),
        environment=environment,
        names=HERE,
        **_more,
    )
