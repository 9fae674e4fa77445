"""Active checks of one target: a background job (`service.check_job`) while the target is used.

It begins with a call, checks every endpoint at once, and goes on by each one's own schedule. It
ends when the target has met no call for a minute or nobody holds it any more, and begins anew,
knowing nothing, at the next call; in the child of a fork, too.

Source: DESIGN section 5; HAProxy 3.0, health checks. Refuses to keep a process alive, and to check
on while nobody uses the target: many processes with many targets would be a load of their own.
"""

from __future__ import annotations

import logging
import math
import os
import weakref
from collections.abc import Callable, Sequence
from threading import Lock
from types import MethodType
from typing import Any, TypeAlias, TypeVar, cast

from outlast.core.health_plan import Evidence
from outlast.net.address import Address
from outlast.net.seam import Network
from outlast.service.check_job import CheckJob, CheckState
from outlast.service.check_kinds import CheckKind, CheckWay

__all__ = ["ActiveChecks", "CheckState"]

log = logging.getLogger("outlast")

Ended: TypeAlias = "Callable[[Address, bool, str, float, Evidence], None]"
F = TypeVar("F", bound=Callable[..., Any])

IDLE = 60.0  # seconds without a call after which checks rest
PAUSE = 1.0  # seconds before the next try, where a job could not begin or has failed


class ActiveChecks:
    """The active checks of one target. Thread-safe; nothing here blocks.

    members: the endpoints to check now; asked on the background thread, before each round.
    ended: hears (address, up, why, now, evidence) on the background thread: up is True for a
        check that passed where the endpoint is up, False for one that failed where it is down.
        A check that changes nothing yet, or tells nothing, is not told. `evidence` as in
        `Outcome`, and as `core.health.Health.checked` takes it.

    Bound methods are held weakly, and with them their owner: checks keep nothing alive.
    """

    __slots__ = (
        "__weakref__",
        "_ended",
        "_job",
        "_lock",
        "_members",
        "_retry_at",
        "_stopped",
        "_used",
        "kind",
        "network",
        "target",
        "way",
    )

    def __init__(
        self,
        network: Network,
        target: str,
        kind: CheckKind,
        members: Callable[[], Sequence[Address]],
        ended: Ended,
        *,
        way: CheckWay | None = None,
    ) -> None:
        self.network = network
        self.target = target
        self.kind = kind
        self.way = way or CheckWay()
        self._members = _weakly(members)
        self._ended = _weakly(ended)
        self._lock = Lock()
        self._job: CheckJob | None = None
        self._used = -math.inf
        self._retry_at = -math.inf
        self._stopped = False
        _all.add(self)

    def touch(self, now: float) -> None:
        """The target is in use: check, if that does not happen already. Asked on each call."""
        self._used = now
        if self._job is None:
            self._begin(now)

    def changed(self) -> None:
        """Endpoints have come or gone: look at `members` now and not only when a check is due."""
        job = self._job
        if job is not None:
            job.ring()

    def stop(self) -> None:
        """No more checks, for good; those under way are dropped. Idempotent."""
        self._stopped = True
        self.changed()

    @property
    def running(self) -> bool:
        """Whether checks are made now."""
        return self._job is not None

    def state(self, address: Address) -> CheckState:
        """What the checks say of one endpoint; nothing while they rest."""
        job = self._job
        return CheckState() if job is None else job.state(address)

    # -- the job ---------------------------------------------------------------------------

    def _begin(self, now: float) -> None:
        with self._lock:
            if self._job is not None or self._stopped or now < self._retry_at:
                return
            job = self._job = CheckJob(self)
        try:
            self.network.spawn(job.run)
        except RuntimeError as error:  # the call that is made meanwhile has no part in it
            log.warning("no active checks of %s for now: %s", self.target, error)
            self.over(job, failed=True)

    def wanted(self, job: CheckJob, now: float) -> Sequence[Address] | None:
        """What `job` is to check; None if it is to end. For the job."""
        members, ended = self._members(), self._ended()
        if members is None or ended is None:
            self._stopped = True
        with self._lock:
            if self._job is not job:
                return None
            # First nothing, then the look: whoever calls meanwhile sees one or the other.
            self._job = None
            if self._stopped or now >= self.rests_at:
                return None
            self._job = job
        assert members is not None
        return members()

    def tell(self, address: Address, up: bool, why: str, now: float, evidence: Evidence) -> None:
        """What a check has shown. For the job."""
        ended = self._ended()
        if ended is not None and not self._stopped:
            ended(address, up, why, now, evidence)

    @property
    def rests_at(self) -> float:
        """When checks rest if nobody calls until then. For the job."""
        return self._used + IDLE

    def over(self, job: CheckJob, *, failed: bool) -> None:
        """`job` has ended. For the job; takes no lock, since it may end anywhere."""
        if failed:
            self._retry_at = self.network.now() + PAUSE
        if self._job is job:
            self._job = None

    def renew(self) -> None:
        """In the child of a fork: the thread is the parent's."""
        self._lock = Lock()
        self._job = None
        self._retry_at = -math.inf


def _weakly(call: F) -> Callable[[], F | None]:
    """A reference that does not keep a bound method's object alive; a plain function is kept."""
    if isinstance(call, MethodType):
        return cast("Callable[[], F | None]", weakref.WeakMethod(call))
    return lambda: call


_all: weakref.WeakSet[ActiveChecks] = weakref.WeakSet()


def _renew_all() -> None:
    for checks in list(_all):
        checks.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
