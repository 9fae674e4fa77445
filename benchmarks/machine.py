"""What a report says of where it was measured: processor, kernel, Python, versions, commit."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

__all__ = ["commit", "machine", "version"]

ROOT = Path(__file__).resolve().parents[1]


def machine() -> str:
    """One line: processor, cores, kernel, Python, and how busy it is (load average, 1 min)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{_processor()}, {cores} cores; {platform.system()} {platform.release()}; "
        f"{platform.python_implementation()} {platform.python_version()}; "
        f"load average {os.getloadavg()[0]:.1f}"
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def version(package: str) -> str:
    """The version that is installed, or "-"."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "-"


def commit() -> str:
    """The state of the source that was measured; "+" where files differ from it."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=10"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return "-"
    return done.stdout.strip() or "-"
