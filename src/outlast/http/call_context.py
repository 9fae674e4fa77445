"""One call's surroundings, shared by its attempts: its request, its limits, its report.

Pool and connect time are httpx's timeouts, spent once per call however many attempts there are;
the policy's deadline bounds everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from outlast.core.call import Call
from outlast.core.deadline import Deadline, Stopwatch
from outlast.core.report import Report
from outlast.http.connection import Connection
from outlast.http.engine import Engine
from outlast.http.message import BytesBody, Request
from outlast.net.address import Address
from outlast.service.table import Service

__all__ = ["CallContext"]


class CallContext:
    """What the attempts of one call share. One owner; not thread-safe."""

    __slots__ = (
        "connect_time",
        "deadline",
        "engine",
        "epoch",
        "generation",
        "machine",
        "now",
        "order",
        "policy",
        "pool_time",
        "report",
        "request",
        "service",
        "tried",
        "user_timeout",
        "watched",
    )

    def __init__(
        self, engine: Engine, request: Request, service: Service, machine: Call, deadline: Deadline
    ) -> None:
        self.engine = engine
        engine.tidy()
        self.generation = engine.generation
        self.epoch = engine.epoch
        self.request = request
        self.policy = request.policy
        self.service = service
        self.machine = machine
        self.now = engine.network.now
        self.deadline = deadline
        self.connect_time = Stopwatch(request.timeouts.connect)
        self.pool_time = Stopwatch(request.timeouts.pool)
        self.report = Report(self.now())
        self.order: Sequence[Address] = ()
        self.tried: set[Address] = set()
        # Where nothing tells a slow reader from a dead peer, it would be killed too.
        self.user_timeout = self.policy.user_timeout if engine.network.tells else 0.0
        self.watched = self.policy.watch and request.safe and isinstance(request.body, BytesBody)

    def endpoints(self) -> Sequence[Address]:
        """The endpoints in the order of this call's turn. A call takes one turn, however many
        attempts it makes: else calls that need two would all begin with the same endpoint."""
        service, now = self.service, self.now()
        self.order = service.arrange(self.order, now) if self.order else service.order(now)
        return self.order

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

    def doubts(self, status: int) -> bool:
        """Whether the policy has a word to say on answers of this status."""
        named = self.policy.unsafe_status.get(self.request.method, ())
        return status in self.policy.retry_status or status in named

    def note(self, connection: Connection, attempt: int, what: str) -> None:
        """Record what became of a connection."""
        self.report.add(
            self.now(),
            "pool",
            what,
            address=str(connection.address),
            local_port=connection.stream.local_port,
            attempt=attempt,
        )
