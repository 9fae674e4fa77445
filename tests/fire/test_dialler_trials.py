"""A dialler's pick of an endpoint on trial: what it meets counts, and nothing stays open."""

from __future__ import annotations

import anyio
import pytest

import outlast
from outlast.core.health import Health, Standing
from outlast.net.address import Address, literal
from outlast.service.service import Service
from outlast.service.table import service_of
from outlast.target import target_of
from outlast.testing import SimNet

HOST, PORT = "orders.test", 80


class Shop:
    """A name with two addresses, which transports and diallers share."""

    def __init__(self) -> None:
        self.net = SimNet()
        self.pods = [self.net.node(name).pod(port=PORT) for name in ("a", "b")]
        self.net.dns.set(HOST, [pod.host for pod in self.pods], ttl=1.0)
        found = [literal(pod.host, PORT) for pod in self.pods]
        self.addresses: list[Address] = [each for each in found if each is not None]

    @property
    def service(self) -> Service:
        return service_of(target_of(HOST, PORT), self.net)

    def health(self, number: int) -> Health:
        return self.service.look(lambda roster: list(roster)[number].health)

    def dial(self) -> None:
        outlast.create_connection((HOST, PORT), 5, network=self.net).close()


def ejected_for_answers(shop: Shop) -> None:
    shop.dial()
    for _ in range(5):
        shop.service.answered(shop.addresses[0], 503, shop.net.now())
    shop.net.sleep(7.0)  # its trial is due


def test_a_connection_is_no_answer() -> None:
    """The endpoint stays out, and its trial is the next request's."""
    shop = Shop()
    with shop.net.running():
        ejected_for_answers(shop)
        for _ in range(5):
            shop.dial()
            assert shop.health(0).standing is Standing.OUT
            assert shop.health(0).due(shop.net.now())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_nor_is_one_that_was_given_up(backend: str) -> None:
    shop = Shop()

    async def main() -> None:
        shop.service.resolved(shop.addresses, shop.net.now())
        for _ in range(5):
            shop.service.answered(shop.addresses[0], 503, shop.net.now())
        await anyio.sleep(7.0)
        shop.pods[0].node.power_off()
        with anyio.move_on_after(0.05):
            await outlast.connect_tcp(HOST, PORT, network=shop.net)

    shop.net.run(main, backend=backend)
    assert shop.health(0).standing is Standing.OUT


def test_a_dead_one_is_tried_by_one_dial_not_by_each() -> None:
    shop = Shop()
    with shop.net.running():
        shop.dial()
        shop.pods[0].node.power_off()
        for _ in range(3):
            shop.service.failed(shop.addresses[0], shop.net.now())
        shop.net.sleep(7.0)
        began = shop.net.elapsed()
        for _ in range(10):
            shop.dial()
        assert shop.net.elapsed() - began < 0.6, "one attempt delay and ten quick dials"
        assert shop.health(0).standing is Standing.OUT
