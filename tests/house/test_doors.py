"""The doors between the rooms: who may import whom, and what the core may import at all."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.house.sources import Import, Source, calls, functions, imports, library, made_up

ROOMS = {"core", "face", "values", "net", "service", "http", "shims", "top"}
FACE = {
    *("outlast.cancelling", "outlast.errors", "outlast.event_kinds", "outlast.event_log"),
    *("outlast.events", "outlast.fields", "outlast.policy", "outlast.strategies"),
    "outlast.target",
}
VALUES = {"outlast.net.address", "outlast.net.options"}  # net's values, which policies are made of

# A room and the rooms it may look into. `face` is values and words: what users write down and
# catch. `top` is every other module that lies directly in the package, and the package itself:
# entry points, made of all rooms below and imported by none of them.
DOORS: dict[str, set[str]] = {
    "core": {"core"},
    "face": {"core", "values", "face"},
    "net": {"core", "values", "net"},
    "service": {"core", "face", "values", "net", "service"},
    "http": {"core", "face", "values", "net", "service", "http"},
    "shims": {"core", "face", "values", "net", "service", "shims"},
    "telemetry": {"core", "face", "values", "service", "telemetry"},  # only users look into it
    "testing": {"core", "face", "values", "net", "service", "http", "top", "testing"},
    "top": {"core", "face", "values", "net", "service", "http", "shims", "top"},
    "cli": {*ROOMS, "testing", "cli"},
}

# Libraries that a room may use, beyond the standard one. One that is missing here is a decision.
LIBRARIES: dict[str, set[str]] = {
    "core": set(),
    "face": {"httpx", "httpx2", "tenacity"},
    "net": {"anyio", "trio", "certifi", "exceptiongroup"},
    "service": {"anyio", "dns"},  # anyio: types only, test_waiting holds that
    # typing_extensions: types only, which every checker brings along; nothing imports it
    "http": {
        *("h11", "h2", "hpack", "httptools", "hyperframe", "httpx", "httpx2", "certifi"),
        "typing_extensions",
    },
    # Adapters subclass the client of the user's choice: each an extra, imported on use only.
    "shims": {
        *("wrapt", "httpx", "httpx2", "tomli", "aiohttp", "asyncpg", "grpc", "psycopg", "pymysql"),
        *("redis", "requests", "sqlalchemy", "urllib3"),
    },
    "telemetry": {"opentelemetry", "prometheus_client"},
    "testing": {
        *("anyio", "h11", "h2", "httpcore", "httpx", "httpx2", "pytest", "trio"),
        "typing_extensions",
    },
    "top": {"httpx", "httpx2", "typing_extensions"},
    "cli": {"anyio", "click", "httpx", "httpx2", "rich", "trio"},
}

# What is pure in the standard library. No I/O, no clock, no threads; of `random` only the class.
CORE_STDLIB = {
    *("__future__", "abc", "array", "base64", "bisect", "collections", "contextlib", "copy"),
    *("dataclasses", "datetime", "email", "enum", "errno", "fractions", "functools", "hashlib"),
    *("heapq", "http", "ipaddress", "itertools", "math", "numbers", "operator", "random", "re"),
    *("statistics", "string", "struct", "sys", "types", "typing", "zlib"),
}
CORE_SUBMODULES = {"collections.abc", "email.utils"}
CORE_CALLS = {
    "open": "does I/O",
    "print": "does I/O",
    "input": "does I/O",
    "now": "reads the clock",
    "utcnow": "reads the clock",
    "today": "reads the clock",
    "localtime": "reads the clock",
    "SystemRandom": "draws from the system",
    "getsizeof": "depends on the interpreter",
}


def room(module: str) -> str:
    """The room that a module of the library lies in."""
    if module in FACE:
        return "face"
    second = module.split(".")[1] if "." in module else ""
    return second if second in DOORS else "top"


def entered(module: str) -> str:
    """The door that an import of this module goes through."""
    return "values" if module in VALUES else room(module)


def resolved(found: Import, known: set[str]) -> str:
    """The module that an import opens: `from outlast import policy` opens `outlast.policy`."""
    if found.name is not None and f"{found.module}.{found.name}" in known:
        return f"{found.module}.{found.name}"
    return found.module


def closed_doors(sources: Iterable[Source]) -> Iterator[str]:
    """Imports that lead into a room which may not be looked into, or out of the house."""
    sources = list(sources)
    known = {source.module for source in sources}
    for source in sources:
        here = room(source.module)
        for found in imports(source):
            if found.top == "outlast":
                there = entered(resolved(found, known))
                if there not in DOORS[here]:
                    yield source.finding(found.line, f"{here} may not import {there}")
            elif found.module.startswith("."):
                yield source.finding(found.line, "imports are absolute here")


def foreign_libraries(sources: Iterable[Source], stdlib: frozenset[str]) -> Iterator[str]:
    """Imports of libraries that a room was not given."""
    for source in sources:
        here = room(source.module)
        for found in imports(source):
            if found.top in {"outlast", "?", ""} | stdlib | LIBRARIES[here]:
                continue
            yield source.finding(found.line, f"{here} was not given the library {found.top}")


def impure(sources: Iterable[Source]) -> Iterator[str]:
    """What the core may not do: I/O, clock, threads, and random draws that nobody gave it."""
    for source in sources:
        if room(source.module) == "core":
            yield from _impure_imports(source)
            yield from _impure_expressions(source)


def _impure_imports(source: Source) -> Iterator[str]:
    for found in imports(source):
        if found.top == "outlast":
            continue
        whole = found.module in CORE_SUBMODULES or found.module in CORE_STDLIB
        if found.top not in CORE_STDLIB or not whole:
            yield source.finding(found.line, f"core may not import {found.module}")
        elif found.module == "random" and found.name not in (None, "Random"):
            yield source.finding(found.line, "of random, core may use the class Random only")


def _impure_expressions(source: Source) -> Iterator[str]:
    own_hash = {
        id(call)
        for function in functions(source)
        if function.name == "__hash__"
        for call in ast.walk(function)
    }
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != "random":
            continue
        if node.attr != "Random":
            yield source.finding(node, f"random.{node.attr} is drawn from global state")
    for call, dotted, name in calls(source):
        if name in CORE_CALLS:
            yield source.finding(call, f"core calls {dotted}(): it {CORE_CALLS[name]}")
        elif name == "Random" and not call.args:
            yield source.finding(call, "Random() without a seed draws from the system")
        elif dotted == "hash" and id(call) not in own_hash:
            yield source.finding(call, "hash() differs from process to process; use zlib.crc32")


def circles(sources: Iterable[Source]) -> Iterator[str]:
    """Modules that import each other when they load."""
    sources = list(sources)
    known = {source.module for source in sources}
    edges = {
        source.module: {
            resolved(found, known)
            for found in imports(source)
            if not found.lazy and not found.typing_only and resolved(found, known) in known
        }
        for source in sources
    }
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> Iterator[str]:
        if module in path:
            yield "a circle: " + " -> ".join([*path[path.index(module) :], module])
        elif module not in done:
            for target in sorted(edges[module]):
                yield from visit(target, (*path, module))
            done.add(module)

    for module in sorted(edges):
        yield from visit(module, ())


def stdlib() -> frozenset[str]:
    import sys

    return frozenset(sys.stdlib_module_names) | {"tomllib"}


def test_no_door_is_forced() -> None:
    assert list(closed_doors(library())) == []


def test_each_room_uses_its_own_libraries() -> None:
    assert list(foreign_libraries(library(), stdlib())) == []


def test_typing_extensions_is_for_types_only() -> None:
    found = [(each, source) for source in library() for each in imports(source)]
    eager = [
        s.path for each, s in found if each.top == "typing_extensions" and not each.typing_only
    ]
    assert eager == []


def test_the_core_is_pure() -> None:
    assert list(impure(library())) == []


def test_no_circles() -> None:
    assert list(circles(library())) == []


# --- the gates can fail -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "text", "reported"),
    [
        ("outlast.core.x", "from outlast.net import seam", "core may not import net"),
        ("outlast.core.x", "def f():\n import outlast.policy", "core may not import face"),
        (
            "outlast.core.x",
            "if TYPE_CHECKING:\n from outlast.http.pool import Pool",
            "core may not import http",
        ),
        ("outlast.policy", "from outlast.net.seam import Seam", "face may not import net"),
        ("outlast.net.x", "from outlast.service import table", "net may not import service"),
        ("outlast.policy", "import outlast.sockets", "face may not import top"),
        ("outlast.net.x", "from outlast.policy import Policy", "net may not import face"),
        ("outlast.net.x", "from outlast import Policy", "net may not import top"),
        ("outlast.http.x", "import outlast.shims", "http may not import shims"),
        ("outlast.http.x", "import_module('outlast.testing')", "http may not import testing"),
        ("outlast", "from outlast.testing import SimNet", "top may not import testing"),
        ("outlast.http.x", "import outlast.telemetry", "http may not import telemetry"),
        ("outlast.telemetry.x", "from outlast.net import seam", "telemetry may not import net"),
        ("outlast.testing.x", "import outlast.cli", "testing may not import cli"),
        ("outlast.core.x", "from . import race", "imports are absolute here"),
    ],
)
def test_closed_doors_are_reported(module: str, text: str, reported: str) -> None:
    (finding,) = closed_doors([made_up(text, module)])
    assert finding.endswith(reported)


def test_open_doors_are_not_reported() -> None:
    policy = made_up("from outlast.core.race import Race", "outlast.policy")
    target = made_up("from outlast.net.address import Address", "outlast.target")
    user = made_up("from outlast import policy", "outlast.http.x")
    entry = made_up("from outlast.net.dial import dial", "outlast.sockets")
    assert list(closed_doors([policy, target, user, entry])) == []


@pytest.mark.parametrize(
    ("module", "library_name"),
    [
        ("outlast.core.x", "httpx"),
        ("outlast.net.x", "h11"),
        ("outlast.http.x", "anyio"),
        ("outlast.cli.x", "typer"),
    ],
)
def test_foreign_libraries_are_reported(module: str, library_name: str) -> None:
    text = f"import os\ndef f():\n    from {library_name}.inner import name"
    (finding,) = foreign_libraries([made_up(text, module)], stdlib())
    assert finding.endswith(f"was not given the library {library_name}")


@pytest.mark.parametrize(
    "text",
    [
        "import socket",
        "import time",
        "from threading import Lock",
        "import asyncio",
        "import os.path",
        "import http.client",
        "import email.message",
        "from random import random",
        "x = random.uniform(0, 1)",
        "x = Random()",
        "x = random.SystemRandom(1)",
        "x = datetime.datetime.now()",
        "x = open('f')",
        "x = hash('name')",
        "def f():\n    import select",
    ],
)
def test_impurity_is_reported(text: str) -> None:
    assert list(impure([made_up(text)]))


@pytest.mark.parametrize(
    "text",
    [
        "from random import Random\nx = Random(7)",
        "import random\ndef f(rng: random.Random) -> float:\n    return rng.random()",
        "from collections.abc import Iterator",
        "from email.utils import parsedate_to_datetime",
        "class A:\n    def __hash__(self) -> int:\n        return hash(self.a)",
    ],
)
def test_purity_is_not_reported(text: str) -> None:
    assert list(impure([made_up(text)])) == []


def test_a_circle_is_reported() -> None:
    a = made_up("from outlast.core import b", "outlast.core.a")
    b = made_up("from outlast.core.c import name", "outlast.core.b")
    c = made_up("import outlast.core.a", "outlast.core.c")
    lazy = made_up("def f():\n    import outlast.core.a", "outlast.core.c")
    assert list(circles([a, b, c])) == [
        "a circle: outlast.core.a -> outlast.core.b -> outlast.core.c -> outlast.core.a"
    ]
    assert list(circles([a, b, lazy])) == []
