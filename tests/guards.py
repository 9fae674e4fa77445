"""What every test is held to; `conftest.py` loads it as a plugin.

* nothing left behind: no thread, no socket, no asyncio task outlives the test that began it;
  unclosed files and coroutines that nobody awaited are warnings, and warnings are errors
* no real sleep, outside the tests on the real kernel
* no proxy, certificate or outlast setting of the machine reaches a test
* async tests run on asyncio (in debug mode: it reports calls from a wrong thread) and on trio

Waiting for stragglers is bounded; a guard never hides what it cannot explain.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import sniffio
import trio
from hypothesis import HealthCheck, settings

GRACE = 2.0  # seconds a straggler gets to end; generous, since a healthy test never uses it
LAB_TIMEOUT = 240  # seconds for one test on the kernel, which waits in real time

BACKGROUND = "outlast-background"  # the library's one thread, made to live as long as the process
IDLE_TRIO_WORKER = "Trio thread "  # trio keeps idle workers for 10 s; a busy one has another name

FOREIGN_SETTINGS = ("SSL_CERT_", "OUTLAST_", "SSLKEYLOGFILE")

settings.register_profile(
    "outlast",
    deadline=None,  # two cores, shared: the clock says nothing about the code
    derandomize=False,
    print_blob=True,  # a failure prints how to run it again
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("outlast")


def is_lab(item: pytest.Item) -> bool:
    """Whether the test runs on the real kernel, in real time."""
    return item.get_closest_marker("lab") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What lies in `tests/lab` is a lab test, with a longer time limit."""
    lab = config.rootpath / "tests" / "lab"
    for item in items:
        if lab in item.path.parents:
            item.add_marker("lab")
        if is_lab(item) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LAB_TIMEOUT))


# --- async tests ------------------------------------------------------------------------------


@pytest.fixture(
    params=[
        pytest.param(("asyncio", {"debug": True}), id="asyncio"),
        pytest.param(("trio", {}), id="trio"),
    ]
)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The event loops that async tests run on; debug mode would spoil the lab's figures."""
    name, options = request.param
    return name, {} if is_lab(request.node) else options


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test):
        pyfuncitem.obj = without_leaked_tasks(test)
    try:
        return (yield)
    finally:
        pyfuncitem.obj = test


def without_leaked_tasks(
    test: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., Coroutine[Any, Any, None]]:
    """The same test, failing when asyncio tasks outlive it. (trio cannot leak one.)"""

    @functools.wraps(test)
    async def watched(**arguments: object) -> None:
        before = asyncio_tasks()
        await test(**arguments)
        left = asyncio_tasks() - before
        if left:
            _, left = await asyncio.wait(left, timeout=GRACE)
        if left:
            names = ", ".join(sorted(repr(task) for task in left))
            pytest.fail(f"asyncio tasks left behind: {names}", pytrace=False)

    return watched


def asyncio_tasks() -> set[asyncio.Task[Any]]:
    try:
        return asyncio.all_tasks()
    except RuntimeError:  # no asyncio loop here: trio
        return set()


# --- threads and sockets ----------------------------------------------------------------------


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fails the test when threads, sockets or a running loop outlive it."""
    threads, sockets = set(threading.enumerate()), open_sockets()
    yield
    left = leaked_threads(threads) + leaked_sockets(sockets, spare=wakeup_sockets(threads))
    loop = asyncio._get_running_loop()
    if loop is not None:  # else no later test of this process could run one
        asyncio._set_running_loop(None)
        left.append(f"a loop that counts as running: {loop!r}")
    library = sniffio.thread_local.name or sniffio.current_async_library_cvar.get()
    if library is not None:  # the same, by what anyio looks at
        sniffio.thread_local.name = None
        sniffio.current_async_library_cvar.set(None)
        left.append(f"{library}, which counts as running")
    if left:
        pytest.fail("left behind: " + "; ".join(left), pytrace=False)


def working_threads() -> int:
    """How many threads there are, apart from the background one, which comes and goes by itself."""
    return sum(thread.name != BACKGROUND for thread in threading.enumerate())


def leaked_threads(before: set[threading.Thread]) -> list[str]:
    """Threads begun since that do not end within the grace time."""
    until = time.monotonic() + GRACE
    left = []
    for thread in set(threading.enumerate()) - before:
        if thread.name == BACKGROUND or thread.name.startswith(IDLE_TRIO_WORKER):
            continue
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive() and not thread.name.startswith(IDLE_TRIO_WORKER):
            left.append(f"thread {thread.name!r}")
    return sorted(left)


def wakeup_sockets(before: set[threading.Thread]) -> int:
    """How many sockets may stay: the background thread, once begun, keeps a pair to be woken by."""
    begun = [t for t in set(threading.enumerate()) - before if t.name == BACKGROUND]
    return 2 * len(begun)


def leaked_sockets(before: dict[str, int], spare: int = 0) -> list[str]:
    """Sockets opened since and still open, after garbage is gone."""
    until = time.monotonic() + GRACE
    left = set(open_sockets()) - set(before)
    if len(left) > spare:
        gc.collect()  # each one found here is a ResourceWarning too, and so an error
    while len(left) > spare and time.monotonic() < until:
        left = set(open_sockets()) - set(before)
        threading.Event().wait(0.01)  # a server's thread may be about to close its end
    if len(left) <= spare:
        return []
    now = open_sockets()
    return sorted(describe(now[inode]) for inode in left & set(now))


def open_sockets() -> dict[str, int]:
    """The sockets of this process, as inode and descriptor; empty where /proc does not tell."""
    found = {}
    for name in os.listdir("/proc/self/fd") if sys.platform == "linux" else ():
        try:
            link = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the descriptor that listed the folder
            continue
        if link.startswith("socket:"):
            found[link] = int(name)
    return found


def describe(descriptor: int) -> str:
    """A socket in words a reader can look for."""
    with socket.socket(fileno=os.dup(descriptor)) as sock:
        family = getattr(sock.family, "name", sock.family)
        try:
            ends = f"{sock.getsockname()} to {sock.getpeername()}"
        except OSError:
            ends = f"{sock.getsockname()}, not connected"
    return f"{family} socket {ends} (descriptor {descriptor})"


# --- time and environment ---------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_real_sleep(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes sleeping raise when a test's own file asks for it. The library may sleep."""
    if is_lab(request.node):
        return
    folder = request.config.rootpath / "tests"
    for module, name in (
        (time, "sleep"),
        (asyncio, "sleep"),
        (trio, "sleep"),
        (trio, "sleep_until"),
        (anyio, "sleep"),
        (anyio, "sleep_until"),
    ):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, refusing(real, f"{module.__name__}.{name}", folder))


def refusing(real: Callable[..., Any], name: str, folder: Path) -> Callable[..., Any]:
    """`real`, raising when called with a positive time from a file in `folder`."""

    @functools.wraps(real)
    def sleep(*args: Any, **kwargs: Any) -> Any:
        seconds = [*args, *kwargs.values()][0]
        if seconds > 0 and folder in Path(sys._getframe(1).f_code.co_filename).parents:
            raise AssertionError(f"{name}({seconds}) in a test: wait for an event, with a bound")
        return real(*args, **kwargs)

    return sleep


@pytest.fixture(autouse=True)
def clean_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes what the machine says about proxies, certificates and this library."""
    if is_lab(request.node):  # the lab speaks to its own processes through the environment
        return
    for name in list(os.environ):
        if name.upper().endswith("_PROXY") or name.upper().startswith(FOREIGN_SETTINGS):
            monkeypatch.delenv(name)
