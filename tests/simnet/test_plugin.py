"""The pytest plugin, as a user's project meets it: in a folder and a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

SUITE = """
import anyio
import httpx
import pytest

import outlast


def cluster(net):
    net.service("orders.shop.svc:80", pods=[net.node("a").pod()])
    return "http://orders.shop.svc/"


def test_sync(simnet):
    url = cluster(simnet)
    with simnet.running(), httpx.Client(transport=outlast.Transport(network=simnet)) as client:
        simnet.sleep(3600)
        assert client.get(url).status_code == 200


async def test_async(simnet):
    transport = outlast.AsyncTransport(network=simnet)
    async with httpx.AsyncClient(transport=transport) as client:
        await anyio.sleep(3600)
        assert (await client.get(cluster(simnet))).status_code == 200


@pytest.mark.simnet(seeds=3, traced=False)
def test_many(simnet):
    assert simnet.seed in range(3)
    assert simnet.trace is None


@pytest.mark.simnet(seeds=["x", 5])
@pytest.mark.parametrize("number", [1, 2])
def test_named(simnet, number):
    assert simnet.seed in ("x", 5)


def test_without():
    pass
"""

FAILING = """
import anyio
import pytest


@pytest.mark.simnet(seeds=9)
async def test_unlucky(simnet):
    pod = simnet.node("a").pod()
    await anyio.sleep(1.5)
    pod.kill()
    assert simnet.seed != 4
"""


BROKEN = """
import pytest


@pytest.fixture
def early(simnet):
    with simnet.running():
        simnet.sleep(2)
        raise RuntimeError("in the setup")


@pytest.fixture
def late(simnet):
    yield
    raise RuntimeError("in the teardown")


def test_early(early):
    pass


@pytest.mark.simnet(seeds=["a b"])
def test_late(late):
    pass
"""

# As plugins do that run async tests themselves, by a class of their own, by replacing the function,
# or by a hook that comes first.
OTHERS = """
import asyncio
import inspect

import pytest


class Function(pytest.Function):
    def runtest(self):
        before = self.obj
        self.obj = lambda **arguments: asyncio.run(before(**arguments))
        super().runtest()


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector, name, obj):
    items = yield
    for item in items if isinstance(items, list) else []:
        if inspect.iscoroutinefunction(item.obj):
            item.__class__ = Function
    return items


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    before = item.obj
    if inspect.iscoroutinefunction(before):
        item.obj = lambda **arguments: asyncio.run(before(**arguments))
    try:
        return (yield)
    finally:
        item.obj = before


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        asyncio.run(pyfuncitem.obj(**pyfuncitem.funcargs))
        return True
"""


def run(folder: Path, text: str, *options: str) -> str:
    """What pytest says of a suite."""
    (folder / "test_it.py").write_text(text)
    known = {point.value for point in entry_points(group="pytest11")}
    plugin = "outlast.testing.pytest_plugin"
    load = () if plugin in known else ("-p", plugin)
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-rA", *load, *options]
    done = subprocess.run(
        command, check=False, cwd=folder, capture_output=True, text=True, timeout=50
    )
    return done.stdout + done.stderr


def test_sync_and_async_tests_with_their_seeds(tmp_path: Path) -> None:
    told = run(tmp_path, SUITE)
    assert "11 passed" in told
    for name in ("test_sync[seed0]", "test_async[asyncio-seed0]", "test_async[trio-seed0]"):
        assert f"PASSED test_it.py::{name}" in told
    assert "test_many[seed2]" in told
    assert "test_named[1-seedx]" in told or "test_named[seedx-1]" in told


def test_options_win(tmp_path: Path) -> None:
    told = run(tmp_path, SUITE, "--simnet-seed=2", "-k", "many or async")
    assert "3 passed" in told
    assert "test_many[seed2]" in told
    assert "12 passed" in run(tmp_path, SUITE, "--simnet-seeds=12", "-k", "test_sync")


def test_a_failure_tells_how_it_can_be_had_again(tmp_path: Path) -> None:
    told = run(tmp_path, FAILING, "-k", "unlucky")
    assert "2 failed, 16 passed" in told
    assert "seed 4, failed after 1.500000 s of virtual time" in told
    assert "    1.500000  world                    a-1: kill" in told
    replay = "pytest 'test_it.py::test_unlucky[asyncio-seed4]' --simnet-seed=4"
    assert replay in told
    kept = re.findall(r"(?:packets too|as a picture): (\S+)", told)
    assert [Path(path).suffix for path in kept] == [".txt", ".svg"] * 2
    assert all(Path(path).stat().st_size for path in kept)
    assert "a-1: kill" in Path(kept[0]).read_text()
    again = run(tmp_path, FAILING, "test_it.py::test_unlucky[asyncio-seed4]", "--simnet-seed=4")
    assert "1 failed" in again


@pytest.mark.parametrize("seeds", ["0", "[]", "None"])
def test_seeds_that_are_none_are_refused(tmp_path: Path, seeds: str) -> None:
    text = SUITE.replace("seeds=3", f"seeds={seeds}")
    assert "right: seeds=200" in run(tmp_path, text, "-k", "many")


def test_every_phase_tells_its_seed(tmp_path: Path) -> None:
    told = run(tmp_path, BROKEN)
    assert "seed 0, failed after 2.000000 s of virtual time" in told
    assert "replay: pytest 'test_it.py::test_early[seed0]' --simnet-seed=0" in told
    assert "replay: pytest 'test_it.py::test_late[seeda b]' '--simnet-seed=a b'" in told


def test_plugins_that_run_async_tests_leave_these_alone(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(OTHERS)
    told = run(tmp_path, SUITE)
    assert "11 passed" in told


def test_anyio_says_which_backend_where_it_is_asked(tmp_path: Path) -> None:
    told = run(tmp_path, SUITE, "-o", "anyio_mode=auto", "-k", "test_async")
    assert "2 passed" in told
    text = f"{SUITE}\n\n@pytest.fixture\ndef anyio_backend():\n    return 'trio', {{}}\n"
    told = run(tmp_path, text, "-o", "anyio_mode=auto", "-k", "test_async")
    assert "1 passed" in told


def test_a_marker_without_the_fixture_is_refused(tmp_path: Path) -> None:
    told = run(tmp_path, "import pytest\n\n@pytest.mark.simnet(seeds=2)\ndef test_a(): pass\n")
    assert "right: def test_a(simnet)" in told
