"""Finds the connections that C code of this process opens to a target, and has them watched.

A library that dials in C tells nobody its sockets. But they are descriptors of this process: twice
a second, while a channel or pool of such a library lives, the list of them is read (/proc/self/fd),
and a TCP connection that is new and leads to one of the target's addresses gets keepalive, if it
has none but the system's, and a watch. Linux only: elsewhere nothing is found, and the library's
own means remain. One job for all, on the library's background thread.

Refuses to touch what leads elsewhere, and to keep anything open.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from threading import Lock
from typing import Any, NamedTuple

from outlast.net.held import HeldSocket
from outlast.net.kernel import kernel
from outlast.net.run import sleep_until
from outlast.net.seam import WAKE, Network, Wait
from outlast.shims.adapters.dialler import Dialler
from outlast.target import Target

__all__ = ["look_out"]

PACE = 0.5  # seconds between two looks
LOOKUP = 5.0  # seconds that a look-up may take
DESCRIPTORS = "/proc/self/fd"


class _Sought(NamedTuple):
    target: Target
    dialler: Dialler


def look_out(owner: Any, target: Target, dialler: Dialler) -> None:
    """Have connections to `target` watched that appear while `owner` lives. Thread-safe."""
    if os.path.isdir(DESCRIPTORS):
        _lookout.add(owner, _Sought(target, dialler))


class _Lookout:
    """See the module. Thread-safe."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.renew()

    def renew(self) -> None:
        """At first, and in the child of a fork, where no job runs."""
        self._lock = Lock()
        self._sought: weakref.WeakKeyDictionary[Any, _Sought] = weakref.WeakKeyDictionary()
        self._known: set[str] = set()  # sockets, as /proc names them, that need no second look
        self._running = False

    def add(self, owner: Any, sought: _Sought) -> None:
        with self._lock:
            self._sought[owner] = sought
            self._known = set()  # what led elsewhere until now may be meant by this one
            if self._running:
                return
            self._running = True
        try:
            self._network.spawn(self._run)
        except RuntimeError:  # the system gives no thread: nobody is watched
            with self._lock:
                self._running = False

    async def _run(self) -> None:
        try:
            while True:
                with self._lock:
                    wanted = list(self._sought.values())
                    if not wanted:
                        self._running = False
                        return
                await self._look(wanted)
                del wanted
                await sleep_until(self._network.now() + PACE)
        except BaseException:
            with self._lock:
                self._running = False
            raise

    async def _look(self, wanted: list[_Sought]) -> None:
        found = dict(_sockets())
        self._known &= found.keys()
        fresh: list[tuple[str, int]] = []
        for name in found.keys() - self._known:
            address = _peer(found[name])
            if address is not None:
                self._known.add(name)
                fresh.append((address, found[name]))
        for target, dialler in wanted if fresh else ():
            addresses = await self._addresses(target)
            for address, descriptor in fresh:
                if address in addresses:
                    dialler.adopt(descriptor)

    async def _addresses(self, target: Target) -> set[str]:
        if target.name is None:
            return {str(address) for address in target.addresses}
        waiter = self._network.waiter()
        lookup = self._network.lookup(*target.name, waiter)
        if lookup.addresses is None and lookup.error is None:
            await Wait(((waiter, WAKE),), self._network.now() + LOOKUP)
        return {str(address) for address in lookup.addresses or ()}


def _sockets() -> Iterator[tuple[str, int]]:
    """The sockets of this process: what /proc calls each, and a descriptor."""
    for name in os.listdir(DESCRIPTORS):
        try:
            link = os.readlink(f"{DESCRIPTORS}/{name}")
        except OSError:  # closed meanwhile, or the one that reads the list
            continue
        if link.startswith("socket:"):
            yield link, int(name)


def _peer(descriptor: int) -> str | None:
    """Whereto a connection leads, in words; "" for what is no TCP, None while it does not stand."""
    try:
        return HeldSocket(descriptor).address
    except ValueError:
        return ""
    except OSError:  # it is being dialled, or gone
        return None


_lookout = _Lookout(kernel())

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lookout.renew)
