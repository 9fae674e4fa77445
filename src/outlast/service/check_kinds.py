"""What an active check may be: a connect, a call of the user's, and what every kind has to offer.

A kind is a frozen value with the figures of its schedule and one coroutine, `probe`, which checks
one endpoint once. It awaits only `Wait`, raises OSError for what speaks against the endpoint and
LocalRefusal for what speaks against this machine; time-outs, rise and fall are the caller's, see
`service.checks`. The check by HTTP is `http.check_http`, where HTTP is spoken.

Source: HAProxy 3.0 configuration manual, `inter`, `fastinter`, `rise`, `fall`, `port`, `check`.
Refuses coroutine functions: a check must not depend on an event loop that may be gone or stuck.
"""

from __future__ import annotations

import errno
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from outlast.core.check import CheckPlan
from outlast.core.classify import ConnectFault, connect_fault
from outlast.core.health_plan import Evidence
from outlast.net.address import Address
from outlast.net.errand import Errand, start_errand
from outlast.net.options import LocalRefusal, SocketPlan
from outlast.net.seam import WRITE, Network, Stream, Wait
from outlast.policy import seconds

if TYPE_CHECKING:
    import ssl

__all__ = [
    "CallCheck",
    "CheckKind",
    "CheckSchedule",
    "CheckWay",
    "Outcome",
    "Subject",
    "TcpCheck",
    "connect",
    "read_check",
    "read_port",
]

MOST_CHECKED = 256  # endpoints at once: each takes a descriptor, of which a process may have 1,024
MOST_CALLED = 16  # the same of calls of the user's, so that other targets find a thread too
MOST_IN_A_ROW = 100  # more checks than that before a change are a mistake
LONGEST = 86_400.0  # seconds, a day; a check that is rarer says nothing of now
SHORTEST = 0.01  # seconds; more than a hundred checks a second would be an attack


class Outcome(NamedTuple):
    """How one check ended. `ok` None: it tells nothing of the endpoint. `why`: in words.

    `evidence`: what was met. Of a check that passed, DEATH says that nothing was asked but whether
    somebody is there. Of one that failed, ANSWERS says that somebody is, and not as it should be.
    """

    ok: bool | None
    why: str
    evidence: Evidence = Evidence.DEATH


@dataclass(frozen=True, slots=True)
class CheckWay:
    """What a check has to know of the way in which a target's users reach it.

    host: the name that the user wrote; TLS verifies it, whatever address is checked. "" is the
        endpoint's own address.
    authority: what an HTTP request says in Host; "" is `host`, or the endpoint's own address.
    trust: makes or fetches the client's TLS context; None where its users speak no TLS. Called
        before each check that speaks TLS, so it should remember.
    plan: the caller's own socket options and source address.
    """

    host: str = ""
    authority: str = ""
    trust: Callable[[], ssl.SSLContext] | None = None
    plan: SocketPlan = field(default_factory=SocketPlan)


@dataclass(slots=True, eq=False)
class Subject:
    """One endpoint under check, the same object for all its checks.

    stage: what the check is waiting for, in words, kept up to date by `probe`.
    stream: the check's connection, while there is one.
    connected: whether it stands. What the peer does to it then is an answer of a kind.
    errand: the last blocking call, which may not be back yet.
    """

    network: Network
    way: CheckWay
    address: Address
    stage: str = ""
    stream: Stream | None = None
    connected: bool = False
    errand: Errand[object] | None = None


class CheckKind(Protocol):
    """A kind of active check."""

    @property
    def at_once(self) -> int:
        """How many endpoints of a target may be checked at the same time."""

    @property
    def plan(self) -> CheckPlan:
        """How often, for how long, and how many of a kind make a change."""

    async def probe(self, subject: Subject) -> Outcome:
        """Check one endpoint once. Raises OSError. May be closed wherever it waits, at its
        time-out: then the connection ends with a reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSchedule:
    """The figures that every kind has; durations in seconds, or "2s", "500ms".

    interval: from the begin of one check to the next, while nothing is wrong.
    fast_interval: the same in trouble: while a change is in the making, and while it is down.
    timeout: of one check, from begin to end.
    rise: checks in a row that have to pass before a down endpoint is up; at first, one is enough.
    fall: checks in a row that have to fail before an endpoint is down.
    """

    interval: float = 2.0  # HAProxy: inter
    fast_interval: float = 0.5
    timeout: float = 1.0
    rise: int = 2  # HAProxy
    fall: int = 3  # HAProxy

    def __post_init__(self) -> None:
        for name in ("interval", "fast_interval", "timeout"):
            object.__setattr__(self, name, self._duration(name, getattr(self, name)))
        for name in ("rise", "fall"):
            self._count(name, getattr(self, name))
        if self.fast_interval > self.interval:
            raise ValueError(
                f"{self._title}: fast_interval {self.fast_interval:g} s is longer than interval "
                f"{self.interval:g} s; write interval=2, fast_interval=0.5"
            )

    @property
    def at_once(self) -> int:
        """See `CheckKind.at_once`."""
        return MOST_CHECKED

    @property
    def plan(self) -> CheckPlan:
        """See `CheckKind.plan`."""
        return CheckPlan(
            interval=self.interval,
            fast_interval=self.fast_interval,
            timeout=self.timeout,
            rise=self.rise,
            fall=self.fall,
        )

    @property
    def _title(self) -> str:
        return type(self).__name__

    def _duration(self, name: str, value: object) -> float:
        number = seconds(value, f"{self._title}: {name}")
        if not SHORTEST <= number <= LONGEST:
            raise ValueError(
                f"{self._title}: {name} {value!r} is not from 10 ms to a day; write 2.0 or '500ms'"
            )
        return number

    def _count(self, name: str, value: object) -> None:
        good = isinstance(value, int) and not isinstance(value, bool)
        if not good or not 1 <= value <= MOST_IN_A_ROW:  # type: ignore[operator]  # an int
            raise ValueError(
                f"{self._title}: {name} {value!r} is no number of checks from 1 to "
                f"{MOST_IN_A_ROW}; write {name}=3"
            )


def read_check(value: object, what: str) -> CheckKind | None:
    """The check that a user has written, or None for none; ValueError naming `what`."""
    if value is None:
        return None
    members = ("plan", "probe", "at_once")
    if isinstance(value, type) or not all(hasattr(value, member) for member in members):
        raise ValueError(
            f"{what}: {value!r} is no active check; write TcpCheck(), HttpCheck('/healthz'), "
            "CallCheck(function), or None"
        )
    return cast("CheckKind", value)


def read_port(title: str, port: object) -> None:
    """ValueError if `port` is neither None nor a port."""
    if port is None:
        return
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise ValueError(
            f"{title}: port {port!r} is not from 1 to 65535; write port=8081, or None for the "
            "endpoint's own"
        )


def _at(address: Address, port: int | None) -> Address:
    """The same host at the check's own port."""
    if port is None:
        return address
    sockaddr = address.sockaddr
    if isinstance(sockaddr, str):
        raise LocalRefusal(errno.EINVAL, f"{address} has no port, and the check asks for {port}")
    if len(sockaddr) == 2:
        return address._replace(sockaddr=(sockaddr[0], port))
    return address._replace(sockaddr=(sockaddr[0], port, *sockaddr[2:]))


