"""Envoy between the client and the pods, tuned for this incident.

As with HAProxy, what a careful person can get out of it without touching the time that a slow
answer may take: the route has no timeout, a try has none.

Source: Envoy's documentation of `config.cluster.v3.Cluster` (health checks, outlier detection,
`connect_timeout`, `close_connections_on_host_health_failure`) and of
`config.route.v3.RetryPolicy`; tcp(7) for the user timeout (TCP_USER_TIMEOUT is 18).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

__all__ = ["TUNED", "tuned"]

TUNED = (
    "`connect_timeout` 250 ms, HTTP health check every 500 ms (timeout 250 ms, 2 failures),"
    " `close_connections_on_host_health_failure`, outlier detection after 1 local failure, 3"
    " retries on `connect-failure,reset,refused-stream,gateway-error` at `previous_hosts`' others,"
    " TCP_USER_TIMEOUT 500 ms; no timeout of route or try"
)
_HTTP = "type.googleapis.com/envoy.extensions"


def tuned(endpoints: Sequence[str], port: int) -> str:
    """The configuration, as JSON."""
    listener = {
        "name": "public",
        "address": _address(f"127.0.0.1:{port}"),
        "filter_chains": [{"filters": [_connections()]}],
    }
    static = {"listeners": [listener], "clusters": [_cluster(endpoints)]}
    return json.dumps({"static_resources": static}, indent=1)


def _connections() -> dict[str, Any]:
    """The filter that speaks HTTP with the client."""
    route = {"cluster": "pods", "timeout": "0s", "retry_policy": _retries()}
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": f"{_HTTP}.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "public",
            "route_config": {
                "virtual_hosts": [
                    {
                        "name": "all",
                        "domains": ["*"],
                        "routes": [{"match": {"prefix": "/"}, "route": route}],
                    }
                ]
            },
            "http_filters": [
                {
                    "name": "envoy.filters.http.router",
                    "typed_config": {"@type": f"{_HTTP}.filters.http.router.v3.Router"},
                }
            ],
        },
    }


def _retries() -> dict[str, Any]:
    others = f"{_HTTP}.retry.host.previous_hosts.v3.PreviousHostsPredicate"
    return {
        "retry_on": "connect-failure,reset,refused-stream,gateway-error",
        "num_retries": 3,
        "retry_host_predicate": [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {"@type": others},
            }
        ],
        "host_selection_retry_max_attempts": 5,
        "retry_back_off": {"base_interval": "0.025s", "max_interval": "0.25s"},
    }


def _cluster(endpoints: Sequence[str]) -> dict[str, Any]:
    return {
        "name": "pods",
        "type": "STATIC",
        "connect_timeout": "0.25s",
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": {
            "cluster_name": "pods",
            "endpoints": [
                {
                    "lb_endpoints": [
                        {"endpoint": {"address": _address(endpoint)}} for endpoint in endpoints
                    ]
                }
            ],
        },
        # At most 3 retries at once unless set: an outage needs more.
        "circuit_breakers": {"thresholds": [{"max_retries": 1000}]},
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "health_checks": [
            {
                "timeout": "0.25s",
                "interval": "0.5s",
                "unhealthy_interval": "0.5s",
                "no_traffic_interval": "0.5s",  # 60 s unless set
                "unhealthy_threshold": 2,
                "healthy_threshold": 2,
                "http_health_check": {"path": "/"},
            }
        ],
        "close_connections_on_host_health_failure": True,
        "outlier_detection": {
            "split_external_local_origin_errors": True,
            "consecutive_local_origin_failure": 1,
            "interval": "0.5s",
            "base_ejection_time": "5s",
            "max_ejection_percent": 50,
        },
        "upstream_bind_config": {
            "source_address": {"address": "0.0.0.0", "port_value": 0},
            "socket_options": [
                {"description": "TCP_USER_TIMEOUT", "level": 6, "name": 18, "int_value": 500}
            ],
        },
    }


def _address(address: str) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}
