"""Whom requests go to, by what the target says of its endpoints: levels, zones, weights, keys. In
virtual time, over the transport; the rules themselves are `core.roster`'s, and tested there."""

from __future__ import annotations

from collections import Counter

import httpx
import pytest

import outlast
from tests.fire.routing import Called, Scene, steady

RATE = 20  # calls a second


def run(scene: Scene, client: httpx.AsyncClient, until: float) -> Called:
    async def main() -> Called:
        async with client:
            return await steady(scene, client, rate=RATE, until=until)

    called = scene.net.run(main)
    assert not called.errors(), called.errors()[:3]
    return called


def text(scene: Scene, *options: str) -> str:
    """The target of the scene's pods, each with its options."""
    return "static://" + ",".join(
        pod.address + given for pod, given in zip(scene.pods, options, strict=True)
    )


@pytest.mark.parametrize("fault", ["kill", "power_off"])
def test_a_spare_serves_what_the_first_level_cannot(fault: str) -> None:
    """One of two dead: the rest counts for 0.5 x 1.4, so that three in ten go to the spare. Both
    dead: it has everything. Both back: nothing."""
    scene = Scene(1, 3)
    target = text(scene, "", "", ";priority=1")
    first, second, _ = scene.pods
    for at, pod in ((5.0, first), (15.0, second)):
        scene.net.at(at, pod.kill if fault == "kill" else pod.node.power_off)
    for pod in (first, second):
        scene.net.at(25.0, pod.start if fault == "kill" else pod.node.power_on)
    check = outlast.TcpCheck()  # that they are back is known at once
    run(scene, scene.client(target=outlast.Target(target, check=check)), until=45.0)
    asked = scene.asked
    assert asked.share(2, until=5.0) == 0.0
    assert asked.share(2, since=8.0, until=15.0) == pytest.approx(0.3, abs=0.1)
    assert asked.share(2, since=18.0, until=25.0) == 1.0
    assert asked.share(2, since=40.0) == 0.0


def test_our_own_zone_serves_while_half_of_it_is_well() -> None:
    scene = Scene(1, 4)
    target = outlast.Target(text(scene, ";zone=a", ";zone=a", ";zone=b", ";zone=b"), zone="a")
    for at, pod in ((5.0, scene.pods[0]), (15.0, scene.pods[1])):
        scene.net.at(at, pod.kill)
        scene.net.at(25.0, pod.start)
    run(scene, scene.client(target=target), until=45.0)
    asked = scene.asked
    assert set(asked.shares(until=5.0)) == {0, 1}
    assert set(asked.shares(8.0, 15.0)) == {1}
    assert set(asked.shares(18.0, 25.0)) == {2, 3}
    assert set(asked.shares(40.0)) == {0, 1}


@pytest.mark.parametrize(
    "balance", [outlast.P2C(), outlast.RoundRobin(), outlast.LeastRequest()], ids=str
)
def test_weights_are_shares(
    balance: outlast.P2C | outlast.RoundRobin | outlast.LeastRequest,
) -> None:
    scene = Scene(1, 3)
    target = outlast.Target(text(scene, ";weight=2", "", ";weight=3"), balance=balance)
    run(scene, scene.client(target=target), until=30.0)
    shares = [scene.asked.share(number) for number in range(3)]
    assert shares == [pytest.approx(part / 6, rel=0.15) for part in (2, 1, 3)]


def test_the_first_serves_alone_and_again_when_it_is_back() -> None:
    scene = Scene(1, 3)
    scene.net.at(5.0, scene.pods[0].node.power_off)
    scene.net.at(15.0, scene.pods[0].node.power_on)
    run(scene, scene.client(target=outlast.Target(scene.text, balance=outlast.PickFirst())), 45.0)
    asked = scene.asked
    assert set(asked.shares(until=5.0)) == {0}
    assert set(asked.shares(7.0, 15.0)) == {1}
    assert set(asked.shares(40.0)) == {0}


def test_one_that_fails_fast_attracts_nobody() -> None:
    """It answers 500, which is not repeated, in a tenth of the time."""
    scene = Scene(1, 4, takes=0.02)
    scene.faults[0] = (500, 0.002)
    plan = outlast.HealthPlan(count_only={"failure_rate"})  # the balance alone
    client = scene.client(target=outlast.Target(scene.text, health=plan))

    async def main() -> Called:
        async with client:
            return await steady(scene, client, rate=RATE, until=20.0)

    scene.net.run(main)
    assert scene.asked.share(0) < 0.05


def test_a_key_stays_where_it_is_while_others_move() -> None:
    """Of four endpoints one dies: its keys go elsewhere, those of the others stay."""
    scene = Scene(1, 4)
    hashed = outlast.ConsistentHash(header="x-user")
    served: dict[str, Counter[tuple[bool, str]]] = {}

    async def main() -> None:
        async with scene.client(target=outlast.Target(scene.text, balance=hashed)) as client:
            for dead in (False, True):
                if dead:
                    scene.pods[0].kill()
                for number in range(200):
                    user = f"u{number % 40}"
                    got = await client.get("http://orders.shop.svc:8080/", headers={"x-user": user})
                    served.setdefault(user, Counter())[dead, got.text] += 1

    scene.net.run(main)
    moved = 0
    for counts in served.values():
        before = {pod for dead, pod in counts if not dead}
        after = {pod for dead, pod in counts if dead}
        assert len(before) == 1
        if before == {"0"}:
            moved += 1
            assert "0" not in after
        else:
            assert after == before
    assert 4 <= moved <= 18


@pytest.mark.parametrize(("slow_start", "least", "most"), [(10.0, 0.01, 0.12), (0.0, 0.14, 0.35)])
def test_one_that_returns_is_given_little_at_first(
    slow_start: float, least: float, most: float
) -> None:
    """From a tenth of its share to all of it in ten seconds: in the first four, a quarter."""
    scene = Scene(1, 4)
    scene.net.at(2.0, scene.pods[0].kill)
    scene.net.at(10.0, scene.pods[0].start)
    plan = outlast.HealthPlan(slow_start=slow_start)
    target = outlast.Target(scene.text, health=plan, check=outlast.TcpCheck())
    run(scene, scene.client(target=target), until=31.0)
    # Its check finds it within two times 0.5 s, more or less.
    assert least <= scene.asked.share(0, since=11.0, until=15.0) <= most
    assert scene.asked.share(0, since=21.0) > 0.19
