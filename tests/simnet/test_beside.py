"""Sync code beside async code, in threads that know nothing of the simulation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from outlast.testing import SimNet
from tests.simnet.clusters import URL, client, two_nodes


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_sync_code_in_a_worker_thread_of_a_loop(loop: str) -> None:
    net = two_nodes()

    def ask() -> int:
        with client(net) as one:
            return one.get(f"{URL}?delay=2").status_code

    async def main() -> list[int]:
        found: list[int] = []

        async def work() -> None:
            found.append(await anyio.to_thread.run_sync(ask))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(work)
            await anyio.sleep(1)
            assert not found
        return found

    assert net.run(main, backend=loop) == [200] * 3
    assert 2 <= net.elapsed() < 2.1


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_worker_thread_calls_back_into_its_loop(loop: str) -> None:
    net = SimNet()

    async def main() -> float:
        def work() -> float:
            anyio.from_thread.run(anyio.sleep, 3)
            return net.elapsed()

        return await anyio.to_thread.run_sync(work)

    assert net.run(main, backend=loop) == 3


def test_a_thread_pool_of_plain_threads() -> None:
    net = two_nodes()
    with net.running(), client(net) as one:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(one.get, [f"{URL}?delay=1"] * 8))
        assert [answer.status_code for answer in answers] == [200] * 8
        assert 1.9 < net.elapsed() < 3.1
