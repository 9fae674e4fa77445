"""outlast: a client that keeps working when a node behind its Service dies.

Everything users need is here; nothing heavy is imported before it is used. See README.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast import events as events
    from outlast import httpx2 as httpx2
    from outlast.core.backoff import Backoff as Backoff
    from outlast.core.balance import P2C as P2C
    from outlast.core.balance import ConsistentHash as ConsistentHash
    from outlast.core.balance import LeastRequest as LeastRequest
    from outlast.core.balance import PickFirst as PickFirst
    from outlast.core.balance import RoundRobin as RoundRobin
    from outlast.core.budget import BudgetPlan as BudgetPlan
    from outlast.core.circuit import CircuitLimits as CircuitLimits
    from outlast.core.classify import Progress as Progress
    from outlast.core.concurrency import AdaptivePlan as AdaptivePlan
    from outlast.core.health_plan import HealthPlan as HealthPlan
    from outlast.core.hedge import HedgePlan as HedgePlan
    from outlast.core.liveness import Liveness as Liveness
    from outlast.core.report import Event as Event
    from outlast.core.report import Report as Report
    from outlast.errors import NotAvailableYet as NotAvailableYet
    from outlast.event_log import log_events as log_events
    from outlast.events import Subscription as Subscription
    from outlast.events import subscribe as subscribe
    from outlast.http.check_http import HttpCheck as HttpCheck
    from outlast.http.transport import AsyncTransport as AsyncTransport
    from outlast.http.transport import Transport as Transport
    from outlast.http.transport import async_client as async_client
    from outlast.http.transport import client as client
    from outlast.net.handout import report_of as report_of
    from outlast.net.options import Keepalive as Keepalive
    from outlast.net.sentry import Watched as Watched
    from outlast.net.sentry import watch as watch
    from outlast.net.tune import Tuned as Tuned
    from outlast.net.tune import tune as tune
    from outlast.policy import Policy as Policy
    from outlast.policy import override as override
    from outlast.service.check_kinds import CallCheck as CallCheck
    from outlast.service.check_kinds import TcpCheck as TcpCheck
    from outlast.service.connect import connect_tcp as connect_tcp
    from outlast.service.connect import create_connection as create_connection
    from outlast.service.overview import snapshot as snapshot
    from outlast.shims.patch import Installed as Installed
    from outlast.shims.patch import install as install
    from outlast.shims.patch import uninstall as uninstall
    from outlast.target import Target as Target

__version__ = "0.1.0"

_HOME = {
    "AdaptivePlan": "outlast.core.concurrency",
    "AsyncTransport": "outlast.http.transport",
    "Backoff": "outlast.core.backoff",
    "BudgetPlan": "outlast.core.budget",
    "CallCheck": "outlast.service.check_kinds",
    "CircuitLimits": "outlast.core.circuit",
    "ConsistentHash": "outlast.core.balance",
    "Event": "outlast.core.report",
    "HealthPlan": "outlast.core.health_plan",
    "HedgePlan": "outlast.core.hedge",
    "HttpCheck": "outlast.http.check_http",
    "Installed": "outlast.shims.patch",
    "Keepalive": "outlast.net.options",
    "LeastRequest": "outlast.core.balance",
    "Liveness": "outlast.core.liveness",
    "NotAvailableYet": "outlast.errors",
    "P2C": "outlast.core.balance",
    "PickFirst": "outlast.core.balance",
    "Policy": "outlast.policy",
    "Progress": "outlast.core.classify",
    "Report": "outlast.core.report",
    "RoundRobin": "outlast.core.balance",
    "Subscription": "outlast.events",
    "Target": "outlast.target",
    "TcpCheck": "outlast.service.check_kinds",
    "Transport": "outlast.http.transport",
    "Tuned": "outlast.net.tune",
    "Watched": "outlast.net.sentry",
    "async_client": "outlast.http.transport",
    "client": "outlast.http.transport",
    "connect_tcp": "outlast.service.connect",
    "create_connection": "outlast.service.connect",
    "install": "outlast.shims.patch",
    "log_events": "outlast.event_log",
    "override": "outlast.policy",
    "report_of": "outlast.net.handout",
    "snapshot": "outlast.service.overview",
    "subscribe": "outlast.events",
    "tune": "outlast.net.tune",
    "uninstall": "outlast.shims.patch",
    "watch": "outlast.net.sentry",
}

__all__ = [
    "P2C",
    "AdaptivePlan",
    "AsyncTransport",
    "Backoff",
    "BudgetPlan",
    "CallCheck",
    "CircuitLimits",
    "ConsistentHash",
    "Event",
    "HealthPlan",
    "HedgePlan",
    "HttpCheck",
    "Installed",
    "Keepalive",
    "LeastRequest",
    "Liveness",
    "NotAvailableYet",
    "PickFirst",
    "Policy",
    "Progress",
    "Report",
    "RoundRobin",
    "Subscription",
    "Target",
    "TcpCheck",
    "Transport",
    "Tuned",
    "Watched",
    "async_client",
    "client",
    "connect_tcp",
    "create_connection",
    "events",
    "install",
    "log_events",
    "override",
    "report_of",
    "snapshot",
    "subscribe",
    "tune",
    "uninstall",
    "watch",
]


if not TYPE_CHECKING:  # a type checker would take every name for an attribute

    def __getattr__(name: str) -> Any:
        home = _HOME.get(name)
        if name in ("events", "httpx2"):  # that one is not listed: its package may be missing
            return importlib.import_module(f"outlast.{name}")
        if home is None:
            raise AttributeError(f"module 'outlast' has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, "events"})