async def connect(subject: Subject, port: int | None) -> Stream:
    """A connection to the endpoint, at its own port or another one. Raises OSError, LocalRefusal
    where the fault is this machine's."""
    given = subject.way.plan
    plan = SocketPlan(keepalive=None, extra=given.extra, source=given.source)
    subject.stage = "a connection"
    try:
        stream = subject.stream = subject.network.dial(_at(subject.address, port), plan)
    except OSError as error:  # at once: where there is no way, this machine has none
        raise _told(error, ours=connect_fault(error.errno) is not ConnectFault.REFUSED) from error
    try:
        await Wait(((stream, WRITE),))
        stream.connected()
        subject.connected = True
    except OSError as error:
        ours = connect_fault(error.errno) is ConnectFault.LOCAL or not stream.linked()
        stream.abort()
        raise _told(error, ours=ours) from error
    except BaseException:
        stream.abort()
        raise
    return stream


def _told(error: OSError, *, ours: bool) -> OSError:
    kind = LocalRefusal if ours else OSError
    return kind(error.errno, error.strerror or str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpCheck(CheckSchedule):
    """The endpoint accepts a connection, which is closed again at once: its kernel lives and
    something listens. No byte is sent, also where the target's users speak TLS.

    port: another port of the same host, such as that of a health check. None: the endpoint's own.

    See `CheckSchedule` for the other figures. Raises ValueError naming what is wrong.
    """

    port: int | None = None

    def __post_init__(self) -> None:
        CheckSchedule.__post_init__(self)
        read_port("TcpCheck", self.port)

    async def probe(self, subject: Subject) -> Outcome:
        """See `CheckKind.probe`."""
        stream = await connect(subject, self.port)
        stream.close()
        return Outcome(True, "connected")


@dataclass(frozen=True, slots=True)
class CallCheck(CheckSchedule):
    """A function of the caller's says whether an endpoint is well.

    call: a plain function that may block. It is given the endpoint's address (`.host`, `.port`,
        `str()` is host:port) and returns True or False; whatever it raises is a check that failed:
        an OSError says that nobody is there, all else that somebody is who is not well.
        Each call has a thread of its own, at most 32 in the process. One that is not back at the
        time-out has failed, and so have the checks of that endpoint until it is back.

    See `CheckSchedule` for the other figures. Raises ValueError naming what is wrong.
    """

    call: Callable[[Address], bool]

    def __post_init__(self) -> None:
        CheckSchedule.__post_init__(self)
        right = "write a plain function, such as lambda address: ping(address.host, address.port)"
        if not callable(self.call):
            raise ValueError(f"CallCheck: call {self.call!r} cannot be called; {right}")
        inner = getattr(self.call, "__call__", None)  # noqa: B004  an object's own method
        if inspect.iscoroutinefunction(self.call) or inspect.iscoroutinefunction(inner):
            raise ValueError(
                f"CallCheck: call {self.call!r} is a coroutine function, and there is no event "
                f"loop to run it in; {right}"
            )

    @property
    def at_once(self) -> int:
        """See `CheckKind.at_once`."""
        return MOST_CALLED

    async def probe(self, subject: Subject) -> Outcome:
        """See `CheckKind.probe`."""
        last = subject.errand
        if last is not None and not last.done:
            return Outcome(False, "an earlier call has not come back yet")
        subject.stage = "the call"
        address = subject.address
        errand = subject.errand = start_errand(subject.network, lambda: self.call(address))
        try:
            answer = await errand.result()
        except OSError as error:  # what connects and time-outs raise
            return Outcome(False, f"the call raised {type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001  the caller's own, and a verdict
            return Outcome(
                False, f"the call raised {type(error).__name__}: {error}", Evidence.ANSWERS
            )
        if not isinstance(answer, bool):
            return Outcome(None, f"the call returned {answer!r}, which is neither True nor False")
        return Outcome(answer, f"the call returned {answer}", Evidence.ANSWERS)
