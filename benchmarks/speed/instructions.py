"""Instructions per request, counted by callgrind: what a loaded machine cannot blur.

Counted are the client process's own instructions in user space, of two runs of different length;
their difference is what the requests between them took. The kernel's part is not in it.

`--watch` counts what the watch over waiting requests costs where every answer comes at once: the
library as it is, against the same with waits that nobody watches; the status is 1 above `MOST`.

Run: python -m benchmarks.speed.instructions [--clients NAME ...] [--tls] [--watch] (needs valgrind)
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.speed.asking import Place, open_async, open_sync
from benchmarks.speed.certificates import certificates
from benchmarks.speed.crew import ROOT, Talker
from benchmarks.speed.plan import CLIENTS, OUTLAST, PLAIN, Cell

SHORT, LONG = 100, 400  # requests
LONGER = 1900  # for what is a matter of single percents: two runs of one client differ by 0.5 %
MOST = 1.03  # watched against unwatched: what is promised
UNWATCHED = "outlast, unwatched"
COUNTED = re.compile(r"Collected\s*:\s*(\d+)")


def main(argv: Sequence[str]) -> int:
    """Print instructions per request of each client, and their share of plain httpx's."""
    options = _options(argv)
    if shutil.which("valgrind") is None:
        sys.exit("instructions are counted by valgrind, which is not installed")
    with tempfile.TemporaryDirectory() as folder:
        certificate, authority = certificates(Path(folder))
        server = Talker(sys.executable, "server", str(certificate))
        try:
            ports = server.hear()
            kept = True
            for sync in (True, False):
                cell = Cell(sync, tls=options.tls)
                url = f"http{'s' if cell.tls else ''}://localhost:{ports[cell.port]}/"
                if options.watch:
                    kept &= _weigh_watch(cell, url, authority)
                else:
                    _compare(options.clients, cell, url, authority)
        finally:
            server.close()
    return 0 if kept else 1


def _weigh_watch(cell: Cell, url: str, authority: Path) -> bool:
    """Print what the watch costs; whether it is within what is promised."""
    given = ("sync" if cell.sync else "async", url, str(authority))
    on, off = (_per_request(name, *given, long=LONGER) for name in (OUTLAST, UNWATCHED))
    print(
        f"{cell.words}: watched {on:,} instructions, unwatched {off:,}: {on / off - 1:+.2%}",
        flush=True,
    )
    return on <= MOST * off


def _per_request(name: str, way: str, url: str, authority: str, long: int = LONG) -> int:
    few, many = (_count(name, way, url, authority, count) for count in (SHORT, long))
    return (many - few) // (long - SHORT)


def _compare(clients: Sequence[str], cell: Cell, url: str, authority: Path) -> None:
    counts: dict[str, int] = {}
    for client in CLIENTS:
        if client.name in clients and client.does(cell) and not client.alone:
            given = (client.name, "sync" if cell.sync else "async", url, str(authority))
            counts[client.name] = _per_request(*given)
    plain = counts.get(PLAIN)
    for name, count in counts.items():
        share = f"{count / plain:6.2f} of httpx's" if plain else ""
        print(f"{cell.words}: {name:<16} {count:>10,} instructions {share}", flush=True)


def _count(name: str, way: str, url: str, authority: str, requests: int) -> int:
    """All instructions of a process that sends so many requests."""
    command = [
        *("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"),
        *(sys.executable, "-m", "benchmarks.speed.instructions", "--ask"),
        *(name, way, url, authority, str(requests)),
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    found = COUNTED.search(done.stderr)
    if found is None:
        raise RuntimeError(f"valgrind has told no count: {done.stderr[-300:]}")
    return int(found[1])


def _ask(name: str, way: str, url: str, authority: str, requests: str) -> int:
    """What is counted: so many requests, one after another."""
    cell, place = Cell(way == "sync"), Place(url, authority)
    if name == UNWATCHED:
        name = OUTLAST
        unwatch()

    async def work() -> None:
        async with open_async(name, cell, place) as ask:
            for _ in range(int(requests)):
                await ask()

    if cell.sync:
        with open_sync(name, cell, place) as ask:
            for _ in range(int(requests)):
                ask()
    else:
        asyncio.run(work())
    return 0


def unwatch() -> None:
    """Have nobody look at requests that wait for their answer, in this process."""
    from outlast.http.attempt import Attempt
    from outlast.net.seam import Wait

    async def pull(attempt: Any, lease: Any) -> None:
        """`Attempt._pull` without a watch, for an answer that comes whole."""
        until = attempt.call.until(attempt.call.request.timeouts.read)
        if not await Wait(lease.exchange.interests(writing=False), until):
            raise attempt._unanswered(lease)
        attempt._arrived(lease)

    replaced: Any = Attempt
    assert callable(replaced._pull)  # else it has another name now
    replaced._pull = pull


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.instructions")
    names = [client.name for client in CLIENTS if not client.alone]
    parser.add_argument("--clients", nargs="+", choices=names, default=[PLAIN, OUTLAST])
    parser.add_argument("--tls", action="store_true", help="over TLS")
    parser.add_argument("--watch", action="store_true", help="what the watch costs, instead")
    return parser.parse_args(argv)


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(_ask(*given[1:]) if given[:1] == ["--ask"] else main(given))
