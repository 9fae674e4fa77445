"""What an idle connection weighs: in Python's own allocations, or in the process's resident pages.

Each weighing has a fresh process. Resident pages are the kernel's count (proc(5), statm), which
knows of OpenSSL's memory too; where there is no /proc they are not weighed. Counted are the
connections that are really open: the process's sockets, as /proc lists them.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc

from benchmarks.speed.asking import Place, family_client, open_idle, open_idle_async
from benchmarks.speed.plan import Cell, Memory

FIRST = 20  # connections before the scales are set to zero: what is made once is made then
KEEP = 600.0  # seconds that idle connections are kept


def weigh(name: str, memory: Memory, place: Place) -> dict[str, float]:
    """Bytes for each idle connection."""
    cell = Cell(memory.sync, tls=memory.tls, idle=memory.count + FIRST, linger=KEEP)
    if memory.traced:
        tracemalloc.start()
    scales = Scales(memory)
    if memory.sync:
        with family_client(name, cell, place) as client:
            open_idle(client, place.url, FIRST)
            scales.zero()
            open_idle(client, place.url, memory.count + FIRST)
            return scales.read()
    return asyncio.run(_weigh_async(name, cell, place, scales))


async def _weigh_async(name: str, cell: Cell, place: Place, scales: Scales) -> dict[str, float]:
    async with family_client(name, cell, place) as client:
        await open_idle_async(client, place.url, FIRST)
        scales.zero()
        await open_idle_async(client, place.url, scales.memory.count + FIRST)
        await asyncio.sleep(0)
        return scales.read()


class Scales:
    """Sums up before and after."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.before = self.sockets = 0

    def zero(self) -> None:
        """Nothing has been put on yet."""
        self.before, self.sockets = self.bytes(), sockets()

    def read(self) -> dict[str, float]:
        """Bytes for each connection that was opened since."""
        after, count = self.bytes(), sockets() - self.sockets
        if count != self.memory.count:
            raise RuntimeError(f"{count} connections were opened, not {self.memory.count}")
        return {"bytes": (after - self.before) / count}

    def bytes(self) -> int:
        """All that the process has now."""
        gc.collect()
        if self.memory.traced:
            return tracemalloc.get_traced_memory()[0]
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sockets() -> int:
    """Sockets that this process has open."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
        except OSError:  # the listing's own descriptor
            continue
    return found
