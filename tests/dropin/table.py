"""The table of cases, and how a case is run and judged."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from unittest import mock

import httpx
import pytest

import outlast.service.table
from tests.dropin.authority import trusting
from tests.dropin.better import BETTER
from tests.dropin.difference import LUCK
from tests.dropin.family import FAMILY
from tests.dropin.judgement import judge
from tests.dropin.nginx import NginxStage, the_shared
from tests.dropin.record import Record, raised, reused
from tests.dropin.sides import AsyncSide, Side, SyncSide
from tests.dropin.stage import Handler, Line, Stage

__all__ = ["CASES", "Case", "add", "case", "names", "run"]

Script: TypeAlias = "Callable[[Side], Coroutine[Any, Any, None]]"
Open: TypeAlias = "Callable[[], contextlib.AbstractContextManager[Stage]]"

CASES: dict[str, Case] = {}


@dataclass(frozen=True)
class Case:
    """A script, the stage it plays on, and the client's arguments.

    `unordered`: several requests at once, so the order of connections means nothing.
    `spread`: which connection gets which request is luck too; how many there are is not.
    `cut`: how much of a request the server gets is a matter of luck; the rest is compared.
    `asked`: connections without a request are not compared: where many are made outlast may dial
    again, if a handshake takes long.
    `leaks`: httpx leaves connections to the collector.
    `kept`: whether idle connections are compared too.
    `names`: what the system's resolver knows, in place of what it knows otherwise.
    `environment`: variables, as far as there are any.
    """

    script: Script
    open: Open
    client: Callable[[Stage], Mapping[str, Any]]
    environment: Callable[[Stage], Mapping[str, str]] = lambda _: {}
    unordered: bool = False
    spread: bool = False
    cut: bool = False
    asked: bool = False
    leaks: bool = False
    kept: bool = True
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def add(name: str, script: Script, *handlers: Handler, **more: Any) -> None:
    """Add a case on a raw server. `tls`: makes the server's context; `stage`: its arguments;
    `nginx`: a server of nginx that stands before it, `open`: another stage altogether.
    `client`: the client's arguments, or a function of the stage that makes them."""
    assert name not in CASES, f"two cases are called {name}"
    tls: Callable[[], ssl.SSLContext] | None = more.pop("tls", None)
    stage: dict[str, Any] = more.pop("stage", {})
    opened: Open | None = more.pop("open", None)
    nginx: str | None = more.pop("nginx", None)

    def open_stage() -> Stage:
        if nginx is not None:
            return NginxStage(the_shared(), nginx, *handlers)
        return Stage(*handlers, context=tls() if tls else None, **stage)

    given = more.pop("client", {})

    def client(stage: Stage) -> Mapping[str, Any]:
        return {"verify": trusting(), **(given(stage) if callable(given) else given)}

    CASES[name] = Case(script, opened or open_stage, client, **more)


def case(*handlers: Handler, **more: Any) -> Callable[[Script], Script]:
    """Add the decorated script, under its module's name and its own."""

    def adding(script: Script) -> Script:
        module = script.__module__.rpartition(".")[2]
        add(f"{module}-{script.__name__}", script, *handlers, **more)
        return script

    return adding


def names() -> list[Any]:
    """The table, for parametrize. What httpx leaves open it is not blamed for."""
    pardon = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
    return [pytest.param(name, marks=[pardon] * each.leaks) for name, each in CASES.items()]


async def run(name: str, kind: type[SyncSide] | type[AsyncSide], world: str) -> None:
    """Play a case on both sides and judge it. `world`: threads, asyncio or trio."""
    chosen = CASES[name]
    better = next((each for each in BETTER.get(name, ()) if each.holds(world, FAMILY)), None)

    async def play(*, ours: bool) -> Record:
        with mock.patch.dict(os.environ, chosen.environment(stage)):
            try:
                side = kind(stage, ours, **chosen.client(stage))
            except (ValueError, httpx.InvalidURL) as error:
                return Record([("client", raised(error))], [], None)
        return _tidy(await side.play(chosen.script), chosen)

    with chosen.open() as stage, resolving(chosen.names), knowing_nothing():
        asked = better is None or better.plain != LUCK
        plain = await play(ours=False) if asked else None
        ours = await play(ours=True)
    fault = judge(plain, ours, better) or ("" if "http2" in name else reused(ours))
    if fault:
        pytest.fail(fault, pytrace=False)


def _tidy(record: Record, chosen: Case) -> Record:
    """Without what says nothing in this case."""
    lines = list(record.lines)
    if chosen.cut:
        lines = [Line(said=line.said, requests=line.requests) for line in lines]
    if chosen.asked:
        lines = [line for line in lines if line.requests]
    if chosen.spread:
        lines = []
    if chosen.unordered:
        lines = [Line(line.raw, sorted(line.said), sorted(line.requests)) for line in lines]
        lines.sort(key=lambda line: (line.requests, bytes(line.raw)))
    return replace(record, lines=lines, kept=record.kept if chosen.kept else None)


@contextlib.contextmanager
def knowing_nothing() -> Iterator[None]:
    """What outlast knows of endpoints holds for one case: another may get the same port."""
    fresh: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
    with mock.patch.object(outlast.service.table, "_tables", fresh):
        yield


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
