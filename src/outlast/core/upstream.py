"""What a router or a mesh on the way says about its own repeats, so that ours do not multiply them.

Read from an answer that we might repeat. Source: Envoy's router filter documentation and its retry
state (Envoy 1.x; Istio's proxies are Envoys):

- x-envoy-attempt-count: requests that the proxy has made for this one, the first included; absent
  where it made none. They count against our `attempts`.
- x-envoy-overloaded: dropped by the proxy's circuit breakers or in maintenance mode;
  x-envoy-ratelimited: dropped by its rate limit. Present with any value; Envoy itself never
  repeats the former and repeats the latter only where it is told to. We repeat neither.
- x-envoy-upstream-service-time: milliseconds that the endpoint behind the proxy took: the
  answer is an endpoint's own, not the proxy's.

HAProxy, nginx and the OpenShift router send no such header: what they have tried stays unknown.
Refuses to believe a count that is no whole number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Upstream", "read_upstream"]

STOPS = ("x-envoy-overloaded", "x-envoy-ratelimited")


@dataclass(frozen=True, slots=True)
class Upstream:
    """What was told. `attempts`: made for one request of ours, 1 if nothing was said. `stop`: the
    header that forbids a repeat, or "". `service_time`: seconds; None if nothing was said."""

    attempts: int = 1
    stop: str = ""
    service_time: float | None = None


SILENT = Upstream()


def read_upstream(header: Callable[[bytes], str | None]) -> Upstream:
    """What an answer tells, by its headers: `header` gives a value by a name in small letters."""
    count = _whole(header(b"x-envoy-attempt-count"))
    spent = _whole(header(b"x-envoy-upstream-service-time"))
    stop = next((name for name in STOPS if header(name.encode()) is not None), "")
    if count is None and spent is None and not stop:
        return SILENT
    return Upstream(
        attempts=count or 1,
        stop=stop,
        service_time=None if spent is None else spent / 1000,
    )


def _whole(text: str | None) -> int | None:
    """A whole number; None if there is none, or an absurd one."""
    text = "" if text is None else text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None
