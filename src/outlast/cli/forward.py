"""`outlast forward`: the forwarder as a program, for people and for service managers.

The first SIGTERM or SIGINT drains, the second ends at once. A service manager is told when we
listen and when we stop (sd_notify(3)). Decides nothing of connections: `shims.forward` does.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:  # imported where they are needed: the other commands begin without them
    from outlast.shims.forward import Forwarder
    from outlast.shims.settings import Settings
    from outlast.target import Target

__all__ = ["forward"]

DRAIN = "25s"  # within the 30 that Kubernetes gives a pod to end
ENDS = ("SIGTERM", "SIGINT")


def _duration(
    _context: click.Context, _parameter: click.Parameter, value: str | float | None
) -> float | None:
    """Seconds, or "5s", "250ms", "10m"; None stays."""
    from outlast.fields import seconds

    if value is None:
        return None
    word: str | float = value
    with contextlib.suppress(ValueError):
        word = float(value)
    try:
        return seconds(word, "duration")
    except ValueError as error:
        raise click.BadParameter(str(error).partition(": ")[2]) from error


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("pairs", nargs=-1, metavar="LISTEN TARGET [LISTEN TARGET]...")
@click.option(
    "--idle-timeout",
    callback=_duration,
    metavar="DURATION",
    help="Reset a connection on which nothing has moved for so long, such as 10m. Without it idle"
    " connections stay; dead ones are found by keepalive in either case.",
)
@click.option(
    "--drain",
    callback=_duration,
    metavar="DURATION",
    default=DRAIN,
    show_default=True,
    help="Seconds that open connections have to end after SIGTERM, before they are reset.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(min=1),
    help="Connections at once; more wait to be accepted. Default: what there are descriptors for.",
)
@click.option(
    "--connect-timeout",
    callback=_duration,
    metavar="DURATION",
    help="How long a client is held while no endpoint answers, before it is reset. Default: 5 s.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file with [policy] and [targets]; see docs/forward.md.",
)
@click.option("--explain", is_flag=True, help="Print what is done for every connection.")
def forward(
    pairs: tuple[str, ...],
    idle_timeout: float | None,
    drain: float,
    max_connections: int | None,
    connect_timeout: float | None,
    config: Path | None,
    explain: bool,
) -> None:
    """Forward TCP connections to a target that may lose nodes.

    LISTEN is 127.0.0.1:5432, [::1]:5432, :5432 (this machine only), unix:/run/app/db.sock (its
    owner only; ?mode=660 for the group), or fd:name (from systemd). To be open to the network,
    write an address that is, such as 0.0.0.0:5432.

    TARGET is orders.shop.svc:8080 or static://10.0.0.1:5432,10.0.0.2:5432.

    Each connection is dialled as by outlast.create_connection: endpoints that do not answer are
    raced by others, and what is known of them is shared by all connections. A client whose upstream
    dies is reset, never ended as if all had been said.
    """
    from outlast.shims.forward import Forwarder
    from outlast.shims.settings import read_settings

    _raise_descriptors()
    fields = {} if connect_timeout is None else {"connect_timeout": connect_timeout}
    try:
        settings = read_settings(config=config, policy=fields)
        forwarder = Forwarder(
            *_mapped(pairs, settings),
            policy=settings.policy,
            idle_timeout=idle_timeout,
            max_connections=max_connections,
            explain=_say if explain else None,
        )
        forwarder.open()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(error.strerror or str(error)) from error
    with _logging(explain=explain), _until_signalled(forwarder, drain, os.environ):
        _begun(forwarder)
        forwarder.run()
    _say(f"ended: {forwarder.counts}")


def _mapped(pairs: tuple[str, ...], settings: Settings) -> list[str | Target]:
    """The pairs, each target through the table of targets in the settings."""
    from outlast.target import parse_target

    found: list[str | Target] = list(pairs)
    for number in range(1, len(pairs), 2):
        target = parse_target(pairs[number])
        for pattern, mapped in settings.scope.targets:
            if target.name is not None and pattern.meets(target.name[0], None, target.name[1]):
                target = mapped
                break
        found[number] = target
    return found


def _raise_descriptors() -> None:
    """As many descriptors as this process may have: it is ours alone."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # macOS has a lower one of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _begun(forwarder: Forwarder) -> None:
    from outlast.net.systemd import notify

    for route in forwarder.routes:
        _say(f"forwarding {route}")
    for place in forwarder.public:
        _say(f"note: {place} is open to whoever can reach this machine")
    notify(os.environ, "READY=1", "STATUS=forwarding")


@contextlib.contextmanager
def _logging(*, explain: bool) -> Iterator[None]:
    """Warnings on stderr; with `explain` also what happens to endpoints."""
    from outlast.event_log import log_events

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("outlast: %(levelname)s: %(message)s"))
    log = logging.getLogger("outlast")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO if explain else logging.WARNING)
    try:
        with log_events():
            yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


@contextlib.contextmanager
def _until_signalled(
    forwarder: Forwarder, drain: float, environ: Mapping[str, str]
) -> Iterator[None]:
    """The first signal drains, the second ends at once."""
    from outlast.net.systemd import notify

    asked = False

    def end(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            forwarder.drain(0.0)
            return
        asked = True
        notify(environ, "STOPPING=1", "STATUS=draining")
        forwarder.drain(drain)

    numbers = [getattr(signal, name) for name in ENDS]
    before = [(number, signal.signal(number, end)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _say(text: str) -> None:
    click.echo(f"outlast: {text}", err=True)
