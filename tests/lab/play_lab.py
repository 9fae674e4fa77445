"""Plays the rows of the differential table on the real kernel, all at once."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Sequence

from outlast.testing import KernelLab
from outlast.testing.namespaces import run_tool
from outlast.testing.pod import Pod
from tests.lab.handlers import echo
from tests.lab.rows import SAMPLES, SETTLED, Heard, Row

_TCP_INFO = 11
_PATIENCE = 5.0


class Played:
    """One row's socket, and what its program hears."""

    def __init__(self, row: Row, address: str) -> None:
        self.row = row
        host, _, port = address.rpartition(":")
        self.remote = (host, int(port))
        self.heard = Heard()
        self.over = False
        self.sock = socket.socket()
        self.sock.setblocking(False)
        for option in row.options:
            self.sock.setsockopt(*option)

    def begin(self) -> None:
        """Connect, without waiting."""
        self.sock.connect_ex(self.remote)

    def act(self) -> None:
        """Do what the row says, after the cut."""
        if self.row.act == "connect":
            self.begin()
        elif self.row.act == "unacked":
            self.sock.send(b"x" * 100)

    def stuff(self) -> None:
        """Send until nothing fits any more."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.sock.send(bytes(65536))

    def look(self, seconds: float) -> None:
        """Something is to be heard."""
        code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code or self.row.act == "connect":
            self.heard.errors.append((seconds, code))
        self.over = self.info()[0] == 7 or self.row.act == "connect"

    def info(self) -> bytes:
        """TCP_INFO, raw."""
        return self.sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 232)

    def sample(self) -> None:
        """Note unacked, backoff, retransmits and total_retrans."""
        raw = self.info()
        unacked = struct.unpack_from("=I", raw, 24)[0]
        total = struct.unpack_from("=I", raw, 100)[0]
        self.heard.samples.append((unacked, raw[4], raw[2], total))


def play(rows: Sequence[Row], limit: float) -> dict[str, Heard]:
    """What every row's program heard."""
    with KernelLab() as lab:
        pods = {name: lab.node(name).pod(raw=echo) for name in ("dead", "gone", "never", "live")}
        with lab.running():
            return _run(lab, pods, rows, limit)


def _run(
    lab: KernelLab, pods: dict[str, Pod], rows: Sequence[Row], limit: float
) -> dict[str, Heard]:
    pods["never"].node.power_off()
    played = [Played(row, pods[row.node].address) for row in rows]
    with contextlib.ExitStack() as stack:
        for each in played:
            stack.enter_context(each.sock)
        _connect([each for each in played if each.row.act != "connect"])
        with socket.create_connection((pods["dead"].host, pods["dead"].port), _PATIENCE):
            pass  # so that its neighbour entry is there
        pods["live"].freeze()
        stuffed = [each for each in played if each.row.act == "stuffed"]
        for _ in range(3):
            for each in stuffed:
                each.stuff()
            time.sleep(SETTLED / 3)
        pods["dead"].node.black_hole()
        pods["gone"].node.power_off()
        lab.hand.do(lab.client.space, run_tool, ("ip", "neigh", "flush", "to", pods["gone"].host))
        _listen(played, limit)
        pods["live"].thaw()
    return {each.row.name: each.heard for each in played}


def _connect(played: Sequence[Played]) -> None:
    for each in played:
        each.begin()
    poll = select.poll()
    for each in played:
        poll.register(each.sock, select.POLLOUT)
    waiting = {each.sock.fileno(): each for each in played}
    while waiting:
        ready = poll.poll(_PATIENCE * 1000)
        assert ready, f"not connected: {[each.row.name for each in waiting.values()]}"
        for fd, _ in ready:
            poll.unregister(fd)
            assert not waiting.pop(fd).sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def _listen(played: Sequence[Played], limit: float) -> None:
    """Act, and note what is heard until the time is over."""
    start = time.monotonic()
    for each in played:
        each.act()
    poll = select.poll()
    by_fd = {each.sock.fileno(): each for each in played}
    for fd, each in by_fd.items():
        poll.register(fd, select.POLLOUT if each.row.act == "connect" else 0)
    moments = [*SAMPLES, limit]
    while moments:
        now = time.monotonic() - start
        if now >= moments[0]:
            moments.pop(0)
            for each in played:
                each.sample()
            continue
        for fd, _ in poll.poll((moments[0] - now) * 1000 + 0.5):
            by_fd[fd].look(time.monotonic() - start)
            if by_fd[fd].over:
                poll.unregister(fd)
