"""The guards of every test, shown to fail on tests that deserve it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

BAD_TESTS = """
import asyncio, os, socket, threading, time
import anyio, pytest
from hypothesis import given, settings, strategies

kept = []

def keep(name, work):
    begun, end = threading.Event(), threading.Event()
    thread = threading.Thread(
        target=lambda: (work(), begun.set(), end.wait()), daemon=True, name=name
    )
    thread.start()
    assert begun.wait(10)
    return end

def test_bad_thread():
    kept.append(keep("outlast-watch", lambda: None))

def test_bad_socket():
    kept.append(socket.create_server(("127.0.0.1", 0)))

def test_bad_unclosed_socket():
    socket.create_server(("127.0.0.1", 0))

def test_bad_sleep():
    time.sleep(0.001)

def test_bad_warning():
    import warnings
    warnings.warn("soon gone", DeprecationWarning)

def test_bad_thread_error():
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join(10)

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_bad_task():
    kept.append(asyncio.create_task(asyncio.Event().wait()))

@pytest.mark.anyio
async def test_bad_async_sleep(anyio_backend):
    await anyio.sleep(0.001)

@pytest.mark.anyio
async def test_bad_unawaited():
    anyio.lowlevel.checkpoint()

async def test_bad_unmarked():
    pass

@pytest.mark.unheard_of
def test_bad_marker():
    pass

def test_good_background_thread():
    kept.append(keep("outlast-background", lambda: kept.append(socket.socketpair())))

def test_good_environment():
    assert not {"HTTPS_PROXY", "SSL_CERT_FILE", "OUTLAST_POLICY"} & set(os.environ)

def test_good_thread_that_ends():
    end = keep("short", lambda: None)
    end.set()

@pytest.mark.lab
def test_good_lab_sleep():
    time.sleep(0.001)

@pytest.mark.anyio
async def test_good_async():
    await anyio.sleep(0)
    await anyio.to_thread.run_sync(lambda: None)

@settings(max_examples=3)
@given(strategies.integers())
@pytest.mark.anyio
async def test_good_property(number):
    await anyio.lowlevel.checkpoint()
"""

# guard -> what its message says
SAID = {
    "test_bad_thread": "thread 'outlast-watch'",
    "test_bad_socket": "left behind: AF_INET socket",
    "test_bad_unclosed_socket": "ResourceWarning: unclosed <socket",
    "test_bad_sleep": "time.sleep(0.001) in a test",
    "test_bad_warning": "DeprecationWarning: soon gone",
    "test_bad_thread_error": "PytestUnhandledThreadExceptionWarning",
    "test_bad_task": "asyncio tasks left behind",
    "test_bad_async_sleep": "anyio.sleep(0.001) in a test",
    "test_bad_unawaited": "never awaited",
    "test_bad_unmarked": "async def functions are not natively supported",
}


def run(tmp_path: Path, text: str) -> str:
    """The output of a run over one synthetic test file, under our own settings."""
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_made_up.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml")]
    command += ["--rootdir", str(tmp_path), "-o", f"pythonpath={ROOT}", "-p", "tests.guards"]
    command += [
        "--randomly-dont-reorganize",
        "-p",
        "no:cacheprovider",
        "-vv",
        "-rA",
        "--color=no",
        "--tb=short",
        str(folder),
    ]
    foreign = {"HTTPS_PROXY": "http://x", "SSL_CERT_FILE": "/x", "OUTLAST_POLICY": "attempts=1"}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **foreign},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    return done.stdout


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    without_bad_marker = BAD_TESTS.replace("@pytest.mark.unheard_of\n", "")
    return run(tmp_path_factory.mktemp("guarded"), without_bad_marker)


def verdicts(output: str, name: str) -> set[str]:
    """The outcomes listed for a test, over all its parameters and phases."""
    return {
        line.split()[0]
        for line in output.splitlines()
        if line.startswith(("PASSED ", "FAILED ", "ERROR "))
        and line.split("::")[-1].split("[")[0].split(" ")[0] == name
    }


@pytest.mark.parametrize("name", sorted(SAID))
def test_a_bad_test_fails(output: str, name: str) -> None:
    assert verdicts(output, name) & {"FAILED", "ERROR"}
    assert SAID[name] in output


def test_a_good_test_passes(output: str) -> None:
    good = re.findall(r"def (test_good\w+)", BAD_TESTS)
    assert len(good) == 6
    assert {name: verdicts(output, name) for name in good} == {name: {"PASSED"} for name in good}


def test_an_unknown_marker_stops_the_run(tmp_path: Path) -> None:
    output = run(tmp_path, BAD_TESTS)
    assert "unheard_of" in output
    assert "Interrupted: 1 error during collection" in output


def test_the_seed_is_printed(output: str) -> None:
    assert "Using --randomly-seed=" in output
