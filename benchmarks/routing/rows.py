"""The rows: who stands between the callers and the four pods. The proxies are the incident
table's, with the same settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

import outlast
from benchmarks.incident import rows as incident

__all__ = ["ROWS", "Row"]

Client = Callable[[str, Sequence[str]], httpx.AsyncClient]


@dataclass(frozen=True, slots=True)
class Row:
    """One client. `proxy`: the row of the incident table whose proxy it goes through."""

    key: str
    name: str
    settings: str
    client: Client
    proxy: incident.Row | None = None


def _plain(_url: str, _pods: Sequence[str]) -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=60.0)


def _static(**settings: Any) -> Client:
    def made(url: str, pods: Sequence[str]) -> httpx.AsyncClient:
        target = outlast.Target("static://" + ",".join(pods), **settings)
        transport = outlast.AsyncTransport(targets={url: target})
        return httpx.AsyncClient(transport=transport, timeout=60.0)

    return made


def _through(key: str) -> Row:
    row = next(row for row in incident.ROWS if row.key == key)
    return Row(key, row.name, row.settings, _plain, row)


ROWS = (
    Row("httpx", "httpx, the Service's VIP", "none", _plain),
    _through("haproxy-router"),
    _through("haproxy-tuned"),
    _through("envoy-tuned"),
    Row("outlast", "**outlast, static**", '`targets={url: "static://..."}`', _static()),
    Row(
        "outlast-check",
        "**outlast, static, active check**",
        '`Target("static://...", check=HttpCheck("/"))`',
        _static(check=outlast.HttpCheck("/")),
    ),
)
