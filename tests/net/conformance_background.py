"""The seam's conformance: jobs in the background."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from outlast.net.seam import WAKE, Wait, Waiter
from tests.net.conformance_waits import SeamTests
from tests.net.drivers import Driver
from tests.net.far_side import MOMENT, PATIENCE, World


class Background(SeamTests):
    """What `spawn` promises."""

    def test_a_job_runs(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> bool:
            done = net.waiter()

            async def job() -> None:
                await Wait((), net.now() + MOMENT)
                done.wake()

            net.spawn(job)
            return bool(await Wait(((done, WAKE),), net.now() + PATIENCE))

        assert drive(engine)

    def test_jobs_run_side_by_side(self, world: World, drive: Driver) -> None:
        """Each needs the other to get on."""
        net = world.network

        def job(mine: Waiter, other: Waiter, done: Waiter) -> Callable[[], Any]:
            async def run() -> None:
                other.wake()
                if await Wait(((mine, WAKE),), net.now() + PATIENCE):
                    done.wake()

            return run

        async def engine() -> None:
            a, b, a_done, b_done = (net.waiter() for _ in range(4))
            net.spawn(job(a, b, a_done))
            assert not await Wait(((a_done, WAKE),), net.now() + MOMENT)
            net.spawn(job(b, a, b_done))
            for done in (a_done, b_done):
                assert await Wait(((done, WAKE),), net.now() + PATIENCE)

        drive(engine)

    def test_a_job_may_spawn_another(self, world: World, drive: Driver) -> None:
        net = world.network

        async def engine() -> bool:
            done = net.waiter()

            async def second() -> None:
                done.wake()

            async def first() -> None:
                net.spawn(second)

            net.spawn(first)
            return bool(await Wait(((done, WAKE),), net.now() + PATIENCE))

        assert drive(engine)

    @pytest.mark.parametrize("how", ["at once", "later", "before it begins", "by an exit"])
    def test_a_failing_job_harms_no_other(
        self, world: World, drive: Driver, caplog: pytest.LogCaptureFixture, how: str
    ) -> None:
        net = world.network

        async def failing() -> None:
            if how == "later":
                await Wait((), net.now() + MOMENT / 3)
            if how == "by an exit":
                raise SystemExit("job")
            raise RuntimeError("job")

        def unwilling() -> Coroutine[Any, Any, None]:
            raise RuntimeError("job")

        async def engine() -> None:
            before, after = net.waiter(), net.waiter()

            async def job() -> None:
                await Wait((), net.now() + MOMENT)
                before.wake()

            async def next_job() -> None:
                after.wake()

            net.spawn(job)
            net.spawn(unwilling if how == "before it begins" else failing)
            assert await Wait(((before, WAKE),), net.now() + PATIENCE)
            net.spawn(next_job)
            assert await Wait(((after, WAKE),), net.now() + PATIENCE)

        drive(engine)
        assert "background job failed" in caplog.text
