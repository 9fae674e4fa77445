"""`Forwarder`: a local TCP forwarder with this library's dialling, health and liveness.

For what neither the patch nor the runner can reach: other machines' programs, statically linked
ones elsewhere than on Linux, containers that refuse. One thread serves all connections.

Refuses to listen on the network unless the address is written, and to promise more connections
than the process has descriptors for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from outlast.fields import seconds
from outlast.net.apart import Apart
from outlast.net.kernel import kernel
from outlast.net.run import run_sync
from outlast.policy import Policy
from outlast.shims.forward.engine import Engine, Limits
from outlast.shims.forward.news import Counts, News
from outlast.shims.forward.route import close_routes, open_routes, parse_routes
from outlast.target import Target

__all__ = ["Forwarder"]

DRAIN = 25.0  # seconds; within the 30 that Kubernetes gives a pod to end (its grace period)
RESERVED = 128  # descriptors for pipes, listeners, dials and the program itself
FOR_ONE = 2  # descriptors of a connection
MOST = 100_000
WITHOUT_LIMITS = 200  # where the system tells no limit: Windows, whose select takes 512 sockets


class Forwarder:
    """Takes connections at LISTEN and hands them to TARGET; pairs, as many as are needed.

        with Forwarder("127.0.0.1:0", "static://10.0.0.1:5432,10.0.0.2:5432") as forwarder:
            psycopg.connect(host="127.0.0.1", port=forwarder.address[1])

    pairs: LISTEN, TARGET, LISTEN, TARGET ...; see `listen` for the forms of LISTEN, and
        `parse_target` for those of TARGET, which may also be an `outlast.Target`.
    policy: connect_timeout, attempt_delay, open_attempts, keepalive, watch and user_timeout are
        used here.
    idle_timeout: seconds (or "10m") without a byte in either direction, after which a connection
        is reset; None for no limit: dead peers are found without one.
    max_connections: at once; more wait in the kernel's queue. None: what the process has
        descriptors for.
    explain: called with text for people about every connection, on the forwarder's thread.
    environ: where the variables of a service manager are, for `fd:name`.

    `start` and `stop`, or a `with` block, run it on a thread of its own; `run` in this one. Raises
    ValueError for what is malformed, at once. Methods are thread-safe; `drain` may also be called
    from a signal handler. Not for use across a fork.
    """

    def __init__(
        self,
        *pairs: str | Target,
        policy: Policy | None = None,
        idle_timeout: float | str | None = None,
        max_connections: int | None = None,
        explain: Callable[[str], None] | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._routes = parse_routes(pairs)
        self._policy = _policy(policy)
        self._limits = Limits(_idle(idle_timeout), _connections(max_connections))
        self._environ = environ
        self._news = News(explain)
        self._engine: Engine | None = None
        self._apart: Apart | None = None
        self._runs = False
        self._addresses: tuple[tuple[str, int] | str, ...] = ()

    @property
    def address(self) -> tuple[str, int] | str:
        """Where it listens: (host, port), or a Unix socket's path; of the first pair."""
        if not self._addresses:
            raise RuntimeError("the forwarder does not listen yet; call start() first")
        return self._addresses[0]

    @property
    def addresses(self) -> tuple[tuple[str, int] | str, ...]:
        """All places where it listens, in the order of the pairs; none before it has begun."""
        return self._addresses

    @property
    def counts(self) -> Counts:
        """Connections and bytes since the start; changes while it runs."""
        return self._news.counts

    @property
    def routes(self) -> tuple[str, ...]:
        """From where to where, in words."""
        return tuple(map(str, self._routes))

    @property
    def public(self) -> tuple[str, ...]:
        """Those LISTEN that others than this machine may connect to."""
        return tuple(route.at.text for route in self._routes if route.at.public)

    def open(self) -> None:
        """Listen, and take nobody in yet: whoever connects waits in the kernel's queue.

        Raises OSError naming the place that cannot be listened on, ValueError for a descriptor
        that is none. Nothing if it is open already.
        """
        if self._engine is not None:
            return
        open_routes(self._routes, self._environ)
        try:
            self._engine = Engine(kernel(), self._routes, self._policy, self._limits, self._news)
        except BaseException:
            close_routes(self._routes)
            raise
        addresses = [each.address for route in self._routes for each in route.listeners]
        self._addresses = tuple(
            each.sockaddr if isinstance(each.sockaddr, str) else each.pair for each in addresses
        )

    def run(self) -> None:
        """Forward, in this thread, until `drain` was called and is over. Raises as `open`."""
        self.open()
        assert self._engine is not None
        self._runs = True
        run_sync(kernel(), self._engine.serve())

    def start(self) -> Forwarder:
        """Forward on a thread of its own. Raises as `open`; RuntimeError if it was started."""
        if self._runs:
            raise RuntimeError("the forwarder was started already; make another one")
        self.open()
        assert self._engine is not None
        self._runs = True
        self._apart = Apart(kernel(), self._engine.serve, "outlast-forward")
        return self

    def drain(self, timeout: float | str = DRAIN) -> None:
        """Take no more connections, let those that are open end, and reset what is left after
        `timeout` seconds; 0 for at once. Returns at once; a later call may shorten it."""
        limit = seconds(timeout, "timeout")
        if self._engine is not None:
            self._engine.drain(limit)

    def stop(self, drain: float | str = 0.0) -> None:
        """`drain`, and wait for the end; only `drain` where `run` has been called. Nothing if it
        does not listen."""
        self.drain(drain)
        if self._apart is not None:
            self._apart.join()
        elif self._engine is not None and not self._runs:
            self._engine.close()

    def __enter__(self) -> Forwarder:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def _policy(given: Any) -> Policy:
    if given is None:
        return Policy()
    if not isinstance(given, Policy):
        form = "Policy(connect_timeout=2.0)"
        raise ValueError(f"policy: {given!r} is no outlast.Policy, such as {form}")
    return given


def _idle(given: Any) -> float:
    if given is None:
        return math.inf
    limit = seconds(given, "idle_timeout")
    if not limit:
        raise ValueError("idle_timeout: 0 would cut every connection; leave it out for no limit")
    return limit


def _connections(given: Any) -> int:
    limit = _descriptors()
    possible = MOST if limit is None else min(MOST, (limit - RESERVED) // FOR_ONE)
    if given is None:
        return max(1, WITHOUT_LIMITS if limit is None else possible)
    if isinstance(given, bool) or not isinstance(given, int) or not 0 < given <= MOST:
        raise ValueError(f"max_connections: {given!r} is no whole number from 1 to {MOST}")
    if given > possible:
        raise ValueError(
            f"max_connections: {given} need {given * FOR_ONE + RESERVED} descriptors, and this "
            f"process may have {limit}; raise the limit (ulimit -n, LimitNOFILE=)"
        )
    return given


def _descriptors() -> int | None:
    """How many descriptors this process may have; None where there is no telling."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST * FOR_ONE + RESERVED if soft == resource.RLIM_INFINITY else soft
