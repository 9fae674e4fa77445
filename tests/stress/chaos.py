"""Begins the server that misbehaves, and speaks with it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.http.cases.tls import authority

BOUND = 20.0  # seconds; far more than anything here takes


class Chaos:
    """The server's process; see `chaos_server`. `urls`: where it listens."""

    def __init__(self, seed: int, *files: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.stress.chaos_server", str(seed), *files],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lock = threading.Lock()
        scheme = "https" if files else "http"
        self.ports: list[int] = self._answer()
        self.urls = [f"{scheme}://127.0.0.1:{port}" for port in self.ports]
        self.target = "static://" + ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server has ended"
        return json.loads(line)

    def tell(self, command: str) -> dict[str, int]:
        """Give a command; what the server has counted so far."""
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
            counts: dict[str, int] = self._answer()
            return counts

    def until(self, done: Callable[[dict[str, int]], bool], what: str) -> dict[str, int]:
        """Ask until what it has counted is so, with a bound."""
        counts: dict[str, int] = {}
        for _ in range(int(BOUND / 0.01)):
            counts = self.tell("counts")
            if done(counts):
                return counts
            threading.Event().wait(0.01)
        raise AssertionError(f"not within {BOUND:g} s: {what}; {counts}")

    def __enter__(self) -> Chaos:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(BOUND)
        self._process.stdout.close()
        assert self._process.returncode == 0


def certificate(folder: Path) -> tuple[str, str]:
    """Files of a certificate for 127.0.0.1 and orders.test, and of its key."""
    issued = authority().issue_cert("127.0.0.1", "orders.test")
    chain, key = folder / "chain.pem", folder / "key.pem"
    issued.cert_chain_pems[0].write_to_path(str(chain))
    issued.private_key_pem.write_to_path(str(key))
    return str(chain), str(key)
