"""What would never end is given up, and named: also where things go on happening."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from types import FrameType, ModuleType

import anyio
import anyio.to_thread
import httpx
import pytest

import outlast
from outlast.testing import Request, SimNet, SimStalled
from outlast.testing.simnet import pod_loop, watchdog
from outlast.testing.simnet.stall import within_a_loop
from tests.simnet.clusters import get

PATIENCE = 0.5  # real seconds
LONG = 30.0  # real seconds; a test that lasts as long has failed


ASYNC = ["asyncio", "trio"]


def stalled(net: SimNet, backend: str, url: str) -> str:
    begun = time.monotonic()
    with pytest.raises(SimStalled) as told:
        get(net, backend, url)
    assert time.monotonic() - begun < LONG
    return str(told.value)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second is long enough for an instant."""
    monkeypatch.setattr(watchdog, "PATIENCES", 1.5)


@pytest.mark.usefixtures("impatient")
def test_a_handler_that_yields_without_end(backend: str) -> None:
    async def yields(_request: Request) -> str:
        while True:  # noqa: ASYNC110  that is the mistake
            await asyncio.sleep(0)

    net = SimNet(patience=PATIENCE)
    told = stalled(net, backend, net.node("a").pod(yields).url)
    assert "main is busy, asleep or waiting" in told
    assert "await asyncio.sleep(0)" in told
    assert net.elapsed() < 0.001


def test_a_handler_that_sleeps_in_real_time(backend: str) -> None:
    def sleeps(_request: Request) -> str:
        time.sleep(LONG)
        return "late"

    net = SimNet(patience=PATIENCE)
    told = stalled(net, backend, net.node("a").pod(sleeps).url)
    assert "time.sleep(LONG)" in told


@pytest.mark.usefixtures("impatient")
def test_sleeps_too_short_to_get_anywhere(backend: str) -> None:
    net = SimNet(patience=PATIENCE)

    async def main() -> None:
        while True:  # noqa: ASYNC110  that is the mistake
            await anyio.sleep(1e-9)

    def sync() -> None:
        with net.running():
            # In one line: it is told where it stands, which in a loop may be its head too.
            deque(map(net.sleep, itertools.repeat(1e-9)), maxlen=0)

    with pytest.raises(SimStalled, match="busy, asleep or waiting") as told:
        sync() if backend == "sync" else net.run(main, backend=backend)
    assert ("repeat(1e-9)" if backend == "sync" else "sleep(1e-9)") in str(told.value)


@pytest.mark.parametrize("backend", ASYNC)
def test_a_real_sleep_in_a_worker_thread(backend: str) -> None:
    """Others have something to do meanwhile: their time stands still, until patience ends."""
    net = SimNet(patience=PATIENCE)
    enough = threading.Event()

    def sleeps() -> None:
        while not enough.is_set():
            time.sleep(0.05)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 60)
            await anyio.to_thread.run_sync(sleeps, abandon_on_cancel=True)

    with pytest.raises(SimStalled, match="busy, asleep or waiting in real time") as told:
        net.run(main, backend=backend)
    enough.set()
    assert "time.sleep(0.05)" in str(told.value)
    assert "task main stands at" in str(told.value)


@pytest.mark.parametrize("backend", ASYNC)
def test_tasks_are_named_with_their_lines(backend: str) -> None:
    net = SimNet(patience=PATIENCE)

    async def worker() -> None:
        await anyio.Event().wait()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(worker, name="w1")

    with pytest.raises(SimStalled, match="nothing is going to happen") as told:
        net.run(main, backend=backend)
    assert "task w1 stands at" in str(told.value)
    assert "await anyio.Event().wait()" in str(told.value)


def test_a_process_that_was_stopped_for_long_is_not_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A laptop that slept, a machine without time for anybody: nobody is to blame."""
    clock = Jumping(time.monotonic)
    monkeypatch.setattr(watchdog, "time", clock)
    net = SimNet(patience=2.0)
    with net.running(), httpx.Client(transport=outlast.Transport(network=net)) as client:
        clock.ahead = 3600.0
        begun = time.monotonic()
        while time.monotonic() - begun < 3 * net.simulation.turns.patience / 16:
            continue  # the watchdog looks meanwhile
        assert client.get(net.node("a").pod().url).status_code == 200


class Jumping:
    """A `time` module whose clock can be set forward."""

    def __init__(self, real: Callable[[], float]) -> None:
        self._real = real
        self.ahead = 0.0

    def monotonic(self) -> float:
        return self._real() + self.ahead

    sleep = staticmethod(time.sleep)


def standing_in(file: str | None) -> FrameType:
    """A frame of code that lies in `file`, called from this test."""
    found: dict[str, FrameType] = {}
    code = compile("found['frame'] = sys._getframe()", str(file), "exec")
    exec(code, {"found": found, "sys": sys})
    return found["frame"]


@pytest.mark.parametrize(
    ("module", "spared"), [(pod_loop, True), (asyncio.events, True), (sys.modules[__name__], False)]
)
def test_nobody_is_struck_while_one_loop_takes_the_place_of_another(
    module: ModuleType, spared: bool
) -> None:
    """An error there left the pod's loop behind as the running one, and no test after it could
    run any. The run is told as soon as the pod has had its round."""
    assert within_a_loop(standing_in(module.__file__)) is spared
