"""`SimNet`: a request in each world, and the kernel lab's words in virtual time."""

from __future__ import annotations

import sys
from collections.abc import Callable

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from outlast.testing import SimNet
from tests.simnet.clusters import URL, async_client, client, get, pods_of, two_nodes


def test_a_get(backend: str) -> None:
    net = two_nodes()
    response = get(net, backend, f"{URL}?delay=2")
    assert response.json()["n"] == 1
    assert response.extensions["outlast"] is not None
    assert 2 < net.elapsed() < 2.01
    counted = [pod.counts() for pod in pods_of(net)]
    assert sorted(count["requests"] for count in counted) == [0, 1]
    assert [count["connections"] for count in counted] == [0, 1]  # this seed's choice


def test_a_node_is_lost_and_nobody_notices(backend: str) -> None:
    """Incident A: half of the endpoints are gone for 40 s."""
    net = two_nodes()
    a = net.node("c")
    orders = net.service("carts.shop.svc:80", pods=[a.pod(), net.node("d").pod()])
    net.at(3.0, a.power_off)
    net.at(43.0, orders.remove, a)
    statuses: list[int] = []

    async def main() -> None:
        async with async_client(net) as one:
            while net.elapsed() < 60:
                statuses.append((await one.get("http://carts.shop.svc/")).status_code)
                await anyio.sleep(0.5)

    def sync_main() -> None:
        with client(net) as one:
            while net.elapsed() < 60:
                statuses.append(one.get("http://carts.shop.svc/").status_code)
                net.sleep(0.5)

    if backend == "sync":
        with net.running():
            sync_main()
    else:
        net.run(main, backend=backend)
    assert set(statuses) == {200}
    assert len(statuses) > 100
    assert [what for _, what in net.log][-2:] == [
        "c: power off",
        "carts.shop.svc:80: remove c-1",
    ]
    assert [round(when) for when, _ in net.log][-2:] == [3, 43]


def test_times_begin_anew_with_each_run() -> None:
    net = SimNet()
    seen: list[float] = []
    net.at(2.0, lambda: seen.append(net.elapsed()))
    assert net.elapsed() == 0
    with net.running():
        net.sleep(1)
        net.at(0.5, lambda: seen.append(net.elapsed()))
        net.sleep(2)
    assert net.elapsed() == 3
    with net.running():
        assert net.elapsed() == 0
        net.at(7.0, lambda: seen.append(net.elapsed()))
        net.sleep(1)
    assert seen == [1, 2]


def test_a_scheduled_action_that_fails_is_told_at_the_end() -> None:
    net, seen = SimNet(), list[str]()

    def fail() -> None:
        raise ValueError("action")

    net.at(1.0, fail)
    net.at(2.0, seen.append, "the other")

    def scenario() -> None:
        with net.running():
            net.sleep(3)

    with pytest.raises(ValueError, match="action"):
        scenario()
    assert seen == ["the other"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes came with Python 3.11")
def test_a_failure_tells_its_seed(backend: str) -> None:
    net = SimNet(seed="x7")

    def scenario() -> None:
        with net.running():
            net.sleep(1.5)
            raise ValueError("mine")

    async def main() -> None:
        await anyio.sleep(1.5)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as told:
        scenario() if backend == "sync" else net.run(main, backend=backend)
    assert vars(told.value)["__notes__"] == [
        "SimNet(seed='x7'), after 1.500000 s of virtual time: the same seed has it again"
    ]


def test_a_time_before_the_start_is_refused() -> None:
    with pytest.raises(ValueError, match=r"right: net\.at\(3\.0"):
        SimNet().at(-1, print)


# -- workers -------------------------------------------------------------------------------


def test_workers_side_by_side() -> None:
    net = two_nodes()

    def work(number: int) -> Callable[[], list[int]]:
        def run() -> list[int]:
            with client(net) as one:
                return [one.get(URL, params={"w": number}).status_code for _ in range(5)]

        return run

    with net.running():
        assert net.gather(*map(work, range(4))) == [[200] * 5] * 4
    assert sum(pod.counts()["requests"] for pod in pods_of(net)) == 20


def test_gather_takes_names_and_raises_the_first_failure() -> None:
    net = SimNet()

    def fail() -> None:
        net.sleep(1)
        raise ValueError("second")

    with net.running():
        with pytest.raises(ValueError, match="one for each"):
            net.gather(fail, names=["a", "b"])
        names = net.gather(net.simulation.worker, net.simulation.worker, names=["x", "y"])
        assert names == ["x", "y"]
        with pytest.raises(ValueError, match="second"):
            net.gather(lambda: net.sleep(2), fail)
        assert net.elapsed() == 2
