"""`outlast.snapshot` of real calls in virtual time: standing, budgets, checks, connections."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import pytest

import outlast
from outlast.service.snapshot import EndpointSnapshot, TargetSnapshot
from outlast.testing import SimNet
from tests.http.event_scenes import checked
from tests.http.listening import KINDS, URL, Shop


def target_of(shop: Shop) -> TargetSnapshot:
    found = outlast.snapshot(shop.net).get(shop.target)
    assert found is not None
    return found


def endpoint(shop: Shop, number: int) -> EndpointSnapshot:
    found = target_of(shop).get(shop.pods[number].address)
    assert found is not None
    return found


def test_of_a_network_that_nobody_has_used_there_is_none() -> None:
    assert str(outlast.snapshot(SimNet())) == "no target has been used yet"


@pytest.mark.parametrize("client", KINDS)
def test_calls_connections_and_budgets(client: str) -> None:
    async def case(shop: Shop) -> None:
        for _ in range(10):
            await shop.get("?delay=0.01")
        target = target_of(shop)
        assert target.calls == 10
        assert not target.panic
        assert [each.address for each in target.endpoints] == [pod.address for pod in shop.pods]
        assert {each.standing for each in target.endpoints} == {"in"}
        assert sum(each.connections or 0 for each in target.endpoints) == len(
            [each for each in target.endpoints if each.last_success is not None]
        )
        assert all(each.connections == each.idle for each in target.endpoints)
        used = [each.latency for each in target.endpoints if each.latency is not None]
        assert used
        assert all(latency == pytest.approx(0.01, abs=0.005) for latency in used)
        budget = target.retry_budget_left
        await shop.get("?status=503")
        after = target_of(shop).retry_budget_left
        assert budget is not None
        assert after is not None
        assert after < budget
        json.dumps(outlast.snapshot(shop.net).as_dict(), allow_nan=False)

    Shop(client).play(case)


def test_what_is_under_way_is_pending_and_not_idle() -> None:
    async def case(shop: Shop) -> None:
        seen: list[TargetSnapshot] = []
        shop.net.at(0.5, lambda: seen.append(target_of(shop)))
        shop.net.gather(*[lambda: shop.client.get(URL + "?delay=1")] * 3)
        (during,) = seen
        assert during.pending == 3
        assert all((each.connections, each.idle) == (each.pending, 0) for each in during.endpoints)
        assert target_of(shop).pending == 0

    Shop("sync").play(case)


def test_one_that_is_out_says_why_and_until_when_and_one_that_is_back_does_not() -> None:
    async def case(shop: Shop) -> None:
        for _ in range(12):
            await shop.get()
        shop.pods[0].kill()
        await shop.nap(0.1)
        aside = endpoint(shop, 0)
        while not endpoint(shop, 0).ejections:
            await shop.get()
            await shop.nap(0.05)
        gone = endpoint(shop, 0)
        assert (aside.standing, aside.ejections) == ("in", 0)
        assert (gone.standing, gone.evidence, gone.rule) == ("out", "death", "connect_failures")
        assert gone.why == "failed connect, 3 in a row"
        assert gone.until is not None
        assert 3.0 < gone.until - shop.net.now() < 7.0
        assert gone.ejections == 1
        assert gone.connections == gone.idle == 0
        assert "out, " in str(outlast.snapshot(shop.net))
        shop.pods[0].start()
        while shop.net.elapsed() < 60.0:
            await shop.get()
            await shop.nap(0.1)
        back = endpoint(shop, 0)
        assert (back.standing, back.evidence, back.rule, back.why) == ("in", "", "", "")
        assert back.until is None
        assert back.weight == 1.0
        assert not back.suspect

    Shop("sync").play(case)


def test_checks_are_told_and_what_they_have_put_out_waits_for_them() -> None:
    async def case(shop: Shop) -> None:
        await shop.get()
        await shop.nap(1.0)
        assert {each.check for each in target_of(shop).endpoints} == {"up"}
        shop.nodes[0].power_off()
        for _ in range(20):
            await shop.get()
            await shop.nap(0.5)
        gone = endpoint(shop, 0)
        assert (gone.standing, gone.rule, gone.until) == ("out", "check", math.inf)
        assert gone.check == "down"
        assert "waiting for a connection" in gone.check_why
        assert "out, until checked" in str(outlast.snapshot(shop.net))
        shop.nodes[0].power_on()
        for _ in range(20):
            await shop.get()
            await shop.nap(0.5)
        assert (endpoint(shop, 0).standing, endpoint(shop, 0).check) == ("in", "up")

    shop = Shop("sync")
    shop.configure(checked(shop))
    shop.play(case)


def test_settings_that_change_let_in_what_a_check_has_put_out() -> None:
    """Nobody would find out any more that it is well."""

    async def case(shop: Shop) -> None:
        await shop.get()
        shop.nodes[0].power_off()
        for _ in range(20):
            await shop.get()
            await shop.nap(0.5)
        assert endpoint(shop, 0).until == math.inf
        other = outlast.Transport(network=shop.net, targets=plain(shop))
        with httpx.Client(transport=other) as client:
            client.get(URL)  # noqa: ASYNC212  in virtual time
            assert endpoint(shop, 0).standing == "in"
            for _ in range(20):
                await shop.nap(0.5)
                client.get(URL)  # noqa: ASYNC212  in virtual time
        assert endpoint(shop, 0).until != math.inf
        assert endpoint(shop, 0).check == ""

    shop = Shop("sync")
    shop.configure(checked(shop))
    shop.play(case)


def plain(shop: Shop) -> dict[str, Any]:
    """The same target, without checks and with another pick."""
    return {URL: outlast.Target(shop.target, balance=outlast.RoundRobin())}


def test_connections_are_summed_over_transports_and_those_that_are_gone_do_not_count() -> None:
    async def case(shop: Shop) -> None:
        await shop.get()
        other = outlast.Transport(network=shop.net, targets={URL: shop.target})
        client = httpx.Client(transport=other)
        client.get(URL)  # noqa: ASYNC212  in virtual time
        assert endpoint(shop, 0).connections == 2
        client.close()  # noqa: ASYNC212  in virtual time
        assert endpoint(shop, 0).connections == 1
        assert outlast.snapshot(SimNet()).targets == ()

    Shop("sync", 1).play(case)
