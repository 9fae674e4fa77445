"""Clients of a family with every argument honoured, though a transport is given.

A client of httpx drops `verify`, `cert`, `http1`, `http2`, `limits` and the proxies of the
environment when it is given a transport, and gives `proxy` a transport of its own making. Here
those arguments make the transport, and one more for each proxy, which the client mounts where it
would have mounted its own. What stands in the caller's `mounts` wins, then `targets`, then the
environment. Refuses `transport`: with one of the caller's own there is nothing left to do here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from outlast.http.arguments import read_targets
from outlast.http.environment import environment_routes
from outlast.http.family import Family

__all__ = ["build_client", "signature_like"]

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])

# The transport's.
MORE = ("policy", "targets", "network", "http1_parser")
ITS_OWN = ("verify", "cert", "http1", "http2", "limits", *MORE)
REFUSED = {
    "transport": "it makes the transport itself; give your own to the client's class",
    "app": "give a WSGITransport or ASGITransport to the client's class",
    "proxies": "write proxy=, or mounts= for several",
}


def build_client(
    family: Family,
    client: Callable[..., C],
    transport: Callable[..., Any],
    given: Mapping[str, Any],
) -> C:
    """A `client` over `transport`s made of the arguments that it would have dropped.

    Raises TypeError for an argument that is refused or unknown, and what both of them raise.
    """
    rest = dict(given)
    for name, instead in REFUSED.items():
        if name in rest:
            raise TypeError(f"{name}= is not for outlast's clients: {instead}")
    own = {name: rest.pop(name) for name in ITS_OWN if name in rest}
    own["trust_env"] = trust_env = rest.get("trust_env", True)
    proxy = rest.pop("proxy", None)
    if proxy is not None:
        mounts = {"all://": transport(**own, proxy=proxy)}
    else:
        mounts = _environment(family, transport, own) if trust_env else {}
    direct = transport(**own)
    mounts.update(rest.pop("mounts", None) or {})
    return client(**rest, transport=direct, mounts=mounts)


def _environment(
    family: Family, transport: Callable[..., Any], own: Mapping[str, Any]
) -> dict[str, Any]:
    """What to mount for the environment's proxies. An origin with a target goes there directly:
    a proxy would not know of it."""
    routes = environment_routes(family)
    if not any(routes.values()):
        return dict.fromkeys(routes)
    targets = own.get("targets")
    proxied = {name: value for name, value in own.items() if name != "targets"}
    make = family.module.Proxy
    return {
        **{
            pattern: None if url is None else transport(**proxied, proxy=make(url=url))
            for pattern, url in routes.items()
        },
        **dict.fromkeys(str(origin) for origin in read_targets(targets)),
    }


def signature_like(client: Callable[..., Any]) -> Callable[[F], F]:
    """Shows a function's arguments as they are: the client's, but for those that are refused,
    and the transport's own besides. For readers and tools; type checkers see the typed
    dictionary."""

    def decorate(function: F) -> F:
        theirs = inspect.signature(client).parameters
        shown = {name: each for name, each in theirs.items() if name not in REFUSED}
        for name in ("limits", *MORE):  # None: this library's defaults
            default = "h11" if name == "http1_parser" else None
            shown[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        vars(function)["__signature__"] = inspect.Signature(
            list(shown.values()), return_annotation=client
        )
        return function

    return decorate
