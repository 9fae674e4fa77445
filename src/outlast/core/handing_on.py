"""The deadline handed on to the server, which need not work for nobody, and split over attempts.

The form goes by the header's name:

- `grpc-timeout`: gRPC's, at most eight digits and a unit, such as `2500m` (gRPC over HTTP/2);
- a name that ends in `-ms`: whole milliseconds, such as `x-envoy-expected-rq-timeout-ms` (what
  Envoy tells an endpoint) or `x-envoy-upstream-rq-timeout-ms` (what shortens Envoy's own wait);
- any other name: seconds with three decimals, such as `2.500`.

A time that is left, never a time of day: clocks differ. Rounded down, because a server that
believes in more time than there is works in vain. Refuses to tell of a deadline that does not
exist, or that has come.
"""

from __future__ import annotations

import math

__all__ = ["deadline_header", "share_of"]

GRPC_MOST = 99_999_999  # eight digits
GRPC_UNITS = (("m", 1000.0), ("S", 1.0), ("M", 1 / 60))  # milliseconds, seconds, minutes


def deadline_header(name: str, left: float) -> str | None:
    """The value of header `name` where `left` seconds are left; None: do not send it."""
    milliseconds = math.floor(left * 1000 + 1e-6) if left < math.inf else 0
    if milliseconds < 1:
        return None
    name = name.lower()
    if name == "grpc-timeout":
        return _grpc(left)
    if name.endswith("-ms"):
        return str(milliseconds)
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"


def _grpc(left: float) -> str:
    """In the smallest of the units that eight digits suffice for."""
    counts = ((math.floor(left * factor + 1e-6), unit) for unit, factor in GRPC_UNITS)
    count, unit = next((each for each in counts if each[0] <= GRPC_MOST), (GRPC_MOST, "M"))
    return f"{count}{unit}"


def share_of(left: float, attempts: int, least: float = 0.0) -> float:
    """Seconds that one attempt may take where `left` seconds are left for `attempts`, this one
    included: an equal part, at least `least`, never more than there is.

    Source: Go's net.Dialer splits a deadline over addresses in this way.
    """
    return min(left, max(least, left / max(1, attempts)))
