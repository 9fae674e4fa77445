"""Origins without end: what a transport remembers has a bound, and keeps what is in use."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import pytest

import outlast
from outlast.http.engine import MAX_ORIGINS, Engine
from outlast.service.table import Service
from outlast.target import Origin


def engine_of(**arguments: object) -> Engine:
    return outlast.Transport(**arguments)._engine  # type: ignore[arg-type]  # a test's own


def origin(number: int | str) -> Origin:
    return Origin("http", f"{number}.test", 80)


def crawl(engine: Engine, first: int, last: int) -> None:
    for number in range(first, last):
        engine.service(origin(number))


def memory() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("arguments", [{}, {"proxy": "http://10.0.0.9:3128"}])
def test_memory_has_a_bound(arguments: dict[str, str]) -> None:
    """With three times as many origins there is not more of it."""
    engine = engine_of(**arguments)
    tracemalloc.start()
    try:
        begun = memory()
        crawl(engine, 0, 3 * MAX_ORIGINS)
        grown = memory() - begun
        crawl(engine, 3 * MAX_ORIGINS, 9 * MAX_ORIGINS)
        assert memory() - begun < 1.3 * grown
    finally:
        tracemalloc.stop()


def test_those_used_last_are_remembered() -> None:
    engine = engine_of()
    first = weakref.ref(engine.service(origin("first")))
    kept = engine.service(origin("kept"))
    known = weakref.ref(kept)
    del kept
    for number in range(4 * MAX_ORIGINS):
        engine.service(origin(number))
        if number % MAX_ORIGINS == 0:
            assert engine.service(origin("kept")) is known()
    assert engine.service(origin(number - MAX_ORIGINS + 1)) is not None
    gc.collect()
    assert known() is not None
    assert first() is None


def test_what_a_call_holds_stays_the_one_service_of_its_target() -> None:
    """A long call, and another transport: one knowledge, whatever was met in between."""
    engine = engine_of()
    held = engine.service(origin("held"))
    crawl(engine, 0, 4 * MAX_ORIGINS)
    assert engine.service(origin("held")) is held
    assert engine_of().service(origin("held")) is held


def test_what_the_transport_was_told_of_stays() -> None:
    target = "static://10.0.0.1:80,10.0.0.2:80"
    engine = engine_of(targets={"http://orders.test": target})
    told: weakref.ref[Service] = weakref.ref(engine.service(origin("orders")))
    crawl(engine, 0, 4 * MAX_ORIGINS)
    gc.collect()
    assert told() is engine.service(origin("orders"))
