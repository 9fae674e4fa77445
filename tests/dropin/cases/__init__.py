"""The cases. Everything is imported here, so that the table is full."""

from __future__ import annotations

from tests.dropin.cases import (
    broken,
    clients,
    extensions,
    http2,
    http2_broken,
    http2_flow,
    http2_leaving,
    hypercorn,
    limits,
    nginx,
    nginx_changes,
    proxies,
    proxies_chosen,
    proxies_real,
    requests,
    responses,
    secure,
    secure_cuts,
    uploads,
)
from tests.dropin.table import CASES

__all__ = [
    "CASES",
    "broken",
    "clients",
    "extensions",
    "http2",
    "http2_broken",
    "http2_flow",
    "http2_leaving",
    "hypercorn",
    "limits",
    "nginx",
    "nginx_changes",
    "proxies",
    "proxies_chosen",
    "proxies_real",
    "requests",
    "responses",
    "secure",
    "secure_cuts",
    "uploads",
]
