"""One connect of a program: its own socket first, and a race only where that is silent or fails.

In the healthy case the kernel connects the program's socket as it would have without us, with
keepalive set before, and what it took is learnt: no race, no other thread, a few system calls.
Where no answer has come within the attempt delay, or an error of the network's, `core.race` decides
about further dials with the program's own as the first; if another wins, it is put behind the
program's descriptor. So number, object, options and time-out of the socket stay.

What is met goes to the one endpoint table. Options that the program has set are carried on to every
dial; a port that it has bound itself is no port to race from: that connect is the kernel's alone.
"""

from __future__ import annotations

import dataclasses
import logging
import struct
from typing import TYPE_CHECKING, Any

from outlast.core.report import Report
from outlast.net.adopt import AdoptedStream, adopting
from outlast.net.carry import bound_source, carried
from outlast.net.dial import DialError, DialRequest
from outlast.net.dial_faults import fault_of
from outlast.net.handout import keep_report, plain_error
from outlast.net.kernel import kernel
from outlast.net.newcomers import newcomers
from outlast.net.options import SocketPlan, fitting_user_timeout
from outlast.net.place import COOKIES, cookie_of, take_place
from outlast.net.seam import Stream
from outlast.net.tcpinfo import TCP_INFO
from outlast.net.under_way import conclude
from outlast.net.untouched import keep_alive
from outlast.policy import Policy, current_override
from outlast.service.reach import RTO_CAP, dial_request, reach
from outlast.shims.patch.courses import Course

if TYPE_CHECKING:
    import socket

__all__ = ["Connect", "begin", "watch_soon", "worth_a_race"]

log = logging.getLogger("outlast")

TCP = 6  # IPPROTO_TCP, wherever Python runs
WELL_KNOWN, ONE_IN = 32, 8  # connects that are all measured; then every eighth
_RTT = struct.Struct("=68xI")  # struct tcp_info up to rtt (linux-tcp facts 2.3)

now = kernel().now


def worth_a_race(error: OSError) -> bool:
    """Whether an error is the network's, so that another dial may do better."""
    code = error.errno
    return code is not None and code > 0 and fault_of(error).worth_another_port


