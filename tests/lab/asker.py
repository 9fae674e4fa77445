"""A client in a process of its own, for whoever stops it or counts its calls from outside.

python -m tests.lab.asker WORLD URL COUNT [unwatched]

It asks `WARM` times without the query, passes the mark, asks COUNT times more, passes the mark
again, and prints the seconds that the slowest of those took, their statuses and the report of the
last one. The mark is a system call that nothing else makes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import anyio
import httpx

import outlast
from benchmarks.speed.instructions import unwatch

__all__ = ["MARK", "PROGRAM", "WARM"]

WARM = 3  # requests
MARK = "/outlast-asks"  # a path that is not there
PROGRAM = (sys.executable, "-m", "tests.lab.asker")


def main(world: str, url: str, count: str, *how: str) -> None:
    """See above."""
    if "unwatched" in how:
        unwatch()
    found = Found(int(count))
    if world == "threads":
        with httpx.Client(transport=outlast.Transport(), timeout=60.0) as client:
            for asked in found.turns(url):
                found.note(client.get(asked))
    else:
        anyio.run(_in_loop, url, found, backend=world)
    print(json.dumps(found.told()))  # noqa: T201  its parent reads it


async def _in_loop(url: str, found: Found) -> None:
    async with httpx.AsyncClient(transport=outlast.AsyncTransport(), timeout=60.0) as client:
        for asked in found.turns(url):
            found.note(await client.get(asked))


class Found:
    """What has become of the requests between the marks."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.slowest = 0.0
        self.statuses: list[int] = []
        self.report = ""

    def turns(self, url: str) -> Iterator[str]:
        """The URLs to ask."""
        for number in range(WARM + self.count):
            if number == WARM:
                self.slowest, self.statuses = 0.0, []
                os.access(MARK, os.F_OK)
            began = time.monotonic()
            yield url.partition("?")[0] if number < WARM else url
            self.slowest = max(self.slowest, time.monotonic() - began)
        os.access(MARK, os.F_OK)

    def note(self, response: httpx.Response) -> None:
        """An answer."""
        self.statuses.append(response.status_code)
        self.report = str(response.extensions["outlast"])

    def told(self) -> dict[str, Any]:
        """For the parent."""
        return {"slowest": self.slowest, "statuses": self.statuses, "report": self.report}


if __name__ == "__main__":
    main(*sys.argv[1:])
