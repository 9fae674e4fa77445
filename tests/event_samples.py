"""One event of every kind, for tests of whoever is told of them."""

from __future__ import annotations

from outlast import events
from outlast.core.classify import Progress

TARGET = "dns://orders:8080"
ADDRESS = "10.0.0.1:8080"


def one_of_each() -> list[events.OutlastEvent]:
    """In the order of `KINDS`."""
    return [*of_endpoints(), *of_connections(), *of_calls()]


def joined(address: str = ADDRESS, target: str = TARGET) -> events.EndpointJoined:
    return events.EndpointJoined(at=1.0, target=target, address=address)


def left(address: str = ADDRESS, target: str = TARGET) -> events.EndpointLeft:
    return events.EndpointLeft(at=1.0, target=target, address=address)


def ejected(address: str = ADDRESS, *, enforced: bool = True) -> events.EndpointEjected:
    return events.EndpointEjected(
        at=10.0,
        target=TARGET,
        address=address,
        rule="connect_failures",
        evidence="death",
        why="3 connects in a row failed",
        until=15.0,
        enforced=enforced,
    )


def of_endpoints() -> list[events.OutlastEvent]:
    return [
        joined(),
        left(),
        ejected(),
        events.EndpointReturned(at=15.5, target=TARGET, address=ADDRESS, why="answered", after=5.5),
        events.CheckChanged(at=1.0, target=TARGET, address=ADDRESS, up=False, why="status 500"),
        events.PanicBegan(at=1.0, target=TARGET, out=3, endpoints=4),
        events.PanicEnded(at=9.0, target=TARGET, after=8.0),
    ]


def lookup(error: str = "") -> events.LookupFinished:
    found = () if error else ("10.0.0.1", "10.0.0.2")
    return events.LookupFinished(
        at=1.0, target=TARGET, name="orders", seconds=0.002, addresses=found, error=error
    )


def dial_failed(
    address: str = ADDRESS, *, phase: str = "connect", errno: int | None = 111, target: str = TARGET
) -> events.DialFailed:
    return events.DialFailed(
        at=1.0,
        target=target,
        address=address,
        phase=phase,
        why="refused" if errno else "no answer",
        seconds=0.001,
        errno=errno,
        local_port=40000,
    )


def opened(address: str = ADDRESS, handshake: float | None = 0.02) -> events.ConnectionOpened:
    return events.ConnectionOpened(
        at=1.0, target=TARGET, address=address, connect=0.002, handshake=handshake, dials=2
    )


def reused(address: str = ADDRESS, idle: float = 3.5) -> events.ConnectionReused:
    return events.ConnectionReused(at=1.0, target=TARGET, address=address, idle=idle)


def of_connections() -> list[events.OutlastEvent]:
    return [
        lookup(),
        dial_failed(),
        opened(),
        reused(),
        events.ConnectionClosed(at=1.0, target=TARGET, address=ADDRESS, reason="idle", age=60.0),
        events.ConnectionSuspect(at=1.0, target=TARGET, address=ADDRESS, why="3 repeats unacked"),
        events.PoolWaited(at=1.0, target=TARGET, seconds=0.25),
    ]


def attempt_failed(
    address: str = ADDRESS,
    *,
    phase: str = "response",
    error: str = "ReadError",
    errno: int | None = 104,
    status: int | None = None,
    reused: bool = True,
) -> events.AttemptFailed:
    return events.AttemptFailed(
        at=1.0,
        target=TARGET,
        address=address,
        attempt=0,
        phase=phase,
        why="connection reset",
        progress=Progress.SENT,
        repeated=True,
        decision="idempotent and unanswered",
        error=error,
        errno=errno,
        status=status,
        reused=reused,
    )


def finished(
    method: str = "GET", *, target: str = TARGET, status: int | None = 200, error: str = ""
) -> events.CallFinished:
    return events.CallFinished(
        at=1.0,
        target=target,
        method=method,
        scheme="http",
        host="orders",
        port=8080,
        seconds=0.03,
        attempts=2,
        status=status,
        error=error,
        address=ADDRESS,
        http_version="1.1",
    )


def of_calls() -> list[events.OutlastEvent]:
    return [
        attempt_failed(),
        events.HedgeStarted(at=1.0, target=TARGET, attempt=1, after=0.05),
        events.RepeatHeldBack(at=1.0, target=TARGET, rule="retry_status"),
        finished(),
        events.BudgetExhausted(at=1.0, target=TARGET, budget="retries"),
        events.CircuitOpen(at=1.0, target=TARGET, address=ADDRESS, limit="in_flight", most=10),
    ]
