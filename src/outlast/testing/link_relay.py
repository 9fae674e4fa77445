"""The process that makes a link slow: it carries frames between two interfaces, some of them late.

Frames from the first interface (the network's side) are held for the set delay before they leave
by the second (the node's side); frames of the other way are passed on at once. A line on standard
input sets the delay in seconds, for frames to come; its end is the process's end. One line is
written when it carries.

In user space, because many kernels come without tc's netem. Source: packet(7). Refuses segmentation
offload: the interfaces that feed it have it switched off (`slow_link`).
"""

from __future__ import annotations

import heapq
import itertools
import os
import select
import socket
import sys
import time

from outlast.testing.tether import die_with

_ETH_P_ALL = 0x0003
_SOL_PACKET, _PACKET_IGNORE_OUTGOING = 263, 23  # linux/if_packet.h, since 4.20
_FRAME = 65536
# A burst that fits a receive window must fit here, or the relay itself would lose frames.
_BUFFER = 8 << 20


def main(parent: str, network: str, node: str) -> None:
    """Carry frames between the interfaces `network` and `node` until the lab ends it."""
    die_with(int(parent))
    with _tap(network) as from_network, _tap(node) as from_node:
        os.write(1, b"ready\n")
        _Relay(from_network, from_node).run()


class _Relay:
    def __init__(self, network: socket.socket, node: socket.socket) -> None:
        self._network = network
        self._node = node
        self._delay = 0.0
        self._order = itertools.count()
        self._held: list[tuple[float, int, bytes]] = []

    def run(self) -> None:
        while True:
            wait = max(0.0, self._held[0][0] - time.monotonic()) if self._held else None
            sources: list[socket.socket | int] = [self._network, self._node, 0]
            ready, _, _ = select.select(sources, [], [], wait)
            if 0 in ready and not self._set_delay():
                return
            if self._network in ready and (frame := _take(self._network)):
                due = time.monotonic() + self._delay
                heapq.heappush(self._held, (due, next(self._order), frame))
            if self._node in ready and (frame := _take(self._node)):
                _give(self._network, frame)
            now = time.monotonic()
            while self._held and self._held[0][0] <= now:
                _give(self._node, heapq.heappop(self._held)[2])

    def _set_delay(self) -> bool:
        """Read the newest delay; False when the lab has ended."""
        lines = os.read(0, 4096).split()
        if lines:
            self._delay = float(lines[-1])
        return bool(lines)


def _tap(interface: str) -> socket.socket:
    """A socket that sees what arrives at an interface and sends from it."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
    sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    sock.bind((interface, _ETH_P_ALL))
    sock.setblocking(False)
    return sock


def _take(sock: socket.socket) -> bytes:
    try:
        return sock.recv(_FRAME)
    except OSError:  # the link went down: nothing arrived
        return b""


def _give(sock: socket.socket, frame: bytes) -> None:
    try:
        sock.send(frame)
    except OSError:  # the link is down or its queue full: the frame is lost, as on a wire
        return


if __name__ == "__main__":
    main(*sys.argv[1:])
