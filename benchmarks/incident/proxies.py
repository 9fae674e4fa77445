"""A proxy's process on the client's node, from its start until it has answered from every pod.

The process ends with the block, and with this process whatever happens to it. Refuses to go on when
the proxy does not answer within 20 s, and says what it wrote.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from outlast.testing import KernelLab

__all__ = ["PORT", "Proxy", "running"]

PORT = 8000  # on 127.0.0.1 of the client's node, where nobody else is
_START = 20.0
_BOOT = """\
import os, sys
from outlast.testing.tether import die_with
die_with(int(sys.argv[1]))
log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
os.dup2(log, 1)
os.dup2(log, 2)
os.execv(sys.argv[3], sys.argv[3:])
"""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A way to run a proxy: its program, its words, and what it is told."""

    program: str  # the name in PATH
    arguments: Callable[[str], list[str]]  # from the configuration's path
    configuration: Callable[[Sequence[str], int], str]  # from endpoints and port
    suffix: str


@contextlib.contextmanager
def running(proxy: Proxy, path: str, lab: KernelLab, endpoints: Sequence[str]) -> Iterator[str]:
    """Its URL, ready. `path` is where the program lies. Raises RuntimeError with its own words."""
    with tempfile.TemporaryDirectory(prefix="outlast-bench-") as folder:
        file, log = Path(folder, f"proxy{proxy.suffix}"), Path(folder, "log")
        file.write_text(proxy.configuration(endpoints, PORT), encoding="utf-8")
        command = [path, *proxy.arguments(str(file))]
        boot = [sys.executable, "-c", _BOOT, str(os.getpid()), str(log), *command]
        process = lab.client.spawn(boot)
        try:
            lab.hand.do(lab.client.space, _wait, process, log, len(endpoints))
            yield f"http://127.0.0.1:{PORT}"
        finally:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], log: Path, pods: int) -> None:
    """Runs on the client's node."""
    seen: set[object] = set()
    until = time.monotonic() + _START
    while len(seen) < pods:
        if process.poll() is not None or time.monotonic() > until:
            said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            raise RuntimeError(f"{process.args!r} does not answer from {pods} pods: {said}")
        try:
            seen.add(_asked())
        except (OSError, http.client.HTTPException, ValueError):
            time.sleep(0.05)


def _asked() -> object:
    """The name of the pod that answered."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", PORT, timeout=1)) as talk:
        talk.request("GET", "/")
        answer = talk.getresponse()
        if answer.status != 200:
            raise ValueError(answer.status)
        return json.loads(answer.read())["pod"]
