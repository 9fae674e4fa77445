"""Events as records of Python's own logging, for whoever asks for them.

Nothing is logged before `log_events` is called, and then, as with any library, nothing is shown
until the program has a handler. The text of a record is the event's sentence; its fields are
attributes of the record (`outlast_event`, `outlast_target`, `outlast_address` ...), so that a
formatter that writes JSON has them apart. Refuses to format what the logger would drop.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from enum import Enum

from outlast import events
from outlast.events import OutlastEvent, Subscription, subscribe

__all__ = ["LEVELS", "log_events"]

# By what an operator must know: something is amiss for longer; something has happened; all the
# rest, which comes with every call.
LEVELS: dict[type[OutlastEvent], int] = {
    events.EndpointEjected: logging.WARNING,
    events.PanicBegan: logging.WARNING,
    events.CheckChanged: logging.WARNING,
    events.EndpointReturned: logging.INFO,
    events.PanicEnded: logging.INFO,
    events.EndpointJoined: logging.INFO,
    events.EndpointLeft: logging.INFO,
    events.AttemptFailed: logging.INFO,
    events.ConnectionSuspect: logging.INFO,
    events.BudgetExhausted: logging.INFO,
    events.CircuitOpen: logging.INFO,
    events.RepeatHeldBack: logging.INFO,
    events.HedgeStarted: logging.DEBUG,
    events.DialFailed: logging.DEBUG,
    events.PoolWaited: logging.DEBUG,
    events.LookupFinished: logging.DEBUG,
    events.ConnectionOpened: logging.DEBUG,
    events.ConnectionReused: logging.DEBUG,
    events.ConnectionClosed: logging.DEBUG,
    events.CallFinished: logging.DEBUG,
}


def log_events(
    *kinds: type[OutlastEvent], logger: str = "outlast.events", level: int | None = None
) -> Subscription:
    """Log these kinds of event until the subscription is cancelled.

    kinds: none for those of level INFO and above, `OutlastEvent` for all: then every call makes
        some events, whether the logger shows them or not.
    logger: its name.
    level: one for all. None: each kind's own (`LEVELS`), and INFO for a check that passes and for
        an ejection in a dry run.

    Raises ValueError as `subscribe`. Thread-safe.
    """
    chosen = kinds or tuple(kind for kind, usual in LEVELS.items() if usual >= logging.INFO)
    log = logging.getLogger(logger)

    def record(event: OutlastEvent) -> None:
        number = level_of(event) if level is None else level
        if log.isEnabledFor(number):
            log.log(number, "%s", event, extra=fields(event))

    return subscribe(record, *chosen)


def level_of(event: OutlastEvent) -> int:
    """A level of the logging module."""
    harmless = (isinstance(event, events.CheckChanged) and event.up) or (
        isinstance(event, events.EndpointEjected) and not event.enforced
    )
    return logging.INFO if harmless else LEVELS[type(event)]


def fields(event: OutlastEvent) -> dict[str, object]:
    """A record's additional attributes; the prefix keeps clear of logging's own."""
    told: dict[str, object] = {"outlast_event": type(event).__name__}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if isinstance(value, Enum):
            value = str(value)
        told[f"outlast_{field.name}"] = None if value == math.inf else value  # JSON has none
    return told
