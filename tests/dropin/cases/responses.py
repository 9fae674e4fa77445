"""What a good server may answer: every shape of a response that HTTP/1 has."""

from __future__ import annotations

import gzip
import zlib

from tests.dropin.sides import Side
from tests.dropin.stage import Peer, closing, echo, raw
from tests.dropin.table import add, case

H = b"HTTP/1.1 200 OK\r\n"
CHUNKED = H + b"transfer-encoding: chunked\r\n"

# Sent to each of several requests on a connection that stays open.
KEPT: dict[str, bytes] = {
    "length": H + b"Content-Length: 4\r\n\r\nbody",
    "empty": H + b"Content-Length: 0\r\n\r\n",
    "chunked": CHUNKED + b"\r\n4\r\nbody\r\n3\r\nand\r\n0\r\n\r\n",
    "chunked_empty": CHUNKED + b"\r\n0\r\n\r\n",
    "chunk_extensions": CHUNKED + b'\r\n4;a=1;b="2"\r\nbody\r\n0;c\r\n\r\n',
    "trailers": CHUNKED + b"trailer: X-Sum\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 17\r\nX-B: 2\r\n\r\n",
    "capital_chunks": CHUNKED + b"\r\nA\r\n0123456789\r\n00\r\n\r\n",
    "no_content": b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n",
    "not_modified": b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\ncontent-length: 99\r\n\r\n',
    "reset_content": b"HTTP/1.1 205 Reset Content\r\ncontent-length: 0\r\n\r\n",
    "continue_first": b"HTTP/1.1 100 Continue\r\n\r\n" + H + b"content-length: 2\r\n\r\nok",
    "hints_first": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    b"HTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n" + H + b"content-length: 2\r\n\r\nok",
    "processing_first": b"HTTP/1.1 102 Processing\r\n\r\n" + H + b"content-length: 2\r\n\r\nok",
    "keep_alive": H + b"Connection: Keep-Alive\r\nKeep-Alive: timeout=5\r\n"
    b"content-length: 2\r\n\r\nok",
    "close": H + b"Connection: close\r\ncontent-length: 2\r\n\r\nok",
    "close_among_others": H + b"Connection: x, CLOSE\r\ncontent-length: 2\r\n\r\nok",
    "http_1_0": b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    "http_1_0_keep_alive": b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n"
    b"content-length: 2\r\n\r\nok",
    "no_reason": b"HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nok",
    "no_space_for_a_reason": b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok",
    "odd_reason": b"HTTP/1.1 200 gr\xfc\xdfe \t!\r\ncontent-length: 2\r\n\r\nok",
    "odd_status": b"HTTP/1.1 299 Odd\r\ncontent-length: 2\r\n\r\nok",
    "highest_status": b"HTTP/1.1 999 High\r\ncontent-length: 2\r\n\r\nok",
    "client_error": b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno",
    "server_error": b"HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\nno",
    "header_case": H + b"CONTENT-length: 2\r\nX-aB: 1\r\nx-Ab: 2\r\n\r\nok",
    "header_order": H + b"b: 1\r\na: 2\r\ncontent-length: 2\r\nc: 3\r\na: 4\r\n\r\nok",
    "header_values": H + b"empty:\r\nspaces: \t a  b \t\r\ncontent-length: 2\r\n\r\nok",
    "latin_1_value": H + b"x: gr\xfc\xdfe\r\ncontent-length: 2\r\n\r\nok",
    "folded": H + b"x: a\r\n  b\r\n\tc\r\ncontent-length: 2\r\n\r\nok",
    "many_headers": H
    + b"".join(b"x-%d: v\r\n" % n for n in range(1000))
    + b"content-length: 2\r\n\r\nok",
    "large_headers": H + b"x: " + b"v" * 90_000 + b"\r\ncontent-length: 2\r\n\r\nok",
    "cookies": H + b"Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=2; HttpOnly\r\n"
    b"Set-Cookie: gone=; Max-Age=0\r\ncontent-length: 2\r\n\r\nok",
    "gzip": H
    + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n"
    % len(gzip.compress(b"x" * 999, mtime=0))
    + gzip.compress(b"x" * 999, mtime=0),
    "deflate": CHUNKED
    + b"content-encoding: deflate\r\n\r\n%x\r\n" % len(zlib.compress(b"x" * 999))
    + zlib.compress(b"x" * 999)
    + b"\r\n0\r\n\r\n",
    "unknown_encoding": H + b"content-encoding: mystery\r\ncontent-length: 2\r\n\r\nok",
    "wrong_gzip": H + b"content-encoding: gzip\r\ncontent-length: 4\r\n\r\nnope",
    "charset": H + b"content-type: text/plain; charset=latin-1\r\ncontent-length: 1\r\n\r\n\xfc",
    "blank_line_first": b"\r\n" + H + b"content-length: 2\r\n\r\nok",
    "two_equal_lengths": H + b"content-length: 2\r\ncontent-length: 2\r\n\r\nok",
    "list_of_equal_lengths": H + b"content-length: 2, 2\r\n\r\nok",
    "bare_line_feeds": b"HTTP/1.1 200 OK\nx: 1\ncontent-length: 2\n\nok",
}

