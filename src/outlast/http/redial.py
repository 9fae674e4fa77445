"""A whole connect, and the further ones that the transport's `retries` asks for.

As in httpx a connect that failed is tried again `retries` times, at once and then after 0.5, 1,
2 ... s. Each is a race of its own; together they have the call's one connect timeout. The pauses
are not counted as connect time, else a short timeout would cancel what was asked for; the call's
deadline bounds them. A connect that timed out is not tried again, other than in httpx: in its
time the race has dialled again and again. Nor is one that a proxy has refused.

A Unix socket whose queue is full (EAGAIN) can only be asked again: for as long as the connect
timeout allows, whatever `retries` says, as a blocking connect(2) would wait.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

from outlast.errors import TransportFailure
from outlast.http.call_context import CallContext
from outlast.http.proxy import failure_of
from outlast.net.dial import DialError, DialRequest, Won
from outlast.net.race_driver import dial
from outlast.net.run import sleep_until

__all__ = ["dial_again"]

PAUSE = 0.5  # seconds before the second retry; doubles: httpcore's back-off
BUSY = 0.02  # seconds after which a Unix socket's full queue is looked at again


async def dial_again(
    call: CallContext, request: Callable[[float], DialRequest]
) -> tuple[Won, DialRequest]:
    """Connect; `request(now)` is made anew for each race. Raises TransportFailure."""
    pauses = _pauses(call.engine.settings.retries)
    while True:
        started = call.now()
        wanted = request(started)
        try:
            return await dial(call.engine.network, wanted, call.report), wanted
        except DialError as error:
            failed = error
        finally:
            call.connect_time.spend(started, call.now())
        if failed.errno == errno.EAGAIN and not failed.timed_out:
            await _wait_for_room(call, failed)
        else:
            await _pause(call, failure_of(failed), pauses)


def _pauses(retries: int) -> Iterator[float]:
    for retry in range(retries):
        yield PAUSE * 2 ** (retry - 1) if retry else 0.0


async def _pause(call: CallContext, failure: TransportFailure, pauses: Iterator[float]) -> None:
    """Wait until the next retry. Raises `failure` if there is none."""
    pause = next(pauses, None) if failure.kind == "ConnectError" else None
    until = call.now() + (pause or 0.0)
    if pause is None or until >= call.deadline.at:
        raise failure from failure.cause
    call.report.add(call.now(), "connect", f"tried again in {pause:g} s (retries)")
    await sleep_until(until)


async def _wait_for_room(call: CallContext, error: DialError) -> None:
    """Wait before a full queue is asked again. Raises TransportFailure when the time is over."""
    now = call.now()
    await sleep_until(min(now + BUSY, call.connect_time.deadline(now).earlier(call.deadline).at))
    call.connect_time.spend(now, call.now())
    if call.late or not call.connect_time.left:
        told = f"connect timed out, the socket's queue was full all the time: {error.message}"
        raise TransportFailure("ConnectTimeout", told, error, final=True) from error
