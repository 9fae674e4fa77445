"""One connect of the program's, from its call to its outcome.

The first dial is made on the program's own socket, so that nothing is replaced while all is well.
If it is silent for longer than the target's attempt delay, or fails, a race of further dials begins
beside it, and whichever stands first is the connection. A blocking call waits for that, and so does
a non-blocking one of a program that may be kept waiting (`patience`). Any other is answered
EINPROGRESS at once; if a further dial wins, the program's own socket is shut so that whoever polls
it wakes, and as the program asks for the outcome (SO_ERROR, or connect again) the winner is put in
its place: a descriptor can be replaced only while its owner waits in a call that is told of.

Decides nothing of the race (`core.race`) and nothing of which connects are ours (`supervisor`).
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import socket
from collections.abc import Callable

from outlast.core.report import Report
from outlast.net.address import Address
from outlast.net.dial import DialError, Won
from outlast.shims.run import calls
from outlast.shims.run.aim import Aimed, Place, Tools
from outlast.shims.run.notices import Notice
from outlast.shims.run.open_calls import OpenCalls
from outlast.shims.run.own_dial import (
    CLOSED,
    GONE,
    PENDING,
    REMOTE,
    begin_dial,
    disconnect,
    patience,
    state_of,
)
from outlast.shims.run.patience import LONGEST
from outlast.shims.run.processes import Task, cookie_of
from outlast.shims.run.racing import Aim, Loan, alike_plan, race
from outlast.shims.run.timers import Timers

__all__ = ["Connect"]

HELD = 1.0  # seconds that a question for the outcome may wait where the own dial has failed
KEPT = 60.0  # seconds that a winner waits for a program that does not ask
LOOK = 0.25  # seconds between two looks at a socket whose outcome nobody tells


class Connect:
    """See the module. `ended` is called once, when nothing is left to be done. One owner."""

    def __init__(
        self, tools: Tools, place: Place, aimed: Aimed, ended: Callable[[Connect], None]
    ) -> None:
        self.place = place
        self._tools = tools
        self._aimed = aimed
        self._ended: Callable[[Connect], None] | None = ended
        self._started = tools.world.now()
        self._report = Report(self._started)
        self._source: tuple[str, int] | None = None
        self._port = 0
        self._own: socket.socket | None = None  # as long as a blocking call waits on it
        self._calls = OpenCalls(tools.listener)
        self._told = True  # whether the first call has heard its answer
        self._good = 0  # what a connect that waits is told when all is well
        self._error = 0  # of the own dial
        self._race: asyncio.Task[None] | None = None
        self._raced = False
        self._loan = Loan(aimed.service.memory)
        self._winner: socket.socket | None = None
        self._timers = Timers(
            tools.loop, lambda error: self._over(f"left to the kernel: {error!r}")
        )

    # -- the program's calls ---------------------------------------------------------------

    def begin(self, notice: Notice, sock: socket.socket, *, patient: bool) -> None:
        """The first call. `sock`: the program's own; it is given back from here. `patient`: see
        `patience`."""
        blocking = not fcntl.fcntl(sock, fcntl.F_GETFL) & os.O_NONBLOCK
        dial = begin_dial(sock, self._aimed.raw, blocking=blocking)
        self._source, self._port = dial.source, dial.port
        self._good = 0 if blocking else errno.EINPROGRESS
        if dial.code == errno.EINPROGRESS:
            if self._aimed.raw is not None and not blocking and not patient:
                self._told = self._tools.listener.answer(notice, errno.EINPROGRESS)
                sock.close()
            else:
                self._wait_on(notice, self.place.task, sock)
            if self._ended is not None and not self._raced:
                self._timers.at("look", self._delay(), self._look)
            return
        self._tools.listener.answer(notice, dial.code)
        with sock:
            if dial.code:
                self._over(f"{os.strerror(dial.code)}, at once")
            elif state_of(sock) == CLOSED:
                self._over("left to TCP fast open, which connects with the first bytes")
            else:
                self._stands(sock)

    def ask(self, notice: Notice, task: Task, sock: socket.socket, *, connecting: bool) -> None:
        """A later call about the same socket; `connecting`: connect again, else SO_ERROR."""
        if connecting and self._winner is None and self._joins(notice, task, sock):
            return
        with sock:
            state = state_of(sock)
            if self._winner is not None:
                self._calls.asks(notice, task)
                self._replace(sock, self._winner)
            elif state == PENDING and not connecting:
                self._ask_early(notice, task, sock.dup())
            elif state == CLOSED and self._may_race():
                self._calls.asks(notice, task)
                self._timers.at("asking", HELD, self._stop_asking)
                self._begin_race(sock)
            else:
                if state not in (CLOSED, PENDING):
                    self._stands(sock)
                self._tools.listener.let(notice)

    def _joins(self, notice: Notice, task: Task, sock: socket.socket) -> bool:
        """A connect again: whether it waits like the first, or is the first, which a signal has
        cut short before it heard its answer, and which the kernel repeats."""
        blocking = not fcntl.fcntl(sock, fcntl.F_GETFL) & os.O_NONBLOCK
        if blocking or (self._good and self._own is not None):
            self._good = 0 if blocking else errno.EINPROGRESS
            self._wait_on(notice, task, sock)
            return True
        if not self._told and state_of(sock) == PENDING:
            self._told = self._tools.listener.answer(notice, errno.EINPROGRESS)
            sock.close()
            return True
        return False

    def _ask_early(self, notice: Notice, task: Task, sock: socket.socket) -> None:
        """A question before there is an answer. Who asks so takes 0 for success and never asks
        again, as psycopg does: it waits for the outcome, as others do in poll(2)."""
        self._calls.asks(notice, task)
        self._timers.at("asking", HELD, self._stop_asking)
        if self._own is None:
            self._own = sock
            self._tools.loop.add_writer(sock.fileno(), self._timers.carefully, self._writable)
        else:
            sock.close()

    def _stop_asking(self) -> None:
        self._calls.let_questions()
        if not self._calls.connecting:
            self._let_go()

    def cancel(self) -> None:
        """The supervision ends: the kernel is left with all."""
        self._over("")

    def _wait_on(self, notice: Notice, task: Task, sock: socket.socket) -> None:
        self._calls.connects(notice, task)
        if self._own is not None:
            sock.close()
            return
        self._own = sock
        if self._aimed.raw is None:
            self._begin_race(sock)
            return
        limit = LONGEST if self._good else patience(sock)
        if limit:
            self._timers.at("limit", limit, self._out_of_time)
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        if poll.poll(0):  # to loopback, and to whatever answers within microseconds
            self._writable()
        else:
            self._tools.loop.add_writer(sock.fileno(), self._timers.carefully, self._writable)

    # -- the own dial ----------------------------------------------------------------------

    def _delay(self) -> float:
        """Seconds until further dials join."""
        now, memory = self._tools.world.now(), self._aimed.service.memory
        address = self._aimed.address
        if address is None or memory.leads_nowhere(address, self._port, now):
            return 0.0
        own = self._tools.policy.attempt_delay
        return memory.figures()[0] if own is None else own

    def _writable(self) -> None:
        """The own dial has ended, well or not."""
        own = self._own
        assert own is not None
        self._tools.loop.remove_writer(own.fileno())
        if state_of(own) != CLOSED:
            self._stands(own)
            return
        if self._calls.connecting:  # else the error is for the program to read
            self._error = own.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if self._may_race() and (not self._error or self._error in REMOTE):
            self._begin_race(own)
        elif self._calls.connecting:
            self._fail(self._error or errno.ECONNREFUSED)
        else:
            self._over("failed")

    def _look(self) -> None:
        """How is the own dial? The program's socket is borrowed for that, if no call waits."""
        self._calls.prune()
        if not self._calls.connecting and not self._calls.asking:  # a signal has ended the call
            self._let_go()
        sock = self._borrowed()
        if sock is None:
            self._over("closed by the program before it was connected")
            return
        try:
            state = state_of(sock)
            if state not in (CLOSED, PENDING):
                self._stands(sock)
            elif self._may_race():
                self._begin_race(sock)
            elif self._is_up(state):
                self._over("not connected: left to the kernel")
        finally:
            if sock is not self._own:
                sock.close()
        if self._ended is not None:
            self._timers.at("look", LOOK, self._look)

    def _borrowed(self) -> socket.socket | None:
        """The program's socket; None if it is not there any more."""
        if self._own is not None:
            return self._own
        try:
            sock = self.place.task.borrow(self.place.number)
        except OSError:
            return None
        if cookie_of(sock) == self.place.cookie:
            return sock
        sock.close()
        return None

    def _let_go(self) -> None:
        if self._own is not None:
            self._tools.loop.remove_writer(self._own.fileno())
            self._own.close()
            self._own = None

    def _out_of_time(self) -> None:
        """The call ends as it does in the kernel after SO_SNDTIMEO; the dial goes on."""
        self._calls.answer(errno.EINPROGRESS)
        self._let_go()

    # -- further dials ---------------------------------------------------------------------

    def _may_race(self) -> bool:
        """Whether further dials are under way, or may begin."""
        return self._race is not None or not self._raced

    def _begin_race(self, sock: socket.socket) -> None:
        if self._raced:
            return
        self._raced = True
        why = self._tools.likeness.apart(self.place.task, sock)
        left = self._started + self._tools.policy.connect_timeout - self._tools.world.now()
        if why or left <= 0:
            self._report.note(why)
            self._lost(None)
            return
        plan = alike_plan(sock, self._source)
        aim = Aim(self._aimed.target, self._tools.policy, left, sock.family, plan)
        self._race = self._tools.loop.create_task(self._run(aim))

    async def _run(self, aim: Aim) -> None:
        outcome: Won | DialError | Exception
        try:
            outcome = await race(self._tools.world, aim, self._loan, self._report)
        except Exception as error:  # noqa: BLE001  raised again, where it is taken care of
            outcome = error
        self._race = None
        self._timers.carefully(lambda: self._raced_to(outcome))

    def _raced_to(self, outcome: Won | DialError | Exception) -> None:
        if isinstance(outcome, Won):
            self._won(outcome.stream.detach(), outcome.stream.address)
        elif isinstance(outcome, DialError):
            self._lost(outcome)
        else:
            raise outcome

    def _won(self, new: socket.socket, address: Address) -> None:
        sock = self._borrowed()
        state = GONE if sock is None else state_of(sock)
        if sock is not None and state not in (CLOSED, PENDING):
            new.close()
            self._stands(sock)
        elif sock is None:
            new.close()
            self._over("closed by the program before it was connected")
        else:
            error = self._error or (errno.EHOSTUNREACH if state == CLOSED else 0)
            now = self._tools.world.now()
            self._aimed.blame(sock.family, address, self._port, error, now)
            self._winner = new
            if self._calls.connecting or self._calls.asking:
                self._replace(sock, new)
            if self._ended is not None:  # nobody waits: whoever polls is to ask
                self._timers.at("kept", KEPT, lambda: self._over("the program did not ask for it"))
                if state == PENDING:
                    sock.shutdown(socket.SHUT_RDWR)
        if sock is not None and sock is not self._own:
            sock.close()

    def _lost(self, error: DialError | None) -> None:
        """No further dial stands."""
        asked = self._calls.asking
        self._calls.let_questions()
        if error is not None:
            self._report.note(f"no other dial was answered: {error}")
        if not self._calls.connecting:
            if asked:
                self._over(f"failed after {self._milliseconds()}")
            return
        code = 0 if error is None else error.errno or 0
        if self._error or self._aimed.raw is None:
            self._fail(code or self._error or errno.ETIMEDOUT)
        elif code in REMOTE:
            self._fail(code)

    def _is_up(self, state: int) -> bool:
        """Whether nothing more can be done for a connect that no call waits for."""
        if self._calls.connecting or self._winner is not None:
            return False
        late = self._tools.world.now() - self._started > self._tools.policy.connect_timeout
        return state == CLOSED or late

    # -- endings ---------------------------------------------------------------------------

    def _replace(self, old: socket.socket, new: socket.socket) -> None:
        """Put the winner in the place of the program's own, and let the program go on."""
        for notice, task in self._calls:
            number = notice.arguments[0] & 0xFFFFFFFF
            try:
                placed = self._tools.placer.place(notice, task, number, self.place.inode, new)
            except OSError as error:
                self._over(f"another dial has won, and cannot take its place: {error}")
                return
            if placed is None:  # it waits no longer
                continue
            self._let_go()
            old.close()  # an epoll that knows it would tell of its end
            self._conclude(new)
            self._tools.watching.add(task, number, cookie_of(new), self._aimed.words)
            self._over(f"connected in {self._milliseconds()} by another dial, {placed}")
            return

    def _stands(self, sock: socket.socket) -> None:
        """The own dial has won."""
        now, place = self._tools.world.now(), self.place
        self._aimed.learn(sock, now, self._started)
        self._loan.give_back(now)
        self._conclude(sock)
        self._tools.watching.add(place.task, place.number, place.cookie, self._aimed.words)
        self._over(f"connected in {self._milliseconds()}, on its own socket")

    def _conclude(self, sock: socket.socket) -> None:
        """Tell the connects that wait that all is well. After a blocking one the kernel is to
        think so too: that takes a connect of its own, which one that a signal has cut short makes
        by itself."""
        if self._calls.connecting and self._calls.answer(self._good) and not self._good:
            calls.connect(sock.fileno(), self._aimed.raw or calls.any_address(sock.family))

    def _fail(self, code: int) -> None:
        """Every dial has failed: the program's socket is as after a failed connect."""
        if self._own is not None:
            disconnect(self._own)
        self._calls.answer(code)
        self._over(f"{os.strerror(code)} after {self._milliseconds()}")

    def _over(self, what: str) -> None:
        """Nothing is left to be done. What still waits is the kernel's."""
        ended, self._ended = self._ended, None
        if ended is None:
            return
        self._timers.stop()
        if self._race is not None:
            self._race.cancel()
        self._calls.let()
        self._let_go()
        if self._winner is not None:
            self._winner.close()
        ended(self)
        if what:
            self._aimed.explain(self._tools.explainer, self.place, what, self._report)

    # -- time ------------------------------------------------------------------------------

    def _milliseconds(self) -> str:
        return f"{(self._tools.world.now() - self._started) * 1e3:.1f} ms"
