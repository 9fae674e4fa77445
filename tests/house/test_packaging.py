"""The wheel: typed, whole, and with four dependencies."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

from tests.house.sources import ROOT

# These and what they bring. A fifth is a decision about everybody who installs the library.
DEPENDENCIES = {"anyio", "dnspython", "httpx", "tenacity"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (built,) = folder.glob("*.whl")
    return zipfile.Path(built)


def files(wheel: zipfile.Path) -> set[str]:
    with zipfile.ZipFile(str(wheel.root.filename)) as archive:
        return set(archive.namelist())


def metadata(wheel: zipfile.Path) -> str:
    with zipfile.ZipFile(str(wheel.root.filename)) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def dependencies(text: str) -> set[str]:
    """The names a plain installation brings, extras left out."""
    required = HeaderParser().parsestr(text).get_all("Requires-Dist", [])
    return {
        re.split(r"[^A-Za-z0-9._-]", line)[0].lower()
        for line in required
        if not re.search(r"\bextra\s*==", line)
    }


def absent(names: set[str], source: Path) -> list[str]:
    """Files of the source folder that the wheel lacks."""
    wanted = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return sorted(wanted - names)


def test_the_wheel_is_whole_and_typed(wheel: zipfile.Path) -> None:
    names = files(wheel)
    assert "outlast/py.typed" in names
    assert absent(names, ROOT / "src") == []


def test_the_wheel_brings_nothing_else(wheel: zipfile.Path) -> None:
    tops = {name.partition("/")[0] for name in files(wheel)}
    assert tops == {"outlast", "outlast-0.1.0.dist-info"}


def test_the_dependencies_are_the_four(wheel: zipfile.Path) -> None:
    assert dependencies(metadata(wheel)) == DEPENDENCIES


def test_the_command_is_there(wheel: zipfile.Path) -> None:
    with zipfile.ZipFile(str(wheel.root.filename)) as archive:
        points = archive.read("outlast-0.1.0.dist-info/entry_points.txt").decode()
    assert "outlast = outlast.cli:main" in points
    assert "[pytest11]\noutlast = outlast.testing.pytest_plugin" in points
    assert "outlast-0.1.0.dist-info/licenses/LICENSE" in files(wheel)


# --- the gates can fail -----------------------------------------------------------------------


def test_a_fifth_dependency_is_seen() -> None:
    text = "Requires-Dist: httpx>=0.27\nRequires-Dist: attrs\nRequires-Dist: h2; extra == 'http2'\n"
    assert dependencies(text) == {"httpx", "attrs"}


def test_a_lacking_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "outlast").mkdir()
    (tmp_path / "outlast" / "py.typed").touch()
    assert absent(set(), tmp_path) == ["outlast/py.typed"]
