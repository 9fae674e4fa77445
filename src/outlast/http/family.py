"""The families of clients, httpx and httpx2: which one made a request, and its types.

A family is known by its classes, never by a module's name alone: `httpx2.alias_httpx()` makes
`import httpx` be httpx2, and other packages have put themselves in httpx's place. It is the top
package whose own `Request` the request's class is, or descends from. Nothing is imported for it:
whoever has a request in hand has its package loaded. Refuses whatever is no such request.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

from outlast.errors import TransportFailure
from outlast.http.body import AsyncPieces, SyncPieces
from outlast.http.trace import AsyncTracedPieces, SyncTracedPieces

__all__ = ["Family", "FamilyLimits", "FamilyRequest", "family_in", "family_of"]

# What a package must have to be a family; what stands here is all that is used of one.
NAMES = (
    *("AsyncByteStream", "Proxy", "Request", "RequestNotRead", "Response", "SyncByteStream"),
    *("TransportError", "URL", "create_ssl_context"),
)


class _Url(Protocol):
    @property
    def scheme(self) -> str: ...
    @property
    def raw_host(self) -> bytes: ...
    @property
    def port(self) -> int | None: ...
    @property
    def raw_path(self) -> bytes: ...


class _Headers(Protocol):
    @property
    def raw(self) -> list[tuple[bytes, bytes]]: ...


class FamilyRequest(Protocol):
    """What the requests of all families have in common."""

    method: str

    @property
    def extensions(self) -> Mapping[str, Any]:
        """What the client and the caller have to say beside HTTP."""

    @property
    def url(self) -> _Url:
        """Where it goes."""

    @property
    def headers(self) -> _Headers:
        """Its header fields."""

    @property
    def stream(self) -> Any:
        """Its body, of the family's sync or async kind."""

    @property
    def content(self) -> bytes:
        """Its body, if it stands in memory. Raises the family's RequestNotRead."""


class FamilyLimits(Protocol):
    """What the `Limits` of all families have in common; None for no limit."""

    @property
    def max_connections(self) -> int | None:
        """At once."""

    @property
    def max_keepalive_connections(self) -> int | None:
        """Idle at once."""

    @property
    def keepalive_expiry(self) -> float | None:
        """Seconds idle."""


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """The types of one family. One value per package: compared by identity.

    `sync_stream` and `async_stream` are the bases of its bodies, `sync_answer` and
    `async_answer` its response bodies over this library's answers, `sync_traced` and
    `async_traced` those that somebody listens to; `unread` is raised by
    `Request.content` of a body that streams.
    """

    module: ModuleType
    response: Callable[..., Any]
    unread: type[Exception]
    sync_stream: type[Any]
    async_stream: type[Any]
    sync_answer: Callable[..., Any]
    async_answer: Callable[..., Any]
    sync_traced: Callable[..., Any]
    async_traced: Callable[..., Any]

    def error(self, failure: TransportFailure, request: FamilyRequest) -> Exception:
        """The family's exception of the failure's kind, with the report."""
        error: Exception = getattr(self.module, failure.kind)(failure.message, request=request)
        vars(error)["report"] = failure.report
        return error

    def below(self, kind: str) -> type[Exception]:
        """The exception of this kind as the family's own connections raise it: httpcore's for
        httpx, httpcore2's for httpx2; its own, if it has no such package below."""
        name = self.module.__name__.replace("httpx", "httpcore")
        try:
            package = importlib.import_module(name)
        except ImportError:
            package = self.module
        found: type[Exception] = getattr(package, kind)
        return found


_by_class: dict[type, Family] = {}
_by_package: dict[int, Family] = {}  # by the module's identity; a family is never dropped


def family_of(request: object) -> Family:
    """The family that made `request`. Raises TypeError for what is no request."""
    return _by_class.get(type(request)) or _found(type(request))


def family_in(package: ModuleType) -> Family:
    """The family whose top package this is."""
    known = _by_package.get(id(package))
    return known if known is not None else _by_package.setdefault(id(package), _made(package))


def _found(kind: type) -> Family:
    for base in kind.__mro__:
        package = sys.modules.get(base.__module__.partition(".")[0])
        if package is None or getattr(package, "Request", None) is not base:
            continue
        if all(hasattr(package, name) for name in NAMES):
            return _by_class.setdefault(kind, family_in(package))
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} is no request of httpx or httpx2")


def _made(package: ModuleType) -> Family:
    sync_stream: type = package.SyncByteStream
    async_stream: type = package.AsyncByteStream
    return Family(
        module=package,
        response=package.Response,
        unread=package.RequestNotRead,
        sync_stream=sync_stream,
        async_stream=async_stream,
        sync_answer=type("SyncAnswer", (SyncPieces, sync_stream), {}),
        async_answer=type("AsyncAnswer", (AsyncPieces, async_stream), {}),
        sync_traced=type("SyncTraced", (SyncTracedPieces, sync_stream), {}),
        async_traced=type("AsyncTraced", (AsyncTracedPieces, async_stream), {}),
    )
