"""Carries a race out: looks the name up, dials, shakes hands, and returns the winner.

The decisions are `core.race`'s; here are only streams and strands. Whatever the race gives up is
closed where it stands: reset if nobody ever answered it, in good order otherwise.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from outlast.core.classify import ConnectFault
from outlast.core.latency import later_delay
from outlast.core.race import Abandon, Lost, Pause, Race, RacePlan, Resolve, Start, interleave
from outlast.core.report import Report
from outlast.net.address import Address
from outlast.net.dial import (
    DialError,
    DialRequest,
    Stands,
    Won,
    errno_of,
)
from outlast.net.dial_attempt import Dial
from outlast.net.dial_faults import REACHED, blames, fault_of, in_words
from outlast.net.dial_news import DialEnded, LookupEnded, TellingBucket
from outlast.net.run import Strands
from outlast.net.seam import WAKE, WRITE, Network, Stream, Wait

__all__ = ["dial"]

HELD_UP = 0.01  # seconds; half of the shortest delay between dials (DESIGN section 6)


async def dial(network: Network, request: DialRequest, report: Report) -> Won:
    """Run one race to its end. Raises DialError."""
    driver = _Driver(network, request, report)
    try:
        return await driver.run()
    finally:
        driver.strands.close()


class _Driver:
    """One race under way: obeys the machine, runs an attempt per dial as a strand."""

    def __init__(self, network: Network, request: DialRequest, report: Report) -> None:
        self.network = network
        self.request = request
        self.report = report
        self.strands: Strands[int | str, Stream | Sequence[Address]] = Strands(network)
        self.attempts: dict[int, Dial] = {}
        self.error: BaseException | None = None
        self.begun = self.asked = network.now()  # asked: when the last look-up began
        self.addresses: list[Address] = []
        self.race: Race[Address] = self._race()

    def _race(self) -> Race[Address]:
        request = self.request
        delay, patience = request.memory.figures()
        own = request.attempt_delay  # the caller's own delay holds throughout
        plan = RacePlan(
            delay=delay if own is None else own,
            later_delay=later_delay(delay) if own is None else None,
            patience=patience,
            deadline=request.deadline,
            max_open=request.max_open,
            lookups=request.name is not None,
            known=request.memory.known,
            lately=request.memory.lately(self.begun),
        )
        self.addresses = list(request.addresses)
        memory, told = request.memory, request.told
        bucket = memory if told is None else TellingBucket(memory, told)
        spare = () if request.name is None else self._arranged(memory.last_answer(self.begun))
        return Race(plan, bucket, self.addresses, memory.refused_lately, spare)

    async def run(self) -> Won:
        """Step the machine until somebody wins."""
        while True:
            now = self.network.now()
            step = self.race.step(now)
            if isinstance(step, Pause):
                won = await self._pause(step.until)
            elif isinstance(step, Start):
                self._start(step)
                won = await self._look(now)
            elif isinstance(step, Abandon):
                self._abandon(step)
                continue
            elif isinstance(step, Resolve):
                self.strands.start("lookup", self._lookup())
                continue
            else:
                raise self._lost(step)
            if won is not None:
                return won

    async def _look(self, due: float) -> Won | None:
        """A dial that was due just now has its time even if this process was held up meanwhile,
        before it could dial: what has gone by is no evidence (DESIGN section 7)."""
        now, plan = self.network.now(), self.race.plan
        if now - due < HELD_UP:
            return None
        return await self._pause(min(now + plan.delay, max(now, plan.deadline)))

    # -- strands ---------------------------------------------------------------------------

    def _start(self, step: Start[Address]) -> None:
        if step.address not in self.addresses:
            self.addresses.append(step.address)
            why = "no answer: an address of the one before is dialled"
            self.report.add(self.network.now(), "lookup", why, address=str(step.address))
        self.attempts[step.dial] = Dial(step.address, self.network.now())
        self.strands.start(step.dial, self._attempt(step.dial))

    async def _attempt(self, number: int) -> Stream:
        """Dial, wait, finish. Closed where it stands if the race gives it up."""
        attempt = self.attempts[number]
        stream = self.network.dial(attempt.address, self.request.plan)
        attempt.stream = stream
        usable = False
        try:
            if self._leads_nowhere(attempt, stream) and self.race.passed_over(number):
                raise _PassedOver
            await Wait(((stream, WRITE),))
            stream.connected()
            attempt.connected = self.network.now()
            self.request.memory.answered(attempt.address, attempt.connected)
            if self.request.finish is not None:
                self.race.connected(number, attempt.connected)
                stream = await self.request.finish(stream)
            usable = True
            return stream
        except OSError:
            attempt.cut = not attempt.linked()  # to be asked before the socket is gone
            raise
        finally:
            if not usable:
                self._discard(stream, answered=attempt.connected is not None)

    def _leads_nowhere(self, attempt: Dial, stream: Stream) -> bool:
        """Whether the kernel has given it a port that met a dead backend before."""
        memory, fixed = self.request.memory, self.request.plan.source
        if fixed is not None and fixed[1]:  # the caller's own port: there is no other
            return False
        return memory.leads_nowhere(attempt.address, stream.local_port, attempt.started)

    @staticmethod
    def _discard(stream: Stream, *, answered: bool) -> None:
        """Only what was never answered is aborted (DESIGN section 6)."""
        if answered:
            stream.close()
        else:
            stream.abort()

    async def _lookup(self) -> Sequence[Address]:
        assert self.request.name is not None
        waiter = self.network.waiter()
        self.asked = self.network.now()
        lookup = self.network.lookup(*self.request.name, waiter)
        await Wait(((waiter, WAKE),))
        if lookup.error is not None:
            raise lookup.error
        return lookup.addresses or ()

    # -- what happened ---------------------------------------------------------------------

    async def _pause(self, until: float) -> Won | None:
        ended = await self.strands.next(until)
        if ended is None:
            return None
        key, outcome = ended
        if isinstance(key, str):
            self._looked_up(outcome)
            return None
        if isinstance(outcome, BaseException):
            self._failed(key, outcome)
            return None
        assert not isinstance(outcome, Sequence)
        return await self._won(key, outcome)

    def _looked_up(self, outcome: Stream | Sequence[Address] | BaseException) -> None:
        now = self.network.now()
        name = self.request.name
        assert name is not None
        where = f"{name[0]}:{name[1]}"
        if isinstance(outcome, Sequence):
            if self.request.watcher is not None:
                self.request.watcher.resolved(outcome, now)
            found = interleave(self._arranged(outcome), lambda address: address.family)
            self.addresses.extend(a for a in found if a not in self.addresses)
            self.request.memory.found(found, now)
            text = ", ".join(map(str, found)) or "no address"
            self.report.add(now, "lookup", text, address=where)
            self._tell_lookup(name[0], now, outcome, "" if found else text)
            self.race.resolved(found, now)
        elif isinstance(outcome, OSError):
            self.error = outcome
            passing = isinstance(outcome, socket.gaierror) and outcome.errno == socket.EAI_AGAIN
            text = str(outcome.strerror or outcome)
            self.report.add(now, "lookup", text, address=where)
            self._tell_lookup(name[0], now, (), text)
            self.race.lookup_failed(now, passing=passing)
        else:
            raise TypeError(f"look-up of {where} gave {outcome!r}")

    def _arranged(self, addresses: Sequence[Address]) -> Sequence[Address]:
        watcher = self.request.watcher
        if watcher is None or len(addresses) < 2:
            return addresses
        return watcher.arrange(addresses, self.network.now())

    def _failed(self, number: int, error: BaseException) -> None:
        attempt = self.attempts[number]
        if isinstance(error, _PassedOver):
            self._record(attempt, "connect", "passed over: this local port led nowhere before")
            self._remember(attempt)
            return
        phase = "connect" if attempt.connected is None else "handshake"
        self._record(attempt, phase, in_words(error), errno_of(error))
        self._tell(attempt, in_words(error), errno_of(error))
        if not isinstance(error, OSError):
            raise error
        fault = fault_of(error)
        watcher, now = self.request.watcher, self.network.now()
        blamed = blames(error, linked=not attempt.cut)
        if watcher is not None and blamed:
            (watcher.refused if fault in REACHED else watcher.failed)(attempt.address, now)
        if self.error is None or fault is not ConnectFault.SILENT:
            self.error = error
        if phase == "connect" and fault is not ConnectFault.SILENT and blamed:
            self.request.memory.refused(attempt.address, now)
        self.race.failed(number, fault)

    def _abandon(self, step: Abandon) -> None:
        attempt = self.attempts[step.dial]
        self._silent(attempt)  # its socket is asked whether our own link is up: it must be open
        self._given_up(attempt)
        self.strands.cancel(step.dial)
        phase = "connect" if attempt.connected is None else "handshake"
        self._record(attempt, phase, step.why, None)
        self._tell(attempt, step.why)

    async def _won(self, number: int, stream: Stream) -> Won:
        now = self.network.now()
        self.race.won(number, now)
        attempt = self.attempts[number]
        won = Won(stream, *self._learn(attempt, now), dials=len(self.attempts))
        took = (now - attempt.started) * 1e3
        self._record(attempt, "connect", f"connected in {took:.1f} ms")
        for note in stream.notes:
            self.report.note(note)
        try:
            await self._collect(won)
        except BaseException:
            for stands in (won, *won.spare):
                stands.stream.close()
            raise
        return won

    async def _collect(self, won: Won) -> None:
        """Losers that have become usable at this very moment; the others are given up."""
        self.strands.cancel("lookup")
        while len(self.strands):
            ended = await self.strands.next(self.network.now())
            if ended is None:
                break
            number, outcome = ended
            if not isinstance(outcome, (BaseException, Sequence)) and isinstance(number, int):
                spare = self.attempts[number]
                won.spare.append(Stands(outcome, *self._times(spare, self.network.now())))
                self._record(self.attempts[number], "connect", "connected too, after the winner")
        for number, attempt in self.attempts.items():
            if number in self.strands:
                self._record(attempt, "connect", "lost the race")
                self._given_up(attempt)
                if self._late(attempt):
                    self._tell(attempt, "no answer, and another dial has won")
                if attempt.address != won.stream.address:
                    self._silent(attempt)
        if self.request.watcher is not None:
            self.request.watcher.connected(won.stream.address, self.network.now())

    def _given_up(self, attempt: Dial) -> None:
        """A dial is open no more. Its port tells something if an answer had the time to come."""
        plan, waited = self.race.plan, self.network.now() - attempt.started
        if attempt.connected is None and waited >= (plan.later_delay or plan.delay):
            if attempt.linked():
                self._remember(attempt)

    def _remember(self, attempt: Dial) -> None:
        if attempt.stream is not None and attempt.stream.local_port:
            port = attempt.stream.local_port
            self.request.memory.silent(attempt.address, port, self.network.now())

    def _silent(self, attempt: Dial) -> None:
        """Evidence only if the dial had the time in which others answer (peers, trap 17)."""
        if self.request.watcher is not None and self._late(attempt) and attempt.linked():
            self.request.watcher.silent(attempt.address, self.network.now())

    def _late(self, attempt: Dial) -> bool:
        """Whether a dial is unanswered though others would have been answered by now."""
        waited = self.network.now() - attempt.started
        return attempt.connected is None and waited >= self.race.plan.delay

    def _learn(self, attempt: Dial, now: float) -> tuple[float, float | None]:
        """The winner's own times, never the race's."""
        times = self._times(attempt, now)
        self.request.memory.learn(*times)
        return times

    def _times(self, attempt: Dial, now: float) -> tuple[float, float | None]:
        """Seconds from SYN to established, and of the handshake if there was one."""
        assert attempt.connected is not None
        assert attempt.stream is not None
        state = attempt.stream.state()
        measured = attempt.connected - attempt.started
        rtt = measured if state is None or not state.rtt else min(state.rtt, measured)
        return rtt, None if self.request.finish is None else now - attempt.connected

    def _record(self, attempt: Dial, phase: str, what: str, code: int | None = None) -> None:
        self.report.add(
            self.network.now(),
            phase,
            what,
            address=str(attempt.address),
            local_port=0 if attempt.stream is None else attempt.stream.local_port,
            errno=code,
        )

    def _tell(self, attempt: Dial, why: str, code: int | None = None) -> None:
        """A dial has failed, or was given up."""
        if self.request.told is None:
            return
        now, port = self.network.now(), 0 if attempt.stream is None else attempt.stream.local_port
        phase = "connect" if attempt.connected is None else "handshake"
        took = now - attempt.started
        self.request.told(DialEnded(now, attempt.address, phase, why, took, code, port))

    def _tell_lookup(self, name: str, now: float, found: Sequence[Address], error: str) -> None:
        if self.request.told is not None:
            self.request.told(LookupEnded(now, name, now - self.asked, tuple(found), error))

    def _lost(self, lost: Lost) -> DialError:
        now = self.network.now()
        request = self.request
        target = ", ".join(map(str, self.addresses)) or "no address"
        if request.name is not None:
            target = f"{request.name[0]}:{request.name[1]} ({target})"
        spent = now - self.begun
        dials = len(self.attempts)
        why = self._why(lost) + self._left_out(lost)
        limit = "connect timed out" if lost.timed_out else "connect failed"
        return DialError(
            f"{limit} after {spent:.2f} s and {dials} dial{'s' * (dials != 1)} to {target}: {why}; "
            "nothing was sent",
            timed_out=lost.timed_out,
            cause=self.error,
            phase=self._phase(),
        )

    def _left_out(self, lost: Lost) -> str:
        """Addresses that were not worth a dial, in words."""
        tried = {attempt.address for attempt in self.attempts.values()}
        left = len(set(self.addresses) - tried)
        if lost.timed_out or not tried or not left:
            return ""
        return f"; {left} more had just refused other calls and were not dialled again"

    def _phase(self) -> str:
        """How far the race came."""
        if not self.attempts:
            return "connect" if self.request.name is None else "lookup"
        shaken = any(attempt.connected is not None for attempt in self.attempts.values())
        return "handshake" if shaken else "connect"

    def _why(self, lost: Lost) -> str:
        """The most telling error, in words, or what was waited for in vain."""
        if not lost.timed_out or self.error is not None:
            return in_words(self.error)
        name = self.request.name
        if name is not None and not self.attempts and "lookup" in self.strands:
            return f"the look-up of {name[0]} has not been answered"
        if any(attempt.connected is not None for attempt in self.attempts.values()):
            return "connected, but the handshake did not end"
        return "no answer"


class _PassedOver(Exception):
    """A dial came from a local port that leads nowhere: no error, the race goes on at once."""