# Sent once; then the server ends the connection in good order.
ENDED: dict[str, bytes] = {
    "until_the_end": H + b"X-A: 1\r\n\r\nall of it",
    "until_the_end_empty": H + b"\r\n",
    "http_1_0_until_the_end": b"HTTP/1.0 200 OK\r\n\r\nall of it",
    "length_and_close": H + b"Connection: close\r\ncontent-length: 2\r\n\r\nok",
    "chunked_and_close": CHUNKED + b"Connection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "http_1_1_until_the_end_close": H + b"Connection: close\r\n\r\nall of it",
}


async def several(side: Side) -> None:
    await side.get("/1")
    await side.post("/2")
    await side.get("/3")


async def in_pieces(side: Side) -> None:
    """The raw body, not decoded."""
    await side.pieces("GET", "/1")
    await side.pieces("POST", "/2", content=b"payload")


async def left(side: Side) -> None:
    """Responses that nobody reads."""
    await side.unread("GET", "/1")
    await side.unread("POST", "/2", content=b"payload")
    await side.get("/3")


for _name, _answer in KEPT.items():
    add(f"responses-{_name}", several, raw(_answer))
    add(f"responses-{_name}_in_pieces", in_pieces, raw(_answer))
    add(f"responses-{_name}_left", left, raw(_answer))
for _name, _answer in ENDED.items():
    add(f"responses-{_name}", several, closing(_answer))
    add(f"responses-{_name}_left", left, closing(_answer))


@case(raw(H + b"Content-Length: 4\r\n\r\n", CHUNKED + b"\r\n", H + b"\r\n", H + b"\r\n"))
async def heads_alone(side: Side) -> None:
    """The answer to HEAD has no body, whatever its head says of one."""
    for number in range(4):
        await side.request("HEAD", f"/{number}")


def byte_by_byte(peer: Peer) -> None:
    while peer.request() is not None:
        for byte in CHUNKED + b"\r\n4\r\nbody\r\n0\r\nX-Sum: 1\r\n\r\n":
            peer.send(bytes([byte]))


@case(byte_by_byte)
async def a_slow_drip(side: Side) -> None:
    await side.get("/1")
    await side.post("/2")


def large(peer: Peer) -> None:
    payload = bytes(range(256)) * 4096 * 5
    while (seen := peer.request()) is not None:
        if seen[0].target == "/length":
            peer.answer(200, payload)
            continue
        peer.send(CHUNKED + b"\r\n")
        for at in range(0, len(payload), 70_000):
            part = payload[at : at + 70_000]
            peer.send(b"%x\r\n" % len(part), part, b"\r\n")
        peer.send(b"0\r\n\r\n")


@case(large)
async def megabytes(side: Side) -> None:
    await side.get("/length")
    await side.pieces("GET", "/chunked")
    await side.unread("GET", "/length")
    await side.get("/chunked")


def in_step(peer: Peer) -> None:
    """The second half of the body waits until the client has the first."""
    while peer.request() is not None:
        peer.act.gate.clear()
        peer.send(CHUNKED + b"\r\n5\r\nfirst\r\n")
        peer.wait()
        peer.send(b"6\r\nsecond\r\n0\r\n\r\n")


@case(in_step)
async def streamed(side: Side) -> None:
    for path in ("/1", "/2"):
        await side.pieces("GET", path, each=lambda _: side.act.gate.set())


@case(in_step)
async def left_in_the_middle(side: Side) -> None:
    await side.unread("GET", "/1")
    side.act.gate.set()
    await side.pieces("GET", "/2", each=lambda _: side.act.gate.set())


def first_the_response(peer: Peer) -> None:
    """Answers by the head, then reads the body, then goes on."""
    while (head := peer.head()) is not None:
        peer.send(CHUNKED + b"\r\n2\r\nok\r\n0\r\n\r\n")
        assert head.headers["content-length"] == "7"
        peer.body(head)


@case(first_the_response)
async def before_the_body_was_read(side: Side) -> None:
    await side.post("/1")
    await side.post("/2")


@case(echo)
async def what_a_client_can_ask_of_a_response(side: Side) -> None:
    response = await side.get("/x")
    assert response is not None
    side.note("closed", response.is_closed)
    side.note("consumed", response.is_stream_consumed)
    side.note("counted", response.num_bytes_downloaded)
    side.note("http", response.http_version)
