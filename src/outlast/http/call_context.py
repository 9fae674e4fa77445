"""One call's surroundings, shared by its attempts: its request, its limits, its report.

Pool and connect time are httpx's timeouts, spent once per call however many attempts there are;
the policy's deadline bounds everything.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from outlast.core.deadline import NEVER, Deadline, Stopwatch
from outlast.core.health_plan import Rule
from outlast.core.report import Report
from outlast.http.announcing import suspected
from outlast.http.connection import Connection
from outlast.http.engine import Engine
from outlast.http.hash_key import hash_key
from outlast.http.message import BytesBody, Request
from outlast.http.pace import Pace
from outlast.http.repeats import Repeats
from outlast.http.verifying import verify
from outlast.net.address import Address
from outlast.service.dry_run import DryRun
from outlast.service.table import Service

__all__ = ["CallContext"]


class CallContext:
    """What the attempts of one call share. One owner; not thread-safe."""

    __slots__ = (
        "_connect_time",
        "_pool_time",
        "_repeats",
        "deadline",
        "doubts_from",
        "engine",
        "epoch",
        "generation",
        "health",
        "now",
        "pace",
        "plain",
        "policy",
        "repeatable",
        "report",
        "request",
        "service",
        "tried",
        "user_timeout",
        "watched",
        "written",
    )

    def __init__(self, engine: Engine, request: Request) -> None:
        self.engine = engine
        terms, service = engine.begin(request.policy, request.route.origin)
        self.generation = engine.generation
        self.epoch = engine.epoch
        self.request = request
        self.policy = policy = request.policy
        self.service: Service = service
        self.health: Service | DryRun = service  # who is told what is met
        if terms.dry:
            rules = frozenset(rule for rule in policy.dry_run if isinstance(rule, Rule))
            self.health = DryRun(service, rules)
        self.now = engine.network.now
        now = self.now()
        deadline = policy.deadline
        self.deadline = NEVER if deadline is None else Deadline(now + deadline)
        self.report = Report(now)
        if service.checks is not None:
            service.checks.touch(now)
        self._repeats: Repeats | None = None  # these three only when something is amiss
        self._connect_time: Stopwatch | None = None
        self._pool_time: Stopwatch | None = None
        self.written = 0  # requests of which a byte was written
        self.tried: set[Address] = set()
        self.user_timeout = terms.user_timeout
        self.doubts_from = terms.doubts_from
        self.repeatable = request.safe and isinstance(request.body, BytesBody)
        self.watched = policy.watch and self.repeatable
        # Nothing is to be decided, and nothing to be told, before its first attempt is sent.
        self.plain = (
            self.repeatable
            and request.trace is None
            and not (service.chooses or service.departures or service.circuits is not None)
        )
        self.pace: Pace | None = None
        if terms.paced or service.paced:
            self.pace = Pace(policy, service, self.deadline, repeatable=self.repeatable)

    @property
    def repeats(self) -> Repeats:
        """Who decides what follows an attempt that was not simply answered."""
        if self._repeats is None:
            self._repeats = Repeats(self, self.written)
        return self._repeats

    def wrote(self) -> None:
        """A byte of an attempt's request has been written."""
        self.written += 1
        if self._repeats is not None:
            self._repeats.machine.written()

    @property
    def connect_time(self) -> Stopwatch:
        """What is left of the connect timeout."""
        if self._connect_time is None:
            self._connect_time = Stopwatch(self.request.timeouts.connect)
        return self._connect_time

    @property
    def pool_time(self) -> Stopwatch:
        """What is left of the pool timeout."""
        if self._pool_time is None:
            self._pool_time = Stopwatch(self.request.timeouts.pool)
        return self._pool_time

    def endpoints(self, avoid: Collection[Address] = ()) -> Sequence[Address]:
        """The endpoints, the one first that is picked for the next attempt; those that the call
        has tried come last, and those to `avoid`."""
        service = self.service
        hashed = hash_key(service.settings.balance, self.request) if service.chooses else None
        return service.order(
            self.now(),
            avoid=self.tried.union(avoid) if avoid else self.tried,
            hashed=hashed,
            repeatable=self.repeatable,
        )

    @property
    def late(self) -> bool:
        """Whether the call's deadline has come."""
        return self.deadline.at <= self.now()

    def until(self, seconds: float | None) -> float:
        """Where a wait of `seconds` from now ends: by itself, or at the call's deadline."""
        if seconds is None:
            return self.deadline.at
        return min(self.now() + seconds, self.deadline.at)

    def words(self, seconds: float | None) -> str:
        """What has ended a wait of `seconds`."""
        if self.deadline.expired(self.now()):
            return f"the call's deadline of {self.policy.deadline:g} s"
        return f"{seconds:g} s"

    def suspect(self, connection: Connection, since: float, why: str) -> None:
        """There is evidence against the peer of a connection, that began at `since`."""
        suspected(self, connection, why)
        self.health.suspect(connection.address, self.now())
        if connection.session is not None:
            connection.expires = -math.inf  # its streams go on, and no new one joins them
            connection.doom = connection.doom or "suspect"
            connection.session.doubt()
        verify(self.engine, connection.address, since)

    def doubts(self, status: int) -> bool:
        """Whether the policy has a word to say on answers of this status."""
        policy = self.policy
        return status >= self.doubts_from and (
            status in policy.retry_status
            or policy.retry_if is not None
            or (
                bool(policy.unsafe_status)
                and status in policy.unsafe_status.get(self.request.method, ())
            )
        )

    def note(self, connection: Connection, attempt: int, what: str) -> None:
        """Record what became of a connection."""
        port = connection.stream.local_port
        self.report.begin(self.now(), "pool", what, connection.name, port, attempt)
