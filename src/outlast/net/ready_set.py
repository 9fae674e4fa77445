"""Many descriptors under one wait: which of ten thousand connections are ready, at constant cost.

On Linux the descriptors are kept in an epoll instance, which is a descriptor itself and can be
polled (epoll(7)): engine code waits for that one by the seam and then takes out what is ready.
Elsewhere the wait names every descriptor that somebody is interested in, which is right and slow.

Level-triggered: what is not dealt with is told again. It can be rung from another thread or from a
signal handler. Refuses to own the descriptors: take them out before you close them.
"""

from __future__ import annotations

import math
import select
import socket
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

from outlast.net.kernel_wait import wait_in_thread
from outlast.net.seam import READ, WRITE, Interest, Wait

__all__ = ["FAILED", "EpollSet", "ReadySet", "ready_set"]

FAILED = 4  # beside READ and WRITE: the connection has failed, or both directions have ended
AT_ONCE = 256  # events taken out in one look

K = TypeVar("K", bound=Hashable)


class ReadySet(Generic[K]):
    """Descriptors with a key and an interest each. One owner; only `ring` is thread-safe.

    This one is for every platform: where there is no epoll.
    """

    def __init__(self) -> None:
        self._mouth, self._rope = socket.socketpair()
        self._mouth.setblocking(False)
        self._rope.setblocking(False)
        self._entries: dict[int, _Entry[K]] = {}

    def set(self, number: int, key: K, mask: int) -> None:
        """Take a descriptor in, or change what of it is interesting: READ, WRITE, both, or
        nothing, when only its failure is told (not on Windows, whose select cannot)."""
        self._entries[number] = _Entry(number, key, mask)

    def remove(self, number: int) -> None:
        """Take a descriptor out; nothing if it is not in."""
        self._entries.pop(number, None)

    @property
    def interests(self) -> Sequence[Interest]:
        """What to wait for by the seam: ready when `look` has something to tell, or was rung."""
        wanted: list[Any] = [(entry, entry.mask) for entry in self._entries.values()]
        return [*wanted, (_Bell(self._mouth.fileno()), READ)]

    def look(self) -> list[tuple[K, int]]:
        """Keys that are ready, and how: never waits. A ring is taken note of and not told."""
        self._silence()
        found: dict[_Entry[K], int] = {}
        for bit in (READ, WRITE, 0):
            asked: list[Any] = [
                (each, bit)
                for each in self._entries.values()
                if (each.mask & bit if bit else not each.mask)
            ]
            for entry in wait_in_thread(Wait(asked, -math.inf)) if asked else ():
                known: Any = entry
                found[known] = found.get(known, 0) | (bit or FAILED)
        return [(entry.key, mask) for entry, mask in found.items()]

    def ring(self) -> None:
        """End the wait, or the next one. From any thread or signal handler; never blocks."""
        try:
            self._rope.send(b"!")
        except OSError:  # full: it has been rung before; or over
            return

    def close(self) -> None:
        """No more waits."""
        self._entries.clear()
        self._mouth.close()
        self._rope.close()

    def _silence(self) -> None:
        try:
            while self._mouth.recv(512):
                pass
        except BlockingIOError:
            return


class _Entry(Generic[K]):
    """What the seam can wait for: something with a number."""

    __slots__ = ("key", "mask", "number")

    def __init__(self, number: int, key: K, mask: int) -> None:
        self.number = number
        self.key = key
        self.mask = mask

    def fileno(self) -> int:
        """The descriptor."""
        return self.number


class _Bell:
    __slots__ = ("_number",)

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        """The descriptor."""
        return self._number


class EpollSet(ReadySet[K]):
    """The same by epoll: what it costs grows with what is ready, not with what is in."""

    def __init__(self) -> None:
        super().__init__()
        self._epoll = select.epoll()
        self._keys: dict[int, K] = {}
        self._masks: dict[int, int] = {}
        self._bell = self._mouth.fileno()
        self._epoll.register(self._bell, select.EPOLLIN)
        self._one: Any = ((_Bell(self._epoll.fileno()), READ),)

    def set(self, number: int, key: K, mask: int) -> None:
        """See `ReadySet.set`."""
        known = self._masks.get(number)
        if known == mask and self._keys[number] is key:
            return
        if known is None:
            self._epoll.register(number, _EVENTS[mask])
        elif known != mask:
            self._epoll.modify(number, _EVENTS[mask])
        self._masks[number] = mask
        self._keys[number] = key

    def remove(self, number: int) -> None:
        """See `ReadySet.remove`."""
        if self._masks.pop(number, None) is None:
            return
        del self._keys[number]
        self._epoll.unregister(number)

    @property
    def interests(self) -> Sequence[Interest]:
        """See `ReadySet.interests`."""
        interests: Sequence[Interest] = self._one
        return interests

    def look(self) -> list[tuple[K, int]]:
        """See `ReadySet.look`."""
        found = []
        for number, events in self._epoll.poll(0, AT_ONCE):
            if number == self._bell:
                self._silence()
                continue
            mask = READ if events & _READABLE else 0
            if events & select.EPOLLOUT:
                mask |= WRITE
            if events & _ENDED:
                mask |= FAILED
            found.append((self._keys[number], mask))
        return found

    def close(self) -> None:
        """See `ReadySet.close`."""
        self._epoll.close()
        super().close()


if hasattr(select, "epoll"):
    _EVENTS = (0, select.EPOLLIN, select.EPOLLOUT, select.EPOLLIN | select.EPOLLOUT)
    _READABLE = select.EPOLLIN
    _ENDED = select.EPOLLERR | select.EPOLLHUP


def ready_set(kind: type[Any] | None = None) -> ReadySet[Any]:
    """The best that this platform has. Raises OSError if there are no descriptors left."""
    chosen = kind or (EpollSet if hasattr(select, "epoll") else ReadySet)
    made: ReadySet[Any] = chosen()
    return made
