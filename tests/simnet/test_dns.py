"""Names: lag, caches, and name servers that fail."""

from __future__ import annotations

import socket

import pytest

from outlast.testing.simnet.dns import Answer
from tests.simnet.scene import Program, Scene


def ask(scene: Scene, name: str, within: float = 60.0) -> tuple[Answer, float]:
    """The answer, and how many seconds it took."""
    got: list[Answer] = []
    scene.world.dns.lookup(name, got.append)
    took = scene.when(lambda: got, within)
    assert took is not None
    return got[0], took


def code(answer: Answer) -> int | None:
    assert answer.addresses == ()
    assert isinstance(answer.error, socket.gaierror)
    return answer.error.errno


def test_services_have_names() -> None:
    scene = Scene()
    other = scene.a.place(Program())
    orders = scene.world.service("orders.shop.svc:80", [scene.pod])
    scene.world.service("peers.shop.svc:80", [scene.pod, other], headless=True)
    assert ask(scene, "orders.shop.svc") == (Answer((orders.host,)), 0.0005)
    assert ask(scene, "peers.shop.svc")[0] == Answer((scene.pod.host, other.host))
    assert code(ask(scene, "nobody.shop.svc")[0]) == socket.EAI_NONAME
    assert scene.world.dns.asked("orders.shop.svc") == 1


def test_a_headless_name_lags_by_its_ttl() -> None:
    scene = Scene()
    other = scene.a.place(Program())
    peers = scene.world.service("peers.shop.svc:80", [scene.pod, other], headless=True)
    before = ask(scene, "peers.shop.svc")[0]
    peers.remove(other)
    assert ask(scene, "peers.shop.svc")[0] == before
    scene.run(5.0)
    assert ask(scene, "peers.shop.svc")[0] == Answer((scene.pod.host,))
    peers.remove(scene.pod)
    scene.run(5.0)
    assert code(ask(scene, "peers.shop.svc")[0]) == socket.EAI_NODATA


def test_own_records() -> None:
    scene = Scene()
    dns = scene.world.dns
    dns.set("db.test", ["10.9.8.7", "10.9.8.6"], ttl=30.0)
    assert ask(scene, "db.test")[0] == Answer(("10.9.8.7", "10.9.8.6"))
    dns.remove("db.test")
    assert ask(scene, "db.test")[0].addresses
    scene.run(30.0)
    assert code(ask(scene, "db.test")[0]) == socket.EAI_NONAME
    dns.set("db.test", socket.gaierror(socket.EAI_FAIL, "no"))
    assert code(ask(scene, "db.test")[0]) == socket.EAI_FAIL


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("SERVFAIL", socket.EAI_AGAIN),
        ("NXDOMAIN", socket.EAI_NONAME),
        ("empty", socket.EAI_NODATA),
    ],
)
def test_answers_that_fail(how: str, expected: int) -> None:
    scene = Scene()
    for name in ("one.test", "two.test"):
        scene.world.dns.set(name, ["10.0.0.1"])
    scene.world.dns.fail(how, "one.test")
    assert code(ask(scene, "one.test")[0]) == expected
    assert ask(scene, "two.test")[0].addresses
    scene.world.dns.fail(how)
    assert code(ask(scene, "two.test")[0]) == expected
    scene.world.dns.heal()
    assert ask(scene, "one.test")[0].addresses


def test_queries_that_are_lost() -> None:
    scene = Scene()
    scene.world.dns.set("db.test", ["10.0.0.1"])
    scene.world.dns.lose(1.0)
    answer, took = ask(scene, "db.test")
    assert (code(answer), took) == (socket.EAI_AGAIN, 10.0)
    scene.world.dns.lose(0.5)
    times = [round(ask(scene, "db.test")[1], 1) for _ in range(100)]
    assert set(times) == {0.0, 5.0, 10.0}
    assert times.count(0.0) == pytest.approx(50, abs=15)
    assert times.count(10.0) == pytest.approx(25, abs=12)


def test_a_name_that_hangs() -> None:
    scene = Scene()
    scene.world.dns.set("slow.test", ["10.0.0.1"])
    release = scene.world.dns.hold("slow.test")
    got: list[Answer] = []
    scene.world.dns.lookup("slow.test", got.append)
    scene.run(1000.0)
    assert not got
    release()
    scene.run(1.0)
    assert got == [Answer(("10.0.0.1",))]


def test_shuffled_answers_are_drawn_by_name() -> None:
    def orders(first: str) -> list[tuple[str, ...]]:
        scene = Scene()
        scene.world.dns.shuffled = True
        scene.world.dns.set("db.test", [f"10.0.0.{n}" for n in range(1, 6)])
        scene.world.dns.set("first.test", ["10.0.0.9"])
        ask(scene, first)
        return [ask(scene, "db.test")[0].addresses for _ in range(4)]

    assert orders("first.test") == orders("nobody.test")
    assert len(set(orders("first.test"))) > 1
    assert {tuple(sorted(order)) for order in orders("first.test")} == {
        tuple(f"10.0.0.{n}" for n in range(1, 6))
    }


def test_mistakes_are_told() -> None:
    dns = Scene().world.dns
    with pytest.raises(ValueError, match="SERVFAIL"):
        dns.fail("REFUSED")
    with pytest.raises(ValueError, match=r"dns\.lose"):
        dns.lose(30)