class Connect:
    """A connect under way. `timeout`: the caller's own, in seconds; None if there is none. One
    owner; not thread-safe."""

    __slots__ = ("began", "course", "policy", "sock", "source", "timeout")

    def __init__(
        self,
        sock: socket.socket,
        course: Course,
        policy: Policy,
        timeout: float | None,
        source: tuple[str, int] | None,
    ) -> None:
        self.sock = sock
        self.course = course
        self.policy = policy
        self.timeout = timeout
        self.source = source
        self.began = now()

    @property
    def limit(self) -> float:
        """Seconds for all of it."""
        limit = self.policy.connect_timeout if self.timeout is None else self.timeout
        early = self.course.limit
        return limit if early is None else min(limit, early)

    @property
    def delay(self) -> float:
        """Seconds until a second dial joins."""
        own = self.policy.attempt_delay
        return self.course.delay if own is None else own

    @property
    def alone(self) -> bool:
        """Whether nobody may race: another dial could not have the program's own port."""
        return self.source is not None and self.source[1] != 0

    def connected(self) -> None:
        """The program's own socket stands: the common case."""
        self.learn()
        self.stands()

    def learn(self) -> None:
        """What its dial tells, which nobody has raced."""
        course, at = self.course, now()
        address = course.first
        assert address is not None
        memory = course.service.memory
        course.connects += 1
        if course.connects < WELL_KNOWN or not course.connects % ONE_IN:
            memory.learn(self._took(at), None)
            course.refresh()
        memory.won(0, at)
        memory.answered(address, at)
        course.service.connected(address, at)
        if course.answer is not None:
            course.answer.service.connected(address, at)

    def _took(self, at: float) -> float:
        """Seconds from SYN to established."""
        took = at - self.began
        if TCP_INFO is not None:
            raw = self.sock.getsockopt(TCP, TCP_INFO, _RTT.size)
            if len(raw) == _RTT.size:
                return min(_RTT.unpack(raw)[0] / 1e6 or took, took)
        return took

    def stands(self) -> None:
        """A connection stands on the program's descriptor: watch it soon."""
        if COOKIES:
            watch_soon(self.sock.fileno(), cookie_of(self.sock), self.policy)

    @property
    def destination(self) -> Any:
        """What to give to the C method."""
        first = self.course.first
        return None if first is None else first.sockaddr

    # -- the race --------------------------------------------------------------------------

    def request(self) -> DialRequest:
        """What to dial, from now on."""
        plan = SocketPlan(
            keepalive=None, nodelay=False, extra=carried(self.sock), source=self.source
        )
        left = self.began + self.limit - now()
        request = dial_request(kernel(), self.course.target, self.policy, limit=left, plan=plan)
        first, others = self.course.first, self.course.others
        if first is None:
            return request
        return dataclasses.replace(request, addresses=(first, *others))

    async def settle(self, error: OSError | None = None) -> None:
        """Race until something stands on the program's descriptor. Engine code.

        error: what its own dial has failed with. Raises what a plain connect would, with `.report`.
        """
        report = Report(self.began)
        winner = await self.race(report, self.request(), self.adopted(error))
        if winner is not None:
            take_place(winner.detach(), self.sock)
            conclude(self.sock, winner.address.sockaddr)
        elif self.course.first is not None:
            conclude(self.sock, self.course.first.sockaddr)
        keep_report(self.sock, report)
        self.stands()

    def adopted(self, error: OSError | None) -> AdoptedStream | None:
        """The program's own dial; None if it has made none."""
        first = self.course.first
        if first is None:
            return None
        return AdoptedStream(self.sock, first, self.began, error=error)

    async def race(
        self, report: Report, request: DialRequest, own: AdoptedStream | None
    ) -> Stream | None:
        """The stream that has won; None if it is the program's own. Raises as `settle`."""
        world = kernel() if own is None else adopting(kernel(), own)
        outcome = await reach(world, request, report)
        if isinstance(outcome, DialError):
            self._lost(outcome)
            raise self._plain(outcome, report)
        self.course.refresh()
        if self.course.answer is not None:
            self.course.answer.service.connected(outcome.stream.address, now())
        return None if outcome.stream is own else outcome.stream

    def _lost(self, error: DialError) -> None:
        """The name's own table learns of it too: the next answer has this address last."""
        answer, first = self.course.answer, self.course.first
        if answer is not None and first is not None:
            service = answer.service
            (service.silent if error.timed_out else service.failed)(first, now())

    def _plain(self, error: DialError, report: Report) -> BaseException:
        """As the socket module has it: a caller's own time-out has neither number nor address."""
        timeout = self.timeout
        if not error.timed_out or timeout is None or now() < self.began + timeout:
            return plain_error(error, report)
        told = TimeoutError("timed out")
        told.__cause__ = error
        vars(told)["report"] = report
        return told


def watch_soon(number: int, cookie: bytes, policy: Policy) -> None:
    """Have a socket watched, by the policy."""
    limit = 0.0  # none: it is not watched
    if policy.watch and policy.user_timeout:
        limit = fitting_user_timeout(policy.user_timeout, policy.keepalive)
    try:
        newcomers.add(number, cookie, limit, RTO_CAP)
    except RuntimeError as error:  # no thread to be had, as at the interpreter's end
        log.warning("a connection is not watched: %s", error)


def begin(sock: socket.socket, course: Course, policy: Policy, timeout: float | None) -> Connect:
    """A program is about to connect: have keepalive on, unless it has set some itself."""
    fields = current_override()
    if fields is not None:
        policy = policy.merged(fields)
    source = bound_source(sock)
    if policy.keepalive is not None:
        keep_alive(sock, policy.keepalive)
    return Connect(sock, course, policy, timeout, source)
