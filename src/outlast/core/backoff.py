"""How long to wait before a repeated request.

Full jitter between nothing and a ceiling that doubles: 25 ms, 50 ms, 100 ms ... up to 250 ms.
Source: Envoy's retry policy (base 25 ms, cap ten times the base, full jitter). Refuses to wait
without jitter, because clients that fail together would come back together; where the server has
said how long (Retry-After, RFC 9110 section 10.2.3) the jitter only adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

__all__ = ["Backoff", "asked_for"]

RETRY_AFTER_SPREAD = 0.1  # of the time that a server asks for, added by chance


@dataclass(frozen=True, slots=True)
class Backoff:
    """Full-jitter exponential back-off; `base` and `cap` in seconds."""

    base: float = 0.025  # Envoy: retry_back_off base_interval 25 ms
    cap: float = 0.250  # Envoy: max_interval is ten times the base

    def __post_init__(self) -> None:
        if not 0 <= self.base <= self.cap:
            raise ValueError(
                f"backoff: base {self.base!r} and cap {self.cap!r} must satisfy 0 <= base <= cap, "
                "such as Backoff(base=0.025, cap=0.25)"
            )

    def ceiling(self, retry: int) -> float:
        """The longest wait before retry number `retry` (1 is the first)."""
        # The exponent is bounded: 2.0 ** 1100 would overflow, and the cap is long reached.
        return float(min(self.cap, self.base * 2.0 ** min(retry - 1, 60)))

    def delay(self, retry: int, rng: Random) -> float:
        """Seconds to wait before retry number `retry`, drawn from `rng`."""
        return rng.uniform(0.0, self.ceiling(retry))


def asked_for(wait: float, room: float, rng: Random) -> float:
    """Seconds to wait when a server has asked for `wait`: up to a tenth more, never less.

    `room`: seconds until the caller's deadline, which the chance must not bring about.
    """
    return wait + rng.uniform(0.0, max(0.0, min(wait * RETRY_AFTER_SPREAD, (room - wait) / 2)))
