"""Local ports whose dials were not answered, and which therefore lead nowhere for a while.

The translation of a VIP is kept for each flow. Connection tracking remembers a SYN that nobody has
answered for 120 s, and every further SYN of that flow begins the time anew: a local port that comes
round within it meets the same dead backend, even when its endpoint has left the Service since. The
kernel draws ports at random but never one in TIME_WAIT, which those that were answered are, so that
the silent ones come round all the sooner. (Measured on the kernel lab, half of a Service dead, 100
new connections a second: of 3,200 dials from such ports none was answered; after 40 s they were
every third dial, and the slowest connection had made 26.)

Only evidence of a VIP counts: the address must have answered another dial since. Where all of it is
silent, ports tell nothing.

Source: nf_conntrack_tcp_timeout_syn_sent. Remembers at most so many ports that an entry costs no
more than a megabyte a target. Knows addresses only as opaque values. Not thread-safe.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field

__all__ = ["SilentPorts"]

LIFE = 120.0  # seconds
MOST_PORTS = 8192  # of one address; the client that was measured had 8,000 within LIFE
MOST_ADDRESSES = 16


@dataclass(slots=True)
class _Silent:
    since: dict[int, float] = field(default_factory=dict)  # port: its last SYN; the oldest first
    answered: float = -math.inf  # the address's last answer, from whatever port


class SilentPorts:
    """The silent ports of one target's addresses. False in a condition while there are none."""

    __slots__ = ("_addresses",)

    def __init__(self) -> None:
        self._addresses: dict[Hashable, _Silent] = {}

    def __bool__(self) -> bool:
        return bool(self._addresses)

    def silent(self, address: Hashable, port: int, now: float) -> None:
        """A dial of `address` from `port` has had the time of an answer and none has come."""
        entry = self._addresses.pop(address, None) or _Silent()
        self._addresses[address] = entry  # to the end: whoever was silent longest ago goes first
        if len(self._addresses) > MOST_ADDRESSES:
            del self._addresses[next(iter(self._addresses))]
        since = entry.since
        since.pop(port, None)
        since[port] = now
        while len(since) > MOST_PORTS or next(iter(since.values())) <= now - LIFE:
            del since[next(iter(since))]

    def answered(self, address: Hashable, now: float) -> None:
        """A dial of `address` has connected."""
        entry = self._addresses.get(address)
        if entry is not None:
            entry.answered = now

    def leads_nowhere(self, address: Hashable, port: int, now: float) -> bool:
        """Whether a dial of `address` from `port` would meet what was silent before."""
        entry = self._addresses.get(address)
        since = None if entry is None else entry.since.get(port)
        if entry is None or since is None:
            return False
        return since < entry.answered and now - since < LIFE
