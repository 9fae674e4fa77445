"""Engine code on a thread of its own."""

from __future__ import annotations

import threading

import pytest

from outlast.net.apart import Apart
from outlast.net.kernel import kernel
from outlast.net.run import sleep_until


def test_it_runs_and_is_waited_for() -> None:
    names: list[str] = []

    async def work() -> None:
        await sleep_until(kernel().now() + 0.01)
        names.append(threading.current_thread().name)

    Apart(kernel(), work, "outlast-test").join()
    assert names == ["outlast-test"]


def test_its_error_is_raised_once_where_it_is_waited_for() -> None:
    async def work() -> None:
        raise LookupError("gone")

    apart = Apart(kernel(), work, "outlast-test")
    with pytest.raises(LookupError, match="gone"):
        apart.join()
    apart.join()


def test_it_may_end_itself() -> None:
    made: list[Apart] = []
    ready = threading.Event()

    async def work() -> None:
        assert ready.wait(10)
        made[0].join()

    made.append(Apart(kernel(), work, "outlast-test"))
    ready.set()
    made[0].join()
