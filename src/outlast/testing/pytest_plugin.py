"""pytest on the simulated network: the fixture `simnet`, its seeds, and what a failure leaves.

    def test_sync(simnet): ...          # uses `with simnet.running():`
    async def test_async(simnet): ...   # runs in virtual time, on asyncio and on trio

`@pytest.mark.simnet(seeds=200)` runs a test with 200 seeds; `--simnet-seed` with one, to replay a
failure; `--simnet-seeds` with so many, whatever the test says. A failing test's report has its
seed, the shortest command that replays it, and the end of its transcript; all of it, and the
picture, are in pytest's cache directory.

An async test that takes `simnet` is run here, whatever pytest-asyncio, pytest-trio or anyio would
do with it; where anyio's fixture `anyio_backend` is in use, it says which backend.

Source: pytest's documentation of hooks. Nothing is imported before a test asks for it. Refuses
async fixtures: they would need a loop that begins before the test does.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import shlex
import types
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from outlast.testing.simnet.net import SimNet

__all__ = ["simnet"]

MARKER = "simnet(seeds=1, **settings): seeds to run with (how many, or which); settings of SimNet"
TAIL = 60  # lines of the transcript in a report

_NET = pytest.StashKey["SimNet"]()
_BACKEND = pytest.StashKey[str]()
_TEST = pytest.StashKey[Any]()  # an async one


def pytest_addoption(parser: pytest.Parser) -> None:
    """pytest: our options."""
    group = parser.getgroup("simnet", "the simulated network of outlast.testing")
    group.addoption("--simnet-seed", metavar="SEED", help="replay: run with this seed only")
    group.addoption(
        "--simnet-seeds",
        metavar="N",
        type=int,
        help="run every test that takes simnet with N seeds, whatever it says itself",
    )


def pytest_configure(config: pytest.Config) -> None:
    """pytest: our marker."""
    config.addinivalue_line("markers", MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """pytest: one test for each seed, and for each event loop."""
    if "simnet" not in metafunc.fixturenames:
        if any(mark.name == "simnet" for mark in metafunc.definition.own_markers):
            told = f"{metafunc.definition.nodeid} is marked simnet and does not take the fixture"
            raise pytest.UsageError(f"{told}; right: def {metafunc.definition.name}(simnet)")
        return
    marker = metafunc.definition.get_closest_marker("simnet")
    seeds = _seeds(metafunc.config, marker)
    told_by_anyio = "anyio_backend" in metafunc.fixturenames
    if told_by_anyio or not inspect.iscoroutinefunction(metafunc.function):
        cases = [(seed, "") for seed in seeds]
    else:
        cases = [(seed, backend) for seed in seeds for backend in _backends()]
    ids = [f"{backend}-seed{seed}" if backend else f"seed{seed}" for seed, backend in cases]
    metafunc.parametrize("simnet", cases, indirect=True, ids=ids)


def _seeds(config: pytest.Config, marker: pytest.Mark | None) -> Sequence[int | str]:
    one: str | None = config.getoption("simnet_seed")
    if one is not None:
        return [int(one) if re.fullmatch(r"-?\d+", one) else one]
    many: int | None = config.getoption("simnet_seeds")
    asked: Any = marker.kwargs.get("seeds", 1) if marker is not None else 1
    if many is not None:
        asked = many
    if isinstance(asked, int) and not isinstance(asked, bool):
        if asked < 1:
            raise pytest.UsageError(f"simnet: seeds={asked!r} is no seed at all; right: seeds=200")
        return range(asked)
    if isinstance(asked, (list, tuple, range)) and asked:
        return list(asked)
    raise pytest.UsageError(f"simnet: seeds={asked!r}; right: seeds=200, or seeds=[7, 11]")


def _backends() -> Iterator[str]:
    yield "asyncio"
    if importlib.util.find_spec("trio") is not None:
        yield "trio"


@pytest.fixture
def simnet(request: pytest.FixtureRequest) -> Iterator[SimNet]:
    """A simulated network with this test's seed; see `outlast.testing.SimNet`."""
    from outlast.testing.simnet.net import SimNet

    seed, backend = request.param
    marker = request.node.get_closest_marker("simnet")
    settings = dict(marker.kwargs) if marker is not None else {}
    settings.pop("seeds", None)
    with SimNet(seed=seed, **{"traced": True, **settings}) as net:
        request.node.stash[_NET] = net
        if inspect.iscoroutinefunction(request.node.obj):
            request.node.stash[_TEST] = request.node.obj
            request.node.stash[_BACKEND] = backend or _anyio_backend(request)
        yield net


def _anyio_backend(request: pytest.FixtureRequest) -> str:
    told: Any = request.getfixturevalue("anyio_backend")
    return str(told if isinstance(told, str) else told[0])


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """pytest: run an async test in virtual time. Others see a test that is not async."""
    test = item.stash.get(_TEST, None)
    if test is None:
        return (yield)
    net, backend, function = item.stash[_NET], item.stash[_BACKEND], cast("Any", item)

    def run(**arguments: Any) -> None:
        async def main() -> None:
            await test(**arguments)

        net.run(main, backend=backend)

    before, function.obj = function.obj, run
    function.runtest = types.MethodType(pytest.Function.runtest, item)
    try:
        return (yield)
    finally:
        function.obj = before
        del function.runtest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """pytest: tell of a failure how it can be had again, and what happened."""
    report = yield
    net = item.stash.get(_NET, None)
    if net is not None and report.failed:
        report.sections.append(("simnet", _account(item, net)))
    return report


def _account(item: pytest.Item, net: SimNet) -> str:
    lines = [f"seed {net.seed!r}, failed after {net.elapsed():.6f} s of virtual time"]
    options = (item.nodeid, f"--simnet-seed={net.seed}")
    lines.append(f"replay: pytest {' '.join(map(shlex.quote, options))}")
    told = net.transcript.text(packets=False).splitlines()
    if told:
        lines += _kept(item, net)
        left = len(told) - TAIL
        lines += [f"transcript{f', without the first {left} lines' if left > 0 else ''}:"]
        lines += told[-TAIL:]
    return "\n".join(lines)


def _kept(item: pytest.Item, net: SimNet) -> Iterator[str]:
    """Everything as files, where pytest keeps such things."""
    cache: Any = getattr(item.config, "cache", None)
    if cache is None:
        return
    name = re.sub(r"[^\w.-]+", "_", item.nodeid).strip("_")
    place = cache.mkdir("simnet") / f"{name}.txt"
    place.write_text(net.transcript.text(), encoding="utf-8")
    place.with_suffix(".svg").write_text(net.picture(), encoding="utf-8")
    yield f"all of it, packets too: {place}"
    yield f"as a picture: {place.with_suffix('.svg')}"
