"""The table of cases, and how a case is run and judged."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from unittest import mock

import pytest

from tests.dropin.authority import trusting
from tests.dropin.better import BETTER
from tests.dropin.family import FAMILY
from tests.dropin.record import Record, difference
from tests.dropin.sides import AsyncSide, Side, SyncSide
from tests.dropin.stage import Handler, Line, Stage

__all__ = ["CASES", "Case", "add", "case", "run"]

Script: TypeAlias = "Callable[[Side], Coroutine[Any, Any, None]]"
Open: TypeAlias = "Callable[[], contextlib.AbstractContextManager[Stage]]"

CASES: dict[str, Case] = {}


@dataclass(frozen=True)
class Case:
    """A script, the stage it plays on, and the client's arguments.

    `unordered`: several requests at once, so the order of connections means nothing.
    `spread`: which connection gets which request is luck too; how many there are is not.
    `cut`: how much of a request the server gets is a matter of luck; the rest is compared.
    `kept`: whether idle connections are compared too.
    `names`: what the system's resolver knows, in place of what it knows otherwise.
    """

    script: Script
    open: Open
    client: Mapping[str, Any] = field(default_factory=dict)
    unordered: bool = False
    spread: bool = False
    cut: bool = False
    kept: bool = True
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def add(name: str, script: Script, *handlers: Handler, **more: Any) -> None:
    """Add a case on a raw server. `tls`: makes the server's context; `stage`: its arguments."""
    assert name not in CASES, f"two cases are called {name}"
    tls: Callable[[], ssl.SSLContext] | None = more.pop("tls", None)
    stage: dict[str, Any] = more.pop("stage", {})
    opened: Open | None = more.pop("open", None)

    def open_stage() -> Stage:
        return Stage(*handlers, context=tls() if tls else None, **stage)

    client = {"verify": trusting(), **more.pop("client", {})}
    CASES[name] = Case(script, opened or open_stage, client, **more)


def case(*handlers: Handler, **more: Any) -> Callable[[Script], Script]:
    """Add the decorated script, under its module's name and its own."""

    def adding(script: Script) -> Script:
        module = script.__module__.rpartition(".")[2]
        add(f"{module}-{script.__name__}", script, *handlers, **more)
        return script

    return adding


async def run(name: str, kind: type[SyncSide] | type[AsyncSide], world: str) -> None:
    """Play a case on both sides and judge it. `world`: threads, asyncio or trio."""
    chosen = CASES[name]
    with chosen.open() as stage, resolving(chosen.names):
        plain = _tidy(await kind(stage, False, **chosen.client).play(chosen.script), chosen)
        ours = _tidy(await kind(stage, True, **chosen.client).play(chosen.script), chosen)
    found = difference(plain, ours)
    better = BETTER.get(name)
    if better is not None and not (world in better.worlds and FAMILY in better.families):
        better = None
    said = f"httpx:   {plain.words()}\noutlast: {ours.words()}\n{found}"
    if better is None and found:
        pytest.fail(said, pytrace=False)
    if better is None or (better.sometimes and not found):
        return
    if not found:
        pytest.fail(f"no difference any more: take it out of BETTER\n{said}", pytrace=False)
    if not better.fits(plain.words(), ours.words()):
        pytest.fail(f"another difference than BETTER has\n{said}", pytrace=False)


def _tidy(record: Record, chosen: Case) -> Record:
    """Without what says nothing in this case."""
    lines = list(record.lines)
    if chosen.cut:
        lines = [Line(said=line.said, requests=line.requests) for line in lines]
    if chosen.spread:
        lines = []
    if chosen.unordered:
        lines = [Line(line.raw, sorted(line.said), sorted(line.requests)) for line in lines]
        lines.sort(key=lambda line: (line.requests, bytes(line.raw)))
    return replace(record, lines=lines, kept=record.kept if chosen.kept else None)


@contextlib.contextmanager
def resolving(names: Mapping[str, tuple[str, ...]]) -> Iterator[None]:
    """Names are as these say, and there are no others; nobody else is asked."""
    real: Any = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        known = names.get(name.rstrip(".").lower()) if isinstance(name, str) else None
        found = [info for each in known or () for info in real(each, port, *rest, **more)]
        return found if known else _numeric(real, host, port, *rest, **more)

    with mock.patch.object(socket, "getaddrinfo", getaddrinfo):
        yield


def _numeric(real: Any, host: Any, port: Any, *rest: int, **more: int) -> Any:
    """An address in words needs no resolver. Raises gaierror for a name."""
    named = dict(zip(("family", "type", "proto", "flags"), rest, strict=False)) | more
    named["flags"] = named.get("flags", 0) | socket.AI_NUMERICHOST
    return real(host, port, **named)
