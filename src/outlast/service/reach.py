"""Reach a target: the race over its endpoints, within the one table of what is known of them.

`create_connection`, `connect_tcp` and every shim come through here, so that all of them dial alike,
learn from each other and are counted together. Decides nothing: the order is the service's, the
race is `core.race`'s. Refuses to raise its error: whoever asked turns it into their caller's kind.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from outlast.core.report import Report
from outlast.net.dial import DialError, DialRequest, Won
from outlast.net.options import SocketPlan
from outlast.net.race_driver import dial
from outlast.net.seam import Network, Stream
from outlast.policy import Policy
from outlast.service.announce import dial_teller
from outlast.service.dialling import Dialling
from outlast.service.table import service_of
from outlast.target import Target

__all__ = ["RTO_CAP", "dial_request", "handed_plan", "reach"]

RTO_CAP = 2.0  # seconds; DESIGN section 6, for sockets without a watcher


def handed_plan(policy: Policy, source: tuple[str, int] | None = None) -> SocketPlan:
    """The options of a socket that is handed out: no user timeout, which needs a watcher."""
    return SocketPlan(keepalive=policy.keepalive, rto_max=RTO_CAP, source=source)


def dial_request(
    world: Network,
    target: Target,
    policy: Policy,
    *,
    limit: float | None = None,
    source: tuple[str, int] | None = None,
    plan: SocketPlan | None = None,
    finish: Callable[[Stream], Coroutine[Any, Any, Stream]] | None = None,
) -> DialRequest:
    """What to dial to reach `target`, from now on.

    limit: seconds for the whole connect; None leaves it to `policy.connect_timeout`.
    source: a local (host, port) to bind; not with a `plan`, which has its own.
    plan: the socket's options; None for those of a socket that is handed out.
    finish: see `DialRequest`.
    """
    service = service_of(target, world)
    now = world.now()
    dialling = Dialling(service)
    return DialRequest(
        memory=service.memory,
        deadline=now + (policy.connect_timeout if limit is None else limit),
        plan=handed_plan(policy, source) if plan is None else plan,
        name=service.target.name,
        addresses=dialling.order(now) if service.target.name is None else (),
        finish=finish,
        max_open=policy.open_attempts,
        attempt_delay=policy.attempt_delay,
        watcher=dialling,
        told=dial_teller(service.target.text),
    )


async def reach(world: Network, request: DialRequest, report: Report) -> Won | DialError:
    """Run the race to its end. Losers that got established are closed. A cancellation ends every
    dial at once."""
    try:
        won = await dial(world, request, report)
    except DialError as error:
        return error
    finally:
        if isinstance(request.watcher, Dialling):
            request.watcher.over(world.now())
    for spare in won.spare:
        spare.stream.close()
    return won
