"""What all adapters share: which target a host and port is, its dial, and the watch over it.

The socket comes out of the one race and the one endpoint table that everybody uses
(`service.reach`), and is watched as long as it is open. What the library or its user set stands:
their options win over ours, their timeout bounds the connect, their errors are made by themselves
from the OSError raised here. TLS is the library's own business, so it verifies the name the user
wrote. Reads no environment: an adapter is code, and is told in code.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from outlast.core.health import Evidence, Standing
from outlast.core.liveness import Liveness
from outlast.core.report import Report, report_of
from outlast.core.roster import Endpoint, Roster
from outlast.net.address import Address, literal
from outlast.net.dial import DialError, DialRequest, Won
from outlast.net.handout import default_timeout, keep_report, plain_error
from outlast.net.kernel import kernel
from outlast.net.options import (
    Keepalive,
    SocketOption,
    SocketPlan,
    fitting_user_timeout,
    keepalive_options,
)
from outlast.net.run import run_async, run_sync
from outlast.net.seam import Stream
from outlast.net.sentry import watch
from outlast.net.tune import tune
from outlast.policy import Policy, current_override, seconds
from outlast.service.arguments import read_address, read_source
from outlast.service.handed import watch_by_policy
from outlast.service.reach import RTO_CAP, dial_request, reach
from outlast.service.table import Service, service_of
from outlast.shims.scope import parse_scope
from outlast.target import Target, target_of

if TYPE_CHECKING:
    import socket

__all__ = ["KEEPALIVE_ON", "Dialler", "carry_report", "peer_of"]

NOWHERE = "outlast.invalid:1"  # so that only what is mapped is in scope (RFC 6761, section 6.4)
SYSTEM_KEEPALIVE = Keepalive(7200, 75, 9)  # tcp(7): what stands where nobody said more than "on"
_ON = next(iter(keepalive_options(Keepalive())))
KEEPALIVE_ON = _ON.level, int(_ON.number or 0)  # what switches keepalive on


class Dialler:
    """Dials for one adapter. Thread- and task-safe.

    targets: "host:port" (or a pattern of them, as in `outlast.install`) to the target that stands
        behind it; what is not listed is the name's addresses.
    policy: connect_timeout, attempt_delay, open_attempts, keepalive, watch and user_timeout are
        used; `outlast.override` is merged over it.

    Raises ValueError naming what is wrong.
    """

    __slots__ = ("_network", "_policy", "_scope")

    def __init__(
        self,
        targets: Mapping[str, str | Target] | None = None,
        policy: Policy | None = None,
    ) -> None:
        _check(targets, policy)
        self._scope = parse_scope([NOWHERE], targets=targets)
        self._policy = Policy() if policy is None else policy
        self._network = kernel()

    @property
    def policy(self) -> Policy:
        """What holds now: the adapter's policy, and `outlast.override` over it."""
        fields = current_override()
        return self._policy.merged(fields) if fields else self._policy

    def now(self) -> float:
        """On the clock that connects are timed by, in seconds."""
        return self._network.now()

    def mapped(self, host: str, port: int) -> Target | None:
        """The target that stands behind a host and port; None where `targets` says nothing."""
        return self._scope.target_for(host, port)

    def target(self, host: str, port: int) -> Target:
        """Where the endpoints of a host and port come from."""
        return self.mapped(host, port) or target_of(host, port)

    # -- dialling ------------------------------------------------------------------------------

    def dial(
        self,
        host: str,
        port: int,
        *,
        limit: float | None = None,
        source: tuple[str, int] | None = None,
        options: Iterable[SocketOption] = (),
        nodelay: bool = True,
        target: Target | None = None,
        watched: bool = True,
    ) -> socket.socket:
        """A connected socket, non-blocking, watched by the policy.

        limit: seconds for the whole connect; None leaves it to the policy's connect_timeout.
        source: local (address, port) to bind.
        options: what setsockopt takes, set before connecting and never touched by us.
        nodelay: set TCP_NODELAY, unless `options` say otherwise.
        target: in place of the one behind the host and port.
        watched: False where another descriptor will be; see `adopt`.

        Raises TimeoutError at the limit, else the OSError kind of the most telling dial, with
        `.report`; ValueError for what is malformed.
        """
        policy = self.policy if watched else self.policy.merged({"watch": False})
        report = Report(self._network.now())
        plan = _plan(policy, source, tuple(options), nodelay=nodelay)
        request = self._request(target or (host, port), policy, limit, plan)
        outcome = run_sync(self._network, reach(self._network, request, report))
        return self._handed(outcome, policy, report)

    async def dial_async(
        self,
        host: str,
        port: int,
        *,
        limit: float | None = None,
        source: tuple[str, int] | None = None,
        options: Iterable[SocketOption] = (),
        nodelay: bool = True,
        target: Target | None = None,
        watched: bool = True,
    ) -> socket.socket:
        """See `dial`. A cancellation ends every dial at once."""
        policy = self.policy if watched else self.policy.merged({"watch": False})
        report = Report(self._network.now())
        plan = _plan(policy, source, tuple(options), nodelay=nodelay)
        request = self._request(target or (host, port), policy, limit, plan)
        outcome = await run_async(self._network, reach(self._network, request, report))
        return self._handed(outcome, policy, report)

    def create_connection(
        self, address: Any, timeout: Any = None, source_address: Any = None, **more: Any
    ) -> socket.socket:
        """What stands in for `socket.create_connection` in a library that has a place for it.

        A `timeout` that is neither None nor a number is the library's word for "not given".
        """
        host, port = read_address(address)
        given = timeout is None or isinstance(timeout, (int, float))
        limit = timeout if given else default_timeout()
        source = read_source(tuple(source_address) if source_address else None)
        sock = self.dial(host, port, limit=limit, source=source, **more)
        sock.settimeout(limit)
        return sock

    def _request(
        self,
        where: Target | tuple[str, int],
        policy: Policy,
        limit: float | None,
        plan: SocketPlan,
    ) -> DialRequest:
        if not isinstance(where, Target):
            host, port = read_address(where)
            bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
            where = self.target(bare, port)
        bound = None if limit is None else seconds(limit, "timeout")
        return dial_request(self._network, where, policy, limit=bound, plan=plan)

    def _handed(self, outcome: Won | DialError, policy: Policy, report: Report) -> socket.socket:
        if isinstance(outcome, DialError):
            raise plain_error(outcome, report)
        sock = _detached(outcome.stream)
        if sock.fileno() >= 0:
            policy = _with_keepalive_of(sock, policy)
        watch_by_policy(self._network, outcome.stream, sock, policy, report)
        keep_report(sock, report)
        return sock

    # -- connections that stand ----------------------------------------------------------------

    def adopt(self, sock: Any, *, keepalive: bool = True) -> bool:
        """Take a connection under watch that a library has opened, or took over by its number.

        keepalive: set the policy's, where the system's own stands or none.

        Whether it is watched now; what is closed, or no TCP socket, is not.
        """
        policy = self.policy
        try:
            held = tune(sock, keepalive=None, rto_max=None).keepalive
            if keepalive and policy.keepalive is not None and held in (None, SYSTEM_KEEPALIVE):
                held = tune(sock, keepalive=policy.keepalive).keepalive
            if not policy.watch or not policy.user_timeout or not self._network.tells:
                return False
            watch(sock, user_timeout=fitting_user_timeout(policy.user_timeout, held))
        except (OSError, ValueError, RuntimeError):
            return False
        return True

    def trusts(self, sock: Any, host: str, port: int) -> bool:
        """Whether an idle connection is good for another use: nothing speaks against its peer, and
        its endpoint is not known to be dead while the target has others. Never blocks."""
        policy = self.policy
        if not policy.watch or not self._network.tells:
            return True
        try:
            if watch(sock).verdict in (Liveness.SUSPECT, Liveness.DEAD):
                return False
        except (
            OSError,
            ValueError,
            RuntimeError,
        ):  # nothing to look at: it is the library's to say
            return True
        address = peer_of(sock)
        if address is None:
            return True
        return not _is_dead(self._service(host, port), address)

    def blame(self, address: Address, host: str, port: int) -> None:
        """A connection stood, and its peer hung up on what a library first said: the next dial to
        this target begins elsewhere."""
        self._service(host, port).refused(address, self.now())

    def _service(self, host: str, port: int) -> Service:
        return service_of(self.target(host, port), self._network)


