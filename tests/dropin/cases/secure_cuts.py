"""TLS that is cut off at any byte of what the server sends: the response's records at every offset,
the handshake around the bounds of its records.

The server's TLS runs over memory, so that exactly so many of its bytes reach the wire, whatever
records they are in: what a peer, or a box in the middle, does that dies amid its work.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable, Iterable
from typing import Any

from tests.dropin.authority import good, speaking
from tests.dropin.sides import Side
from tests.dropin.stage import Handler, Peer
from tests.dropin.table import add

H = b"HTTP/1.1 200 OK\r\n"
HEAD, BODY = H + b"content-length: 5\r\n\r\n", b"hello"
RECORD = 5 + 16 + 1  # bytes that TLS 1.3 adds to a record: header, tag, inner type (RFC 8446, 5.2)
RESPONSE = len(HEAD) + len(BODY) + 2 * RECORD
# Of the server's handshake: in and at the bounds of its first records, which are of a fixed size
# (127 and 6, and 70 bytes), and within those with certificates and signatures; TLS 1.2 has a second
# flight then, of 242 bytes.
HANDSHAKE_1_3 = (0, 1, 5, 60, 126, 127, 133, 155, 400, 800, 900, 960)
HANDSHAKE_1_2 = (0, 1, 69, 70, 400, 700, 790, 900, 1000)


class Cut:
    """TLS with a client, whose records go out as far as `room` allows: None for all of them."""

    def __init__(self, peer: Peer, context: ssl.SSLContext) -> None:
        self.peer = peer
        self.room: int | None = None
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=True)

    def until(self, step: Callable[[], Any]) -> Any:
        """Carry out a step of TLS; None at the end of the connection, or of `room`."""
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                done = None
            if not self.flush():
                return None
            if done is not None:
                return done
            data = self.peer.sock.recv(65_536)
            if not data:
                return None
            self._in.write(data)

    def flush(self) -> bool:
        """Send what there is room for; whether that was all."""
        data = self._out.read()
        part = data[: self.room]
        self.peer.send(part)
        if self.room is not None:
            self.room -= len(part)
        return len(part) == len(data)

    def handshake(self) -> bool:
        """Whether it came to its end."""

        def step() -> bool:
            self.tls.do_handshake()
            return True

        return bool(self.until(step))

    def request(self) -> bytes:
        """A request as far as the end of its head, and what of its body came along."""
        got = b""
        while b"\r\n\r\n" not in got:
            part = self.until(lambda: self.tls.read(65_536))
            if not part:
                break
            got += part
        return got


def ends(peer: Peer, *, reset: bool) -> None:
    if reset:
        peer.reset()
    else:
        peer.finish()
        while peer.sock.recv(65_536):
            pass


def cut_response(context: Callable[[], ssl.SSLContext], *, reset: bool) -> Handler:
    """Answers by two records, cut off after as many bytes as the act's number says."""
    made = functools.cache(context)

    def handler(peer: Peer) -> None:
        cut = Cut(peer, made())
        if not cut.handshake():
            return
        got = cut.request()
        peer.line.requests.append(got.partition(b" HTTP/")[0].decode("ascii"))
        cut.room = peer.act.number
        cut.tls.write(HEAD)
        cut.tls.write(BODY)
        cut.flush()
        ends(peer, reset=reset)

    return handler


def cut_handshake(context: Callable[[], ssl.SSLContext], *, reset: bool) -> Handler:
    """Cuts the handshake off after as many bytes as the act's number says."""
    made = functools.cache(context)

    def handler(peer: Peer) -> None:
        cut = Cut(peer, made())
        cut.room = peer.act.number
        cut.handshake()
        ends(peer, reset=reset)

    return handler


def at(offsets: Iterable[int]) -> Any:
    async def script(side: Side) -> None:
        url = side.stage.url.replace("http:", "https:")
        for number in offsets:
            side.act.number = number
            await side.post(f"{url}/{number}")

    return script


def without_tickets() -> ssl.SSLContext:
    """What follows the handshake is the response and nothing else."""
    context = speaking("http/1.1")
    context.num_tickets = 0
    return context


def of_tls_1_2() -> ssl.SSLContext:
    context = good()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


for _reset in (False, True):
    _how = "reset" if _reset else "end"
    _handler = cut_response(without_tickets, reset=_reset)
    add(f"secure_cuts-{_how}_at_every_byte", at(range(RESPONSE)), _handler, cut=True, asked=True)
    for _version, _made, _offsets in (
        ("1_3", without_tickets, HANDSHAKE_1_3),
        ("1_2", of_tls_1_2, HANDSHAKE_1_2),
    ):
        _handler = cut_handshake(_made, reset=_reset)
        add(f"secure_cuts-{_how}_in_the_handshake_{_version}", at(_offsets), _handler, cut=True)
