"""Several coroutines of engine code under one owner, stepped side by side."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from outlast.net.run import Strands, sleep_until
from outlast.net.seam import WAKE, Interest, Wait
from tests.net.drivers import Driver
from tests.net.scripted import Scripted
from tests.net.test_run import LOOPS, Broken


@pytest.fixture
def net() -> Scripted:
    """A network in virtual time."""
    return Scripted()


@pytest.fixture(params=["sync", *LOOPS])
def drive(request: pytest.FixtureRequest, net: Scripted) -> Driver:
    """Runs engine code in virtual time."""
    return Driver(request.param, net)


async def at_time(net: Scripted, moment: float, result: str) -> str:
    await sleep_until(moment)
    assert net.now() >= moment
    return result


async def failing_at(moment: float, error: BaseException) -> str:
    await sleep_until(moment)
    raise error


def test_the_first_that_ends_comes_first(net: Scripted, drive: Driver) -> None:
    async def engine() -> list[Any]:
        strands: Strands[str, str] = Strands(net)
        for name, moment in (("slow", 3.0), ("quick", 1.0), ("at once", 0.0), ("middle", 2.0)):
            strands.start(name, at_time(net, moment, name.upper()))
        assert len(strands) == 4
        found = [(await strands.next(), net.now()) for _ in range(4)]
        assert not len(strands)
        return found

    assert drive(engine) == [
        (("at once", "AT ONCE"), 0.0),
        (("quick", "QUICK"), 1.0),
        (("middle", "MIDDLE"), 2.0),
        (("slow", "SLOW"), 3.0),
    ]


def test_a_strand_that_needs_a_loop_fails_alone(net: Scripted, drive: Driver) -> None:
    trail: list[str] = []

    async def foreign() -> str:
        try:
            await asyncio.sleep(0)
        finally:
            trail.append("cleaned up")
        return "never"

    async def engine() -> list[Any]:
        strands: Strands[str, str] = Strands(net)
        strands.start("foreign", foreign())
        strands.start("own", at_time(net, 1.0, "own"))
        return [await strands.next(), await strands.next()]

    (key, error), own = drive(engine)
    assert key == "foreign"
    assert isinstance(error, RuntimeError)
    assert trail == ["cleaned up"]
    assert own == ("own", "own")


def test_an_error_is_handed_to_the_owner(net: Scripted, drive: Driver) -> None:
    error = OSError("strand")

    async def engine() -> Any:
        strands: Strands[int, str] = Strands(net)
        strands.start(1, failing_at(1.0, error))
        strands.start(2, at_time(net, 2.0, "well"))
        return await strands.next(), await strands.next()

    assert drive(engine) == ((1, error), (2, "well"))


def test_an_interrupt_goes_to_the_owner_at_once(net: Scripted, drive: Driver) -> None:
    async def engine() -> Any:
        strands: Strands[int, str] = Strands(net)
        strands.start(1, failing_at(1.0, KeyboardInterrupt()))
        strands.start(2, at_time(net, 2.0, "well"))
        with pytest.raises(KeyboardInterrupt):
            await strands.next()
        assert 1 not in strands
        return await strands.next()

    assert drive(engine) == (2, "well")


def test_nothing_ends_before_its_time(net: Scripted, drive: Driver) -> None:
    async def engine() -> Any:
        strands: Strands[int, str] = Strands(net)
        strands.start(1, at_time(net, 2.0, "late"))
        assert await strands.next(1.5) is None
        assert net.now() == 1.5
        assert await strands.next(1.0) is None
        assert net.now() == 1.5
        return await strands.next(2.5), net.now()

    assert drive(engine) == ((1, "late"), 2.0)


def test_a_look_takes_no_time(net: Scripted, drive: Driver) -> None:
    """What is ready at this very moment ends; nothing else is waited for."""

    async def two_steps() -> str:
        waiter = net.waiter()
        waiter.wake()
        await Wait(((waiter, WAKE),))
        await sleep_until(1.0)
        return "two"

    async def engine() -> Any:
        strands: Strands[int, str] = Strands(net)
        strands.start(1, two_steps())
        strands.start(2, at_time(net, 0.0, "one"))
        looks = [await strands.next(net.now()), await strands.next(net.now())]
        assert net.now() == 0.0
        return looks, await strands.next()

    assert drive(engine) == ([(2, "one"), None], (1, "two"))


def test_something_else_may_end_the_wait(net: Scripted, drive: Driver) -> None:
    async def engine() -> Any:
        strands: Strands[int, str] = Strands(net)
        strands.start(1, at_time(net, 2.0, "late"))
        bell = net.waiter()
        net.later(1.0, bell.wake)
        also: tuple[Interest, ...] = ((bell, WAKE),)
        assert await strands.next(also=also) is None
        return net.now(), await strands.next()

    assert drive(engine) == (1.0, (1, "late"))


def test_strands_in_a_strand(net: Scripted, drive: Driver) -> None:
    async def inner(names: str) -> str:
        strands: Strands[str, str] = Strands(net)
        for moment, name in enumerate(names, 1):
            strands.start(name, at_time(net, moment, name))
        found = ""
        while len(strands):
            ended = await strands.next()
            assert ended is not None
            found += str(ended[1])
        return found

    async def engine() -> Any:
        strands: Strands[int, str] = Strands(net)
        strands.start(1, inner("abc"))
        strands.start(2, inner("xy"))
        return await strands.next(), await strands.next(), net.now()

    assert drive(engine) == ((2, "xy"), (1, "abc"), 3.0)


def test_a_cancelled_strand_is_closed_where_it_stands(net: Scripted, drive: Driver) -> None:
    trail: list[str] = []

    async def strand(name: str) -> str:
        try:
            await sleep_until(math.inf)
        finally:
            trail.append(f"{name} at {net.now()}")
        return name

    async def engine() -> None:
        strands: Strands[str, str] = Strands(net)
        for name in "abc":
            strands.start(name, strand(name))
        assert await strands.next(1.0) is None
        strands.cancel("b")
        assert trail == ["b at 1.0"]
        assert "b" not in strands
        strands.cancel("b")
        strands.close()

    drive(engine)
    assert sorted(trail) == ["a at 1.0", "b at 1.0", "c at 1.0"]


def test_a_strand_that_has_not_begun_is_dropped(net: Scripted) -> None:
    strands: Strands[str, str] = Strands(net)
    strands.start("a", at_time(net, 1.0, "a"))
    strands.close()
    assert not len(strands)


def test_a_close_reaches_all_even_if_one_ends_badly(net: Scripted, drive: Driver) -> None:
    trail: list[str] = []

    async def strand(name: str) -> str:
        try:
            await sleep_until(math.inf)
        finally:
            trail.append(name)
            if name != "c":
                raise OSError(f"the end of {name}")
        return name

    async def engine() -> None:
        strands: Strands[str, str] = Strands(net)
        for name in "abc":
            strands.start(name, strand(name))
        assert await strands.next(1.0) is None
        with pytest.raises(OSError, match="the end of"):
            strands.close()

    drive(engine)
    assert sorted(trail) == ["a", "b", "c"]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_cancelled_owner_leaves_its_strands_as_they_are(loop: str) -> None:
    """The wait's error is raised by `next`; what to do with the strands is the owner's to say."""
    trail: list[str] = []
    net = Broken()

    async def engine() -> None:
        strands: Strands[str, str] = Strands(net)
        strands.start("a", at_time(net, 1.0, "a"))
        try:
            await strands.next()
        finally:
            trail.append("still there" if "a" in strands else "gone")
            strands.close()

    with pytest.raises(ConnectionError):
        Driver(loop, net)(engine)
    assert trail == ["still there"]
