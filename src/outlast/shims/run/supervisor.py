"""Hears of the program's calls, and decides which of them are ours.

Everything that is odd, out of scope, or not like this process is left to the kernel, which then
does what it would have done without anybody listening. Calls are taken one by one and none is
waited for: what takes time is a `Connect` of its own on the one event loop.

Refuses to be a security boundary: between the look at the program's memory and a call that is left
to the kernel the program may write something else there. What the supervisor dials itself is what
it has looked at.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
import select
import socket
import struct

from outlast.net.kernel import kernel
from outlast.shims.run.aim import Place, Tools
from outlast.shims.run.alike import Likeness
from outlast.shims.run.connects import Connect
from outlast.shims.run.destinations import Destinations
from outlast.shims.run.explain import Explainer
from outlast.shims.run.machine import IO_URING_SETUP, LANDLOCK_RESTRICT_SELF, Machine
from outlast.shims.run.mender import Mender
from outlast.shims.run.notices import Listener, Notice
from outlast.shims.run.own_dial import CLOSED, state_of
from outlast.shims.run.patience import Patience
from outlast.shims.run.placing import Placer
from outlast.shims.run.processes import Processes, Task, cookie_of, process_of
from outlast.shims.run.sockaddr import Wanted, read_address
from outlast.shims.run.tuning import Tuner
from outlast.shims.run.watching import SETTLED, Watching
from outlast.shims.settings import Settings

__all__ = ["LAST_CALL", "TURNS", "Supervisor"]

log = logging.getLogger("outlast")

LAST_CALL, TURNS = struct.Struct("=Q"), struct.Struct("=Q")
AT_ONCE = 32  # calls between two looks at everything else
UNSIGNED = 0xFFFFFFFF


class Supervisor:
    """One per program. `run` returns when nothing is under the filter any more."""

    def __init__(
        self,
        machine: Machine,
        listener: Listener,
        mender: Mender,
        likeness: Likeness,
        settings: Settings,
        explainer: Explainer,
        shared: mmap.mmap,
    ) -> None:
        self._machine = machine
        self._listener = listener
        listener.prefer_sync()
        self.explainer = explainer
        self._shared = shared  # with `front`: the last call's number, and a count of our turns
        self._turns = 0
        self._processes = Processes()
        self._likeness = likeness
        self._tuner = Tuner(settings.policy.keepalive)
        self._watching = Watching(kernel(), self._processes, settings.policy, explainer)
        self._mender = mender
        self._settings = settings
        self._connects: dict[int, Connect] = {}
        self._rings: set[int] = set()
        self._patience = Patience(self._processes)
        self.destinations = Destinations(settings.scope, kernel())
        self._tools: Tools | None = None
        self.over = asyncio.Event()

    async def run(self) -> None:
        """Listen, until the last process under the filter has ended."""
        loop = asyncio.get_running_loop()
        self._tools = Tools(
            self._listener,
            kernel(),
            loop,
            self._settings.policy,
            Placer(self._listener, self._mender),
            self._watching,
            self._likeness,
            self.explainer,
        )
        loop.add_reader(self._listener, self._hear)
        keeping = loop.create_task(self.destinations.keep_up())
        try:
            while not self.over.is_set():
                self._watching.settle()
                self._turns += 1
                TURNS.pack_into(self._shared, LAST_CALL.size, self._turns)
                try:
                    await asyncio.wait_for(self.over.wait(), SETTLED / 2)
                except asyncio.TimeoutError:
                    continue
        finally:
            keeping.cancel()
            loop.remove_reader(self._listener)
            for connect in list(self._connects.values()):
                connect.cancel()

    def _hear(self) -> None:
        for _ in range(AT_ONCE):
            mask = self._listener.look()
            if not mask & select.POLLIN:
                if mask:  # nobody is under the filter any more
                    self.over.set()
                return
            notice = self._listener.receive()
            if notice is not None:
                LAST_CALL.pack_into(self._shared, 0, notice.id)
                self._take(notice)

    def _take(self, notice: Notice) -> None:
        """Answer, or have somebody answer. A fault of ours must not hang the program."""
        try:
            if notice.call == self._machine.connect:
                self._connect(notice)
            elif notice.call == self._machine.getsockopt:
                self._asked(notice)
            else:
                self._other(notice)
        except Exception as error:
            if not isinstance(error, OSError):
                log.exception("outlast run: a call of pid %d was left to the kernel", notice.pid)
            self._listener.let(notice)

    # -- connect ---------------------------------------------------------------------------

    def _connect(self, notice: Notice) -> None:
        number, pointer, length, *_ = notice.arguments
        wanted = read_address(notice.pid, pointer, length & UNSIGNED) if notice.pid else None
        aimed = None if wanted is None else self.destinations.aim(wanted)
        if wanted is None or aimed is None:
            self._leave(notice, wanted, "out of scope")
            return
        try:
            task, sock = self._processes.borrow(notice.pid, number & UNSIGNED)
        except OSError as error:
            self._leave(notice, wanted, f"its descriptor: {error.strerror}")
            return
        known = self._connects.get(cookie_of(sock))
        if known is not None:
            known.ask(notice, task, sock, connecting=True)
            return
        why = self._why_not(notice, task, sock, wanted)
        if why:
            sock.close()
            self._leave(notice, wanted, why)
            return
        assert self._tools is not None
        place = Place(task, number & UNSIGNED, cookie_of(sock), os.fstat(sock.fileno()).st_ino)
        connect = self._connects[place.cookie] = Connect(self._tools, place, aimed, self._ended)
        try:
            self._tuner.tune(sock)
            connect.begin(notice, sock, patient=self._patience.of(task))
        except OSError:
            connect.cancel()
            raise

    def _why_not(self, notice: Notice, task: Task, sock: socket.socket, wanted: Wanted) -> str:
        """Why a connect in scope is left to the kernel; "" if it is not."""
        if not self._listener.valid(notice):
            return "the call has ended"
        if sock.proto != socket.IPPROTO_TCP or sock.type != socket.SOCK_STREAM:
            return "no TCP socket"
        if sock.family != wanted.family:
            return "an address of another family than the socket's"
        if state_of(sock) != CLOSED:
            return "the socket is in use already"
        return self._likeness.unlike(task, sock)

    def _leave(self, notice: Notice, wanted: Wanted | None, why: str) -> None:
        self._listener.let(notice)
        if wanted is not None and self.explainer.wanted:
            where = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
            number = notice.arguments[0] & UNSIGNED
            self.explainer.connect(
                notice.pid, number, f"{where}:{wanted.port}", f"left alone: {why}"
            )

    def _ended(self, connect: Connect) -> None:
        if self._connects.get(connect.place.cookie) is connect:
            del self._connects[connect.place.cookie]

    # -- what belongs to it ----------------------------------------------------------------

    def _asked(self, notice: Notice) -> None:
        """getsockopt(SO_ERROR): how has the connect ended?"""
        if not self._connects:
            self._listener.let(notice)
            return
        task, sock = self._processes.borrow(notice.pid, notice.arguments[0] & UNSIGNED)
        known = self._connects.get(cookie_of(sock))
        if known is None or not self._listener.valid(notice):
            sock.close()
            self._listener.let(notice)
        else:
            known.ask(notice, task, sock, connecting=False)

    def _other(self, notice: Notice) -> None:
        if notice.call in self._machine.epoll_create:
            self._patience.loops(self._processes.live(notice.pid))
            self._listener.let(notice)
            return
        process = process_of(notice.pid)
        if notice.call == LANDLOCK_RESTRICT_SELF:
            self._likeness.restricts(process)
            self.explainer.tell(f"pid {process} restricts itself (Landlock): left alone from now")
        elif notice.call == IO_URING_SETUP and process not in self._rings:
            self._rings.add(process)
            self.explainer.tell(
                f"pid {process} uses io_uring: connects made through it are not seen; "
                "`--io-uring refuse` has the program do without"
            )
        self._listener.let(notice)
