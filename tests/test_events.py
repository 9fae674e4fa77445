"""Telling of events: who hears what, when, and how often; what a broken subscriber costs."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

import outlast
from outlast import events
from outlast.events import EndpointEjected, EndpointLeft, OutlastEvent, emit, subscribe, wanted
from tests.event_samples import ejected, joined, left, one_of_each


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    yield
    listeners = [kind for kind in events.KINDS if wanted(kind)]
    assert listeners == []


def test_the_face_has_them() -> None:
    assert outlast.events is events
    assert outlast.subscribe is subscribe


def test_nobody_listens_at_first() -> None:
    assert not any(map(wanted, events.KINDS))
    emit(ejected())


def test_no_kind_means_every_kind() -> None:
    heard: list[OutlastEvent] = []
    with subscribe(heard.append) as subscription:
        assert all(map(wanted, events.KINDS))
        assert subscription.kinds == set(events.KINDS)
        for event in one_of_each():
            emit(event)
    assert heard == one_of_each()


def test_kinds_are_told_apart() -> None:
    heard: list[OutlastEvent] = []
    with subscribe(heard.append, EndpointEjected, EndpointLeft):
        assert wanted(EndpointEjected)
        assert not wanted(events.EndpointJoined)
        for event in (joined(), ejected(), left()):
            emit(event)
    assert heard == [ejected(), left()]


def test_a_kind_that_is_named_twice_is_told_once() -> None:
    heard: list[OutlastEvent] = []
    with subscribe(heard.append, EndpointLeft, EndpointLeft, OutlastEvent):
        emit(left())
    assert heard == [left()]


def test_subscribers_are_told_in_their_order() -> None:
    heard: list[str] = []
    with (
        subscribe(lambda event: heard.append("first"), EndpointLeft),
        subscribe(lambda event: heard.append("second")),
        subscribe(lambda event: heard.append("third"), EndpointLeft),
    ):
        emit(left())
    assert heard == ["first", "second", "third"]


def test_cancelling() -> None:
    heard: list[OutlastEvent] = []
    subscription = subscribe(heard.append, EndpointLeft)
    other = subscribe(heard.append, EndpointLeft)
    assert (subscription.active, other.active) == (True, True)
    subscription.cancel()
    subscription.cancel()
    assert (subscription.active, other.active) == (False, True)
    assert "(over)" in repr(subscription)
    assert "(over)" not in repr(other)
    emit(left())
    assert heard == [left()]
    other.cancel()


def test_a_subscriber_may_cancel_itself_and_subscribe_another() -> None:
    heard: list[OutlastEvent] = []
    made: list[events.Subscription] = []

    def once(event: OutlastEvent) -> None:
        heard.append(event)
        subscription.cancel()
        made.append(subscribe(heard.append, EndpointLeft))

    subscription = subscribe(once, EndpointLeft)
    emit(left("a:1"))  # whoever subscribes meanwhile hears of the next one
    emit(left("b:1"))
    made[0].cancel()
    assert heard == [left("a:1"), left("b:1")]


# -- what subscribers may do wrong -------------------------------------------------------------


def test_one_that_fails_is_logged_once_and_dropped(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[OutlastEvent] = []

    def broken(event: OutlastEvent) -> None:
        raise ZeroDivisionError

    subscription = subscribe(broken)
    with subscribe(heard.append), caplog.at_level(logging.ERROR, "outlast"):
        emit(left())
        emit(joined())
    assert not subscription.active
    assert heard == [left(), joined()]
    (record,) = caplog.records
    assert "broken" in record.getMessage()
    assert "told no more" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_one_that_fails_in_two_threads_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    both = threading.Barrier(2, timeout=10)

    def broken(event: OutlastEvent) -> None:
        both.wait()
        raise ZeroDivisionError

    subscribe(broken)
    with caplog.at_level(logging.ERROR, "outlast"):
        run_in_threads([lambda: emit(left()), lambda: emit(left())])
    assert len(caplog.records) == 1


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_what_is_not_the_subscribers_own_passes(kind: type[BaseException]) -> None:
    def interrupted(event: OutlastEvent) -> None:
        raise kind

    with subscribe(interrupted) as subscription:
        with pytest.raises(kind):
            emit(left())
        assert subscription.active
        with pytest.raises(kind):  # and it is not thought to be still at it
            emit(left())


async def a_coroutine(event: OutlastEvent) -> None:
    await asyncio.sleep(0)


class CoroutineCall:
    async def __call__(self, event: OutlastEvent) -> None:
        await asyncio.sleep(0)


@pytest.mark.parametrize("call", [a_coroutine, CoroutineCall()])
def test_coroutine_functions_are_refused(call: Callable[[OutlastEvent], object]) -> None:
    with pytest.raises(ValueError, match="nobody would await it; give a plain function"):
        subscribe(call)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ValueError, match="call: 'x' cannot be called"):
        subscribe("x")  # type: ignore[call-overload]  # that is the test


@pytest.mark.parametrize("kind", [object, outlast.Event, "EndpointLeft", None])
def test_what_is_no_kind_is_refused(kind: type[OutlastEvent]) -> None:
    with pytest.raises(ValueError, match=r"is no kind of event; write one of outlast\.events"):
        subscribe(print, kind)


# -- use of outlast inside a subscriber --------------------------------------------------------


def test_a_subscribers_own_doing_is_not_told_to_it() -> None:
    heard: list[tuple[str, OutlastEvent]] = []

    def caller(event: OutlastEvent) -> None:
        heard.append(("caller", event))
        emit(joined())  # as its own call would

    def listener(event: OutlastEvent) -> None:
        heard.append(("listener", event))

    with subscribe(caller), subscribe(listener):
        emit(left())
    assert heard == [("caller", left()), ("listener", joined()), ("listener", left())]


def test_two_that_cause_each_other_come_to_an_end() -> None:
    heard: list[str] = []

    def caller(name: str) -> Callable[[OutlastEvent], None]:
        def told(event: OutlastEvent) -> None:
            heard.append(name)
            emit(joined())

        return told

    with subscribe(caller("a")), subscribe(caller("b")):
        emit(left())
        assert heard == ["a", "b", "b", "a"]
        emit(left())
        assert heard == ["a", "b", "b", "a"] * 2


def test_a_task_that_a_subscriber_starts_counts_as_its_own_doing() -> None:
    heard: list[OutlastEvent] = []
    tasks: list[asyncio.Task[None]] = []

    async def call() -> None:
        await asyncio.sleep(0)
        emit(joined())

    def starts_a_task(event: OutlastEvent) -> None:
        heard.append(event)
        tasks.append(asyncio.create_task(call()))

    async def main() -> None:
        with subscribe(starts_a_task):
            emit(left())
            await asyncio.wait_for(tasks[0], 10)
            emit(ejected())
            await asyncio.wait_for(tasks[1], 10)

    asyncio.run(main())
    assert heard == [left(), ejected()]


def test_a_thread_of_a_subscribers_own_says_so() -> None:
    heard: list[OutlastEvent] = []

    def work() -> None:
        with subscription.muted():
            emit(joined())
        emit(left())

    with subscribe(heard.append) as subscription:
        run_in_threads([work])
    assert heard == [left()]


def test_a_subscriber_runs_in_the_context_of_what_happened() -> None:
    """So that a tracing library finds the span of the request."""
    span: contextvars.ContextVar[str] = contextvars.ContextVar("span", default="none")
    heard: list[str] = []
    with subscribe(lambda event: heard.append(span.get())):
        token = span.set("the request's")
        emit(left())
        span.reset(token)
    assert heard == ["the request's"]


# -- threads and forks -------------------------------------------------------------------------


def run_in_threads(works: list[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def test_threads_that_come_and_go_lose_nobody() -> None:
    heard: list[OutlastEvent] = []

    def come_and_go() -> None:
        for _ in range(200):
            with subscribe(print, EndpointEjected):
                emit(left())

    with subscribe(heard.append, EndpointLeft):
        run_in_threads([come_and_go] * 4)
        assert not wanted(EndpointEjected)
    assert len(heard) == 800


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_child_of_a_fork_keeps_its_subscriptions_and_takes_new_ones() -> None:
    reader, writer = os.pipe()
    with subscribe(lambda event: os.write(writer, b"old"), EndpointLeft), events._lock:
        child = os.fork()  # while another thread might be holding the lock
        if child == 0:
            signal.alarm(10)  # a lock that is never let go ends here
            code = 1
            try:
                subscribe(lambda event: os.write(writer, b"new"), EndpointLeft)
                emit(left())
                code = 0
            finally:
                os._exit(code)
        os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"oldnew"
    assert os.waitpid(child, 0) == (child, 0)