_reached: weakref.WeakKeyDictionary[Any, Address] = weakref.WeakKeyDictionary()


def _detached(stream: Stream) -> socket.socket:
    sock = stream.detach()
    _reached[sock] = stream.address
    return sock


def _plan(
    policy: Policy,
    source: tuple[str, int] | None,
    options: tuple[SocketOption, ...],
    *,
    nodelay: bool,
) -> SocketPlan:
    return SocketPlan(
        keepalive=policy.keepalive,
        rto_max=RTO_CAP,
        nodelay=nodelay,
        extra=options,
        source=source,
    )


def _with_keepalive_of(sock: Any, policy: Policy) -> Policy:
    """The policy with what really stands: a user timeout must not undercut the caller's probes."""
    held = tune(sock, keepalive=None, rto_max=None).keepalive
    return policy if held == policy.keepalive else policy.merged({"keepalive": held})


def _check(targets: Any, policy: Any) -> None:
    if targets is not None and not isinstance(targets, Mapping):
        form = "{'db.svc:5432': 'static://10.0.0.1:5432,10.0.0.2:5432'}"
        raise ValueError(f"targets: {targets!r} maps nothing; write {form}")
    if policy is not None and not isinstance(policy, Policy):
        form = "Policy(connect_timeout=2.0)"
        raise ValueError(f"policy: {policy!r} is no outlast.Policy, such as {form}")


def peer_of(sock: Any) -> Address | None:
    """Where a connection leads; of what was dialled here also once it is reset."""
    try:
        return _reached[sock]
    except (KeyError, TypeError):  # not ours, or ours in the clothes of an event loop or of TLS
        pass
    try:
        host, port = sock.getpeername()[:2]
    except (AttributeError, OSError, ValueError):
        return None
    return literal(host, port)


def _is_dead(service: Service, address: Address) -> bool:
    """Whether the endpoint is out on evidence of death, and another one is not."""

    def at(roster: Roster[Address]) -> bool:
        found = roster.get(address)
        return found is not None and _out(found) and not all(map(_out, roster))

    return service.chooses and service.look(at)


def _out(endpoint: Endpoint[Address]) -> bool:
    health = endpoint.health
    return health.standing is not Standing.IN and health.evidence is Evidence.DEATH


def carry_report(error: BaseException) -> None:
    """Let a library's own error carry the report of the dial that it tells of."""
    seen: BaseException | None = error
    for _ in range(8):  # as deep as they are nested, and then some
        if seen is None:
            return
        report = report_of(seen) or report_of(getattr(seen, "reason", None))
        if report is not None:
            vars(error)["report"] = report
            return
        first = seen.args[0] if seen.args and isinstance(seen.args[0], BaseException) else None
        seen = first or seen.__cause__ or seen.__context__
