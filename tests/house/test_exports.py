"""The public face: every promised name is there, and importing it costs next to nothing."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

import outlast
from tests.house.sources import ROOT, imports, library, made_up

PUBLIC: list[str] = list(getattr(outlast, "__all__", []))

# Nothing of these at `import outlast`: each costs milliseconds, or drags in an event loop.
HEAVY = {
    *("anyio", "asyncio", "certifi", "click", "concurrent", "dns", "email", "h11", "h2", "hpack"),
    *("http", "httpcore", "httpx", "httpx2", "logging", "rich", "sniffio", "socket", "ssl"),
    *("subprocess", "tenacity", "trio", "urllib"),
}
# dataclasses and typing with all they bring are about 45 on a bare interpreter.
FEW = 70

PROBE = """
import sys
before = set(sys.modules)
{statement}
print(*sorted(set(sys.modules) - before))
"""


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter loads to run `statement`."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(statement=statement)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return set(done.stdout.split())


def heavy(modules: set[str]) -> set[str]:
    return {module for module in modules if module.partition(".")[0] in HEAVY}


def missing(module: object, names: list[str]) -> list[str]:
    return [name for name in names if not hasattr(module, name)]


def test_every_public_name_is_there() -> None:
    assert missing(outlast, PUBLIC) == []


def test_public_names_are_listed_once_and_shown_by_dir() -> None:
    assert len(set(PUBLIC)) == len(PUBLIC)
    assert set(PUBLIC) <= set(dir(outlast))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = outlast.no_such_name  # type: ignore[attr-defined]  # that it is missing is the test


@pytest.mark.parametrize("name", [source.module for source in library()])
def test_every_module_keeps_the_promises_of_its_all(name: str) -> None:
    module = importlib.import_module(name)
    assert missing(module, list(getattr(module, "__all__", []))) == []


def test_importing_is_light() -> None:
    loaded = loaded_by("import outlast")
    assert heavy(loaded) == set()
    assert len(loaded) <= FEW, sorted(loaded)


# --- the gates can fail -----------------------------------------------------------------------


def test_a_heavy_import_is_seen() -> None:
    assert "ssl" in heavy(loaded_by("import ssl"))
    assert len(loaded_by("import httpx")) > FEW


def test_a_missing_name_is_seen() -> None:
    assert missing(outlast, ["__doc__", "no_such_name"]) == ["no_such_name"]


def test_a_lazy_import_is_told_from_an_eager_one() -> None:
    source = made_up("import a\ndef f():\n    import b")
    assert [(found.module, found.lazy) for found in imports(source)] == [("a", False), ("b", True)]
