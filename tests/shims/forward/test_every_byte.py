"""Bytes in are bytes out, whatever the sizes, the order, and where each half is closed."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.net.kernel import kernel
from outlast.shims.forward import Forwarder
from tests.shims.forward.ends import PATIENCE, accepted, connect, target_of, upstream

# Below and above what is copied at once, what is worth a pipe, and what one holds.
SIZES = st.one_of(st.integers(1, 100), st.integers(1, 70_000), st.integers(200_000, 1_500_000))
SIDES = st.sampled_from([0, 1])
READS = st.sampled_from([1 << 12, 1 << 16, 1 << 20])


@dataclass
class End:
    """One end of the line, by the test's own thread."""

    sock: socket.socket
    chunks: list[int]
    reads: int
    sent: bytearray = field(default_factory=bytearray)
    received: bytearray = field(default_factory=bytearray)
    waiting: bytes = b""
    shut: bool = False
    ended: bool = False

    def write(self, number: int) -> None:
        """The next chunk, or what is left of the last one; at the end the half is closed."""
        if not self.waiting and self.chunks:
            size = self.chunks.pop(0)
            self.waiting = bytes((number + n) & 0xFF for n in range(251)) * (size // 251 + 1)
            self.waiting = self.waiting[:size]
        if self.waiting:
            count = self.sock.send(self.waiting)
            self.sent += self.waiting[:count]
            self.waiting = self.waiting[count:]
        if not self.waiting and not self.chunks and not self.shut:
            self.sock.shutdown(socket.SHUT_WR)
            self.shut = True

    def read(self) -> None:
        """What is there."""
        data = self.sock.recv(self.reads)
        self.ended = not data
        self.received += data


@pytest.fixture(scope="module")
def line() -> Iterator[tuple[Forwarder, socket.socket]]:
    """One forwarder for all examples."""
    with upstream() as server, Forwarder("127.0.0.1:0", target_of(server)) as forwarder:
        yield forwarder, server


@settings(max_examples=150)
@given(
    up=st.lists(SIZES, max_size=4),
    down=st.lists(SIZES, max_size=4),
    order=st.lists(SIDES, max_size=12),
    reads=st.tuples(READS, READS),
)
def test_every_byte_arrives_in_order_and_both_ends_are_told(
    line: tuple[Forwarder, socket.socket],
    up: list[int],
    down: list[int],
    order: list[int],
    reads: tuple[int, int],
) -> None:
    forwarder, server = line
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(connect(forwarder))
        far = stack.enter_context(accepted(server))
        both = [End(client, list(up), reads[0]), End(far, list(down), reads[1])]
        for sock in (client, far):
            sock.setblocking(False)
        for turn, side in enumerate(order):  # one may talk long before the other reads
            with contextlib.suppress(BlockingIOError):
                if not both[side].shut:
                    both[side].write(turn)
        exchange(both)
        assert both[1].received == both[0].sent
        assert both[0].received == both[1].sent
        assert len(both[0].sent) == sum(up)
        assert len(both[1].sent) == sum(down)


def exchange(both: list[End]) -> None:
    """Until both have said and heard the end."""
    until = kernel().now() + 3 * PATIENCE
    while not all(end.shut and end.ended for end in both):
        assert kernel().now() < until, "not all has arrived"
        readers = [end.sock for end in both if not end.ended]
        writers = [end.sock for end in both if not end.shut]
        ready = select.select(readers, writers, [], 1.0)
        for number, end in enumerate(both):
            if end.sock in ready[0]:
                end.read()
            if end.sock in ready[1]:
                end.write(number)


def test_nothing_is_left_of_them(line: tuple[Forwarder, socket.socket]) -> None:
    """Whichever test runs first: what is open belongs to an example that has not ended."""
    forwarder, server = line
    with connect(forwarder) as client, accepted(server) as far:
        client.sendall(b"x")
        assert far.recv(1) == b"x"
    counts = forwarder.counts
    assert counts.failed == counts.cut == counts.idle == counts.unreached == 0
