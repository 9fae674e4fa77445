"""Nothing above `net` waits by itself: one wait outside the seam would break virtual time.

Waiting, clock, threads and sockets come from the seam in `net`. A lock is allowed, as long as it
is held for a few assignments: never across I/O, never with a timeout.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.house.sources import Source, calls, imports, library, made_up
from tests.house.test_doors import room

ABOVE_NET = {"service", "http", "shims", "face", "telemetry", "top"}

# Modules that wait, tell the time, or make threads; also in functions. Imports for typing are free.
WAITING = {
    *("_thread", "anyio", "asyncio", "concurrent", "multiprocessing", "queue", "sched", "select"),
    *("selectors", "signal", "sniffio", "socket", "socketserver", "subprocess", "threading"),
    *("time", "trio"),
}
# Names of those modules that do not wait.
HARMLESS = {
    ("threading", "Lock"),
    ("socket", "AddressFamily"),
    ("socket", "gaierror"),  # caught and told, never waited for
}
# (module, imported module) that may, with the reason. Every entry is used, see the test below.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("outlast.shims.adapters.asyncpg", "asyncio"): "asks which loop runs; awaits asyncpg alone",
    ("outlast.shims.patch.places", "socket"): "what the patch is put on",
    ("outlast.shims.patch.sockets", "socket"): "makes and connects sockets in its place",
}
# Rooms that are of the kernel alone: no simulated network can stand below them.
KERNEL_ONLY = {
    "outlast.shims.run": "supervises processes and their sockets, on an event loop of its own",
}

# Calls that do I/O, wait, or run code of others (`emit`): not inside a `with lock:`.
INPUT_OUTPUT = {
    *("aclose", "close", "connect", "dial", "emit", "handshake", "look_up", "park"),
    *("read", "receive"),
    *("recv", "send", "send_all", "sendall", "sleep", "wait", "wait_any", "write"),
}


def of_the_kernel(module: str) -> bool:
    """Whether a module may wait as it likes."""
    return any(module == name or module.startswith(f"{name}.") for name in KERNEL_ONLY)


def waits_by_other_means(sources: Iterable[Source]) -> Iterator[str]:
    """Imports and calls above `net` that wait past the seam."""
    for source in sources:
        if room(source.module) not in ABOVE_NET or of_the_kernel(source.module):
            continue
        for found in imports(source):
            allowed = (found.module, found.name) in HARMLESS or (
                (source.module, found.module) in EXCEPTIONS
            )
            if found.top in WAITING and not found.typing_only and not allowed:
                name = found.module if found.name is None else f"{found.module}.{found.name}"
                yield source.finding(found.line, f"{name} waits past the seam")
        for call, dotted, name in calls(source):
            keywords = {keyword.arg for keyword in call.keywords}
            if name == "acquire" and (call.args or keywords & {"timeout", "blocking"}):
                yield source.finding(call, f"{dotted}() with a timeout waits past the seam")
            if name == "join" and "timeout" in keywords:
                yield source.finding(call, f"{dotted}() with a timeout waits past the seam")
            if name in ("wrap_socket", "to_thread", "run_in_executor"):
                yield source.finding(call, f"{dotted}() waits past the seam")


def io_under_lock(sources: Iterable[Source]) -> Iterator[str]:
    """`with ...lock:` blocks that await, yield or do I/O, in any room but the tests' tools."""
    for source in sources:
        if room(source.module) in ("testing", "cli"):
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, (ast.With, ast.AsyncWith)) and any(_is_lock(i) for i in node.items):
                for statement in node.body:
                    yield from _io(source, statement)


def _is_lock(item: ast.withitem) -> bool:
    return ast.unparse(item.context_expr).lower().endswith(("lock", "mutex"))


def _io(source: Source, statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom)):
            yield source.finding(node, f"{type(node).__name__.lower()} under a lock")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in INPUT_OUTPUT:
            yield source.finding(node, f"{ast.unparse(node.func)}() under a lock")


def test_nothing_above_net_waits_by_other_means() -> None:
    assert list(waits_by_other_means(library())) == []


def test_no_input_or_output_under_a_lock() -> None:
    assert list(io_under_lock(library())) == []


def test_every_exception_is_used() -> None:
    assert set(KERNEL_ONLY) <= {source.module for source in library()}
    used = {(source.module, found.module) for source in library() for found in imports(source)}
    assert set(EXCEPTIONS) <= used


# --- the gates can fail -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "import threading",
        "from threading import Lock, Condition",
        "import time",
        "from time import monotonic",
        "def f():\n    import asyncio",
        "import anyio.lowlevel",
        "import concurrent.futures",
        "from socket import create_connection",
        "import_module('select')",
        "lock.acquire(timeout=1)",
        "lock.acquire(True, 1)",
        "thread.join(timeout=1)",
        "context.wrap_socket(sock)",
    ],
)
def test_waiting_is_reported(text: str) -> None:
    for module in ("outlast.http.x", "outlast.service.x", "outlast.shims.x", "outlast.policy"):
        (finding,) = waits_by_other_means([made_up(text, module)])
        assert finding.endswith("waits past the seam")


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("outlast.http.x", "from threading import Lock\nwith lock: pass"),
        ("outlast.http.x", "if TYPE_CHECKING:\n    import asyncio"),
        ("outlast.http.x", "x = ', '.join(names)"),
        ("outlast.http.x", "from socket import AddressFamily"),
        ("outlast.net.x", "import threading"),
        ("outlast.cli.x", "import anyio"),
    ],
)
def test_what_does_not_wait_is_not_reported(module: str, text: str) -> None:
    assert list(waits_by_other_means([made_up(text, module)])) == []


@pytest.mark.parametrize(
    "body",
    [
        *("stream.close()", "x = await f()", "yield x", "if a:\n            sock.send(b'')"),
        "events.emit(event)",
    ],
)
def test_io_under_a_lock_is_reported(body: str) -> None:
    text = f"async def f(self):\n    with self._lock:\n        {body}\n    stream.close()"
    assert len(list(io_under_lock([made_up(text, "outlast.http.x")]))) == 1


def test_a_short_lock_is_not_reported() -> None:
    text = "def f(self):\n    with self._lock:\n        x = self.idle.pop()\n    x.close()"
    assert list(io_under_lock([made_up(text, "outlast.http.x")])) == []
