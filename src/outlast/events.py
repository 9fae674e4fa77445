"""What happens to endpoints, connections and calls, told to whoever subscribes.

An event is told at once, in the thread or task in which it happened, never while a lock of this
library is held. A subscriber must be quick and must not block: it holds up a request, or the
event loop. What it raises never reaches the request: it is logged, and the subscriber, which is
broken, is dropped. (KeyboardInterrupt and its like are not its own, and pass.)

A subscriber may use outlast itself. What its own use gives rise to is not told to it again, or
it would never end: not in the callback, not in tasks that it starts there (they inherit its
context), and not inside `with subscription.muted():`, which is for threads of its own. Others
are told.

While nobody listens to a kind, `wanted(kind)` is one look into an empty dictionary, and no event
is made. Refuses coroutine functions: nobody would await them.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any, TypeVar, overload

from outlast.cancelling import Cancellable
from outlast.event_kinds import (
    KINDS,
    AttemptFailed,
    BudgetExhausted,
    CallFinished,
    CheckChanged,
    CircuitOpen,
    ConnectionClosed,
    ConnectionOpened,
    ConnectionReused,
    ConnectionSuspect,
    DialFailed,
    EndpointEjected,
    EndpointJoined,
    EndpointLeft,
    EndpointReturned,
    HedgeStarted,
    LookupFinished,
    OutlastEvent,
    PanicBegan,
    PanicEnded,
    PoolWaited,
    RepeatHeldBack,
)

__all__ = [
    "KINDS",
    "AttemptFailed",
    "BudgetExhausted",
    "CallFinished",
    "CheckChanged",
    "CircuitOpen",
    "ConnectionClosed",
    "ConnectionOpened",
    "ConnectionReused",
    "ConnectionSuspect",
    "DialFailed",
    "EndpointEjected",
    "EndpointJoined",
    "EndpointLeft",
    "EndpointReturned",
    "HedgeStarted",
    "LookupFinished",
    "OutlastEvent",
    "PanicBegan",
    "PanicEnded",
    "PoolWaited",
    "RepeatHeldBack",
    "Subscription",
    "emit",
    "listening",
    "subscribe",
    "wanted",
]

log = logging.getLogger("outlast")

E = TypeVar("E", bound=OutlastEvent)
F = TypeVar("F", bound=OutlastEvent)
G = TypeVar("G", bound=OutlastEvent)


class Subscription(Cancellable):
    """A place on the list of those who are told. Also a context manager. Thread-safe."""

    __slots__ = ("_call", "kinds")

    def __init__(self, call: Callable[[Any], object], kinds: frozenset[type[OutlastEvent]]) -> None:
        self._call = call
        self.kinds = kinds

    @property
    def active(self) -> bool:
        """Whether it is still told: neither cancelled nor dropped."""
        return any(self in listening.get(kind, ()) for kind in self.kinds)

    def cancel(self) -> None:
        """Be told no more; what another thread is telling at the moment may still come."""
        _drop(self)

    @contextmanager
    def muted(self) -> Iterator[None]:
        """What happens inside, in this thread or task, is not told to this subscriber."""
        token = _telling.set((*_telling.get(), self))
        try:
            yield
        finally:
            _telling.reset(token)

    def tell(self, event: OutlastEvent) -> None:
        """Hand one event over, unless it comes from the subscriber's own doing."""
        above = _telling.get()
        if self in above:
            return
        token = _telling.set((*above, self))
        try:
            self._call(event)
        except Exception:
            if _drop(self):
                log.exception("subscriber %r failed at %s; it is told no more", self._call, event)
        finally:
            _telling.reset(token)

    def __repr__(self) -> str:
        state = "" if self.active else " (over)"
        return f"<Subscription of {self._call!r} to {len(self.kinds)} kinds{state}>"


# Who is told of what. Replaced as a whole, never changed: whoever looks needs no lock. Empty while
# nobody listens to anything: then `if events.listening` is all that a request pays.
listening: dict[type[OutlastEvent], tuple[Subscription, ...]] = {}
_lock = Lock()  # of whoever replaces it
_telling: ContextVar[tuple[Subscription, ...]] = ContextVar("outlast_telling", default=())


def wanted(kind: type[OutlastEvent]) -> bool:
    """Whether anybody listens to this kind: ask before an event is made."""
    return kind in listening


def emit(event: OutlastEvent) -> None:
    """Tell an event to all who listen to its kind, in the order in which they subscribed.

    For this library's own use, and for tests of subscribers. Not under a lock, nor in a finalizer:
    that may run in the middle of a subscriber's own work, under the subscriber's own lock.
    """
    for subscription in listening.get(type(event), ()):
        subscription.tell(event)


@overload
def subscribe(call: Callable[[OutlastEvent], object], /) -> Subscription: ...
@overload
def subscribe(call: Callable[[E], object], kind: type[E], /, *kinds: type[E]) -> Subscription: ...
@overload
def subscribe(
    call: Callable[[E | F], object], kind: type[E], other: type[F], /
) -> Subscription: ...
@overload
def subscribe(
    call: Callable[[E | F | G], object], kind: type[E], other: type[F], third: type[G], /
) -> Subscription: ...
def subscribe(call: Callable[[Any], object], /, *kinds: type[OutlastEvent]) -> Subscription:
    """Have `call` told of these kinds of event, or of all, until the subscription is cancelled.

    `call` gets one event, in the thread or task in which it happened; it must not block. It may
    come from several threads at once, and two that happen together may come in either order:
    their `at` tells. One that raises is logged and dropped. It is held until then.

    Raises ValueError for a coroutine function, for what cannot be called, and for what is no kind
    of event. Thread-safe; the child of a fork keeps the subscriptions.
    """
    if not callable(call):
        raise ValueError(f"call: {call!r} cannot be called; give a function of one event")
    if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004  its own method, for `async def __call__`
    ):
        raise ValueError(
            f"call: {call!r} is a coroutine function, and nobody would await it; give a plain "
            "function, such as one that puts the event into a queue"
        )
    subscription = Subscription(call, _concrete(kinds or (OutlastEvent,)))
    global listening  # noqa: PLW0603  replaced as a whole
    with _lock:
        changed = dict(listening)
        for kind in subscription.kinds:
            changed[kind] = (*changed.get(kind, ()), subscription)
        listening = changed
    return subscription


def _concrete(given: tuple[type[OutlastEvent], ...]) -> frozenset[type[OutlastEvent]]:
    """The kinds that are meant: `OutlastEvent` means all of them."""
    found: set[type[OutlastEvent]] = set()
    for each in given:
        if each is OutlastEvent:
            found.update(KINDS)
        elif each in KINDS:
            found.add(each)
        else:
            raise ValueError(f"kinds: {each!r} is no kind of event; write one of outlast.events")
    return frozenset(found)


def _drop(subscription: Subscription) -> bool:
    """Take a subscription off the list; False if it was off it already."""
    global listening  # noqa: PLW0603  replaced as a whole
    with _lock:
        changed: dict[type[OutlastEvent], tuple[Subscription, ...]] = {}
        for kind, told in listening.items():
            left = tuple(each for each in told if each is not subscription)
            if left:
                changed[kind] = left
        dropped = sum(map(len, changed.values())) < sum(map(len, listening.values()))
        listening = changed
    return dropped


def _renew() -> None:
    global _lock  # noqa: PLW0603  in the child of a fork it may be held by another thread
    _lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
