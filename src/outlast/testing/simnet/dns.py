"""Names: a zone that lags, a cache that keeps, a resolver that tries again, and what goes wrong.

A look-up asks the cluster's name server through the client's stub resolver: 5 s for an answer, two
tries. The server keeps an answer for its TTL, also a wrong one. Service names are in the zone by
themselves, headless ones with the addresses of their ready pods.

Source: resolv.conf(5) (timeout 5, attempts 2), getaddrinfo(3) for the errors, CoreDNS' kubernetes
(ttl 5) and cache plugins. Leaves out search domains, record types, and packets: queries do not
travel on the links.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outlast.testing.simnet.rules import SECOND

if TYPE_CHECKING:
    from outlast.testing.simnet.draws import Draws
    from outlast.testing.simnet.timeline import Timeline

__all__ = ["FAULTS", "Answer", "Zone"]

_TIMEOUT = 5 * SECOND
_ATTEMPTS = 2
_LATENCY = 500  # microseconds, there and back

# What a name server can do instead of answering, and what getaddrinfo makes of it.
FAULTS = {
    "SERVFAIL": socket.EAI_AGAIN,
    "NXDOMAIN": socket.EAI_NONAME,
    "empty": getattr(socket, "EAI_NODATA", socket.EAI_NONAME),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a look-up ends with: addresses in order, or the error (`error.errno` as EAI_...)."""

    addresses: tuple[str, ...] = ()
    error: OSError | None = None


Source = Callable[[], Sequence[str]]


class Zone:
    """The names of a world, its name server, and the client's resolver."""

    def __init__(self, timeline: Timeline, draws: Draws, note: Callable[[str], None]) -> None:
        self._timeline = timeline
        self._draws = draws
        self._note = note
        self._records: dict[str, Source | OSError] = {}
        self._ttls: dict[str, int] = {}
        self._cache: dict[str, tuple[int, tuple[str, ...]]] = {}
        self._faults: dict[str, str] = {}  # by name; "" is every name
        self._loss: dict[str, float] = {}
        self._held: dict[str, list[Callable[[], None]]] = {}
        self._asked: dict[str, int] = {}
        self.latency = _LATENCY
        self.shuffled = False  # whether answers come in a drawn order, as CoreDNS' loadbalance does

    # -- the zone --------------------------------------------------------------------------

    def set(
        self, name: str, addresses: Sequence[str] | OSError | Source, *, ttl: float = 5.0
    ) -> None:
        """Have `name` stand for addresses; a cached answer stays until its TTL is over.

        An OSError is what a look-up raises; a function is asked for the addresses each time.
        """
        self._ttls[name] = round(ttl * SECOND)
        if callable(addresses) or isinstance(addresses, OSError):
            self._records[name] = addresses
        else:
            fixed = tuple(addresses)
            self._records[name] = lambda: fixed

    def remove(self, name: str) -> None:
        """Take a name out; a cached answer stays until its TTL is over."""
        self._records.pop(name, None)

    # -- faults ----------------------------------------------------------------------------

    def fail(self, how: str, name: str = "") -> None:
        """Have queries (for `name`, or all) answered with SERVFAIL, NXDOMAIN or nothing (empty)."""
        if how not in FAULTS:
            raise ValueError(f"how={how!r} is none of {', '.join(FAULTS)}")
        self._faults[name] = how
        self._note(f"dns: {how}{f' for {name}' if name else ''}")

    def lose(self, share: float, name: str = "") -> None:
        """Lose a share of the queries (for `name`, or all); 1 loses every one."""
        if not 0 <= share <= 1:
            raise ValueError(f"a share of {share!r} is not within 0..1; right: dns.lose(0.3)")
        self._loss[name] = share
        self._note(f"dns: loses {share:.0%}{f' of {name}' if name else ''}")

    def hold(self, name: str) -> Callable[[], None]:
        """Have look-ups of `name` hang until what is returned is called."""
        self._held[name] = []

        def release() -> None:
            for go_on in self._held.pop(name, []):
                go_on()

        return release

    def heal(self) -> None:
        """Undo every fault but `hold`."""
        self._faults.clear()
        self._loss.clear()
        self._note("dns: heal")

    # -- look-ups --------------------------------------------------------------------------

    def asked(self, name: str) -> int:
        """How many look-ups of a name were begun."""
        return self._asked.get(name, 0)

    def lookup(self, name: str, done: Callable[[Answer], None], *, label: str = "") -> None:
        """Look `name` up; `done` hears the answer, later. Never blocks.

        `label`: a stable name for the asker's chance; by default the name and how often it was
        asked for.
        """
        number = self._asked[name] = self._asked.get(name, 0) + 1
        self._try(name, done, label or f"{name}/{number}", 1)

    def _try(self, name: str, done: Callable[[Answer], None], label: str, attempt: int) -> None:
        if name in self._held:
            self._held[name].append(lambda: self._try(name, done, label, attempt))
            return
        loss = self._loss.get(name, self._loss.get("", 0.0))
        if loss and self._draws.uniform(f"dns/{label}", attempt) < loss:
            if attempt < _ATTEMPTS:
                self._timeline.after(
                    _TIMEOUT, lambda: self._try(name, done, label, attempt + 1), "dns time-out"
                )
            else:
                failed = Answer(error=_error(socket.EAI_AGAIN))
                self._timeline.after(_TIMEOUT, lambda: done(failed), "dns time-out")
            return
        self._timeline.after(self.latency, lambda: done(self._answer(name, label)), "dns answer")

    def _answer(self, name: str, label: str) -> Answer:
        fault = self._faults.get(name, self._faults.get(""))
        if fault is not None:
            return Answer(error=_error(FAULTS[fault]))
        now = self._timeline.now
        until, addresses = self._cache.get(name, (0, ()))
        if until <= now:
            source = self._records.get(name)
            if isinstance(source, OSError):
                return Answer(error=source)
            if source is None:
                return Answer(error=_error(socket.EAI_NONAME))
            addresses = tuple(source())
            self._cache[name] = (now + self._ttls[name], addresses)
        if not addresses:
            return Answer(error=_error(FAULTS["empty"]))
        if self.shuffled:
            order = list(addresses)
            self._draws.rng(f"dns order/{label}").shuffle(order)
            addresses = tuple(order)
        return Answer(addresses)


_TEXTS = {
    socket.EAI_AGAIN: "Temporary failure in name resolution",
    socket.EAI_NONAME: "Name or service not known",
    FAULTS["empty"]: "No address associated with hostname",
}


def _error(code: int) -> OSError:
    return socket.gaierror(code, _TEXTS[code])
