"""The load: every client asks, failures are recorded as what they are, and it can be stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from outlast.cli.load import WORKERS, Load
from outlast.cli.loopback import LoopbackStage
from outlast.cli.record import Happening, Outcome
from outlast.cli.stage import Main, Stage
from outlast.testing import SimNet
from tests.cli.test_loopback import pytestmark as needs_linux

pytestmark = needs_linux
LIMIT = 20.0  # a bound for what takes a second


class Place:
    """A stage whose clock the test moves."""

    where = "a test"
    connections: tuple[str, ...] = ("pooled", "new")
    simulated: SimNet | None = None

    def __init__(self, url: str) -> None:
        self.url = url
        self.now = 0.0
        self.happenings: list[Happening] = []

    def play(self, main: Main) -> None:
        asyncio.run(main())

    def elapsed(self) -> float:
        return self.now

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


@contextmanager
def at_work(load: Load) -> Iterator[Future[None]]:
    with ThreadPoolExecutor(1) as thread:
        try:
            yield thread.submit(load.run)
        finally:
            load.stop()


def wait_for(load: Load, count: int) -> None:
    """Wait until every client of the load has so many requests behind it."""
    enough = threading.Event()
    for _ in range(round(LIMIT / 0.01)):
        if all(len(client.samples) >= count for client in load.clients):
            return
        enough.wait(0.01)
    pytest.fail(f"only {[len(client.samples) for client in load.clients]} requests ended")


@pytest.mark.parametrize("library", ["httpx", "outlast"])
def test_all_clients_of_a_library_ask_until_the_end(library: str) -> None:
    with LoopbackStage(0) as stage:
        place = Place(stage.url)
        load = Load(library, ("pooled", "new"), place, 1.0)
        with at_work(load) as done:
            wait_for(load, 3 * WORKERS)
            place.now = 1.0
            done.result(LIMIT)
    assert [client.name for client in load.clients] == [f"{library}, pooled", f"{library}, new"]
    for client in load.clients:
        assert {sample.outcome for sample in client.samples} == {Outcome.OK}
        assert client.slowest is not None
        assert ("connected" in client.slowest.text) == (library == "outlast")


@pytest.mark.parametrize("library", ["httpx", "outlast"])
def test_an_error_is_recorded_by_its_kind(library: str) -> None:
    with LoopbackStage(0) as stage:
        url = stage.url  # where nobody listens any more
    load = Load(library, ("new",), Place(url), 1.0)
    with at_work(load) as done:
        wait_for(load, WORKERS)
        load.stop()
        with pytest.raises(asyncio.CancelledError):
            done.result(LIMIT)
    (client,) = load.clients
    assert {sample.error for sample in client.samples} == {"ConnectError"}
    assert client.first_error is not None
    assert client.first_error.text.startswith("httpx.ConnectError(")
    assert ("ECONNREFUSED" in client.first_error.text) == (library == "outlast")


def test_an_answer_that_is_no_success_is_an_error() -> None:
    with LoopbackStage(0) as stage:
        load = Load("httpx", ("pooled",), Place(f"{stage.url}/?status=503"), 1.0)
        with at_work(load):
            wait_for(load, 1)
    assert load.clients[0].samples[0].error == "status 503"


def test_a_mistake_of_ours_is_raised() -> None:
    load = Load("httpx", ("new",), Place("http://127.0.0.1:port"), 1.0)
    with at_work(load) as done, pytest.raises(Exception, match="Invalid"):
        done.result(LIMIT)
