"""Peers that break HTTP/1: what they send is no response, or more than one, or not all of it.

Every answer is given to POSTs, which are never repeated, and to GETs: once a response has begun
neither is.
"""

from __future__ import annotations

import gzip

from tests.dropin.sides import Side
from tests.dropin.stage import Handler, Peer, closing, echo, raw
from tests.dropin.table import add, case

H = b"HTTP/1.1 200 OK\r\n"
OK = H + b"content-length: 2\r\n\r\nok"
CHUNKED = H + b"transfer-encoding: chunked\r\n\r\n"
ZIPPED = gzip.compress(b"x" * 999, mtime=0)

# Sent to every request, on a connection that stays open.
WRONG: dict[str, bytes] = {
    "garbage": b"\x00\x01\xfe\xff garbage\r\n\r\n",
    "another_protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "an_html_page": b"<html>\r\n\r\n</html>\r\n\r\n",
    "a_request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "no_status": b"HTTP/1.1\r\n\r\n",
    "status_in_words": b"HTTP/1.1 fine OK\r\n\r\n",
    "status_of_two_digits": b"HTTP/1.1 99 Low\r\n\r\n",
    "status_of_four_digits": b"HTTP/1.1 2000 High\r\n\r\n",
    "status_0": b"HTTP/1.1 000 Zero\r\ncontent-length: 0\r\n\r\n",
    "version_2": b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    "version_1_2": b"HTTP/1.2 200 OK\r\ncontent-length: 0\r\n\r\n",
    "version_0_9": b"HTTP/0.9 200 OK\r\ncontent-length: 0\r\n\r\n",
    "small_letters": b"http/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    "nul_in_reason": b"HTTP/1.1 200 O\0K\r\ncontent-length: 0\r\n\r\n",
    "oversized_line": H + b"x: " + b"v" * 300_000 + b"\r\n\r\n",
    "oversized_head": H + b"x: " + b"v" * 300_000,
    "too_many_headers": H + b"".join(b"x-%d: v\r\n" % n for n in range(20_000)) + b"\r\n",
    "oversized_interim": b"HTTP/1.1 103 Hints\r\nx: " + b"v" * 300_000 + b"\r\n\r\n" + OK,
    "space_in_name": H + b"bad name: 1\r\ncontent-length: 0\r\n\r\n",
    "space_after_name": H + b"content-length : 0\r\n\r\n",
    "space_before_name": H + b" first: 1\r\ncontent-length: 0\r\n\r\n",
    "empty_name": H + b": 1\r\ncontent-length: 0\r\n\r\n",
    "no_colon": H + b"nothing\r\ncontent-length: 0\r\n\r\n",
    "nul_in_name": H + b"a\0b: 1\r\ncontent-length: 0\r\n\r\n",
    "nul_in_value": H + b"a: 1\0 2\r\ncontent-length: 0\r\n\r\n",
    "control_in_value": H + b"a: 1\x01\x7f\r\ncontent-length: 0\r\n\r\n",
    "return_in_value": H + b"a: 1\r2\r\ncontent-length: 0\r\n\r\n",
    "unicode_name": H + b"gr\xfc\xdfe: 1\r\ncontent-length: 0\r\n\r\n",
    "negative_length": H + b"content-length: -1\r\n\r\n",
    "signed_length": H + b"content-length: +2\r\n\r\nok",
    "length_in_words": H + b"content-length: two\r\n\r\nok",
    "empty_length": H + b"content-length: \r\n\r\nok",
    "hexadecimal_length": H + b"content-length: 0x2\r\n\r\nok",
    "endless_length": H + b"content-length: 99999999999999999999999\r\n\r\nok",
    "two_lengths": H + b"content-length: 2\r\ncontent-length: 3\r\n\r\nok",
    "list_of_lengths": H + b"content-length: 2, 3\r\n\r\nok",
    "length_and_chunked": H + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n"
    b"2\r\nok\r\n0\r\n\r\n",
    "chunked_twice": H + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n"
    b"2\r\nok\r\n0\r\n\r\n",
    "gzip_transfer": H + b"transfer-encoding: gzip\r\n\r\nok",
    "gzip_chunked_transfer": H + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "identity_transfer": H + b"transfer-encoding: identity\r\ncontent-length: 2\r\n\r\nok",
    "chunk_size_in_words": CHUNKED + b"two\r\nok\r\n0\r\n\r\n",
    "chunk_size_negative": CHUNKED + b"-2\r\nok\r\n0\r\n\r\n",
    "chunk_size_prefixed": CHUNKED + b"0x2\r\nok\r\n0\r\n\r\n",
    "chunk_size_huge": CHUNKED + b"f" * 30 + b"\r\nok\r\n",
    "chunk_size_missing": CHUNKED + b"\r\nok\r\n0\r\n\r\n",
    "chunk_longer": CHUNKED + b"2\r\nokay\r\n0\r\n\r\n",
    "chunk_shorter": CHUNKED + b"4\r\nok\r\n0\r\n\r\n",
    "chunk_extension_endless": CHUNKED + b"2;" + b"x" * 300_000,
    "trailer_broken": CHUNKED + b"2\r\nok\r\n0\r\nbad trailer\r\n\r\n",
    "trailer_endless": CHUNKED + b"2\r\nok\r\n0\r\n" + b"a: b\r\n" * 60_000,
    "unwanted_upgrade": b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    "gzip_cut_off": H + b"content-encoding: gzip\r\ncontent-length: 15\r\n\r\n" + ZIPPED[:15],
}

# Sent once, then the connection ends in good order: some of the response is missing.
TRUNCATED: dict[str, bytes] = {
    "half_a_status_line": b"HTTP/1.1 20",
    "half_a_head": H + b"content-le",
    "head_without_its_end": H + b"content-length: 2\r\n",
    "interim_only": b"HTTP/1.1 100 Continue\r\n\r\n",
    "half_of_the_length": H + b"content-length: 10\r\n\r\nhalf",
    "nothing_of_the_length": H + b"content-length: 10\r\n\r\n",
    "half_a_chunk": CHUNKED + b"4\r\nha",
    "half_a_chunk_size": CHUNKED + b"4\r\nbody\r\n4",
    "no_last_chunk": CHUNKED + b"4\r\nbody\r\n",
    "last_chunk_without_its_end": CHUNKED + b"4\r\nbody\r\n0\r\n",
    "half_a_trailer": CHUNKED + b"4\r\nbody\r\n0\r\nx: 1\r\n",
    "chunks_with_line_feeds": CHUNKED + b"2\nok\n0\n\n",
    "half_a_gzip": H + b"content-encoding: gzip\r\n\r\n" + ZIPPED[:12],
    "a_line_feed": b"\n",
    "blank_lines": b"\r\n\r\n\r\n",
}

# More than one request's response: the next request must not get what is left.
SURPLUS: dict[str, bytes] = {
    "two_responses": OK + b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstale",
    "bytes_after": OK + b"surplus",
    "line_after": OK + b"\r\n",
    "body_without_content": b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n"
    b"content-length: 5\r\n\r\nstale",
    "body_when_not_modified": b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\nstale",
    "after_the_last_chunk": CHUNKED + b"2\r\nok\r\n0\r\n\r\nHTTP/1.1 404 Stale\r\n"
    b"content-length: 0\r\n\r\n",
    "after_a_close": H + b"connection: close\r\ncontent-length: 2\r\n\r\nok" + OK,
}


async def posts_and_gets(side: Side) -> None:
    await side.post("/1")
    await side.get("/2")
    await side.pieces("POST", "/3", content=b"payload")
    await side.get("/4")


async def a_post_and_a_get(side: Side) -> None:
    await side.post("/1")
    await side.get("/2")


async def left(side: Side) -> None:
    await side.unread("POST", "/1", content=b"payload")
    await side.unread("GET", "/2")
    await side.unread("GET", "/3")


for _name, _answer in WRONG.items():
    add(f"broken-{_name}", posts_and_gets, raw(_answer))
    add(f"broken-{_name}_left", left, raw(_answer))
for _name, _answer in TRUNCATED.items():
    add(f"broken-{_name}", posts_and_gets, closing(_answer))
    add(f"broken-{_name}_left", left, closing(_answer))
for _name, _answer in SURPLUS.items():
    add(f"broken-{_name}", a_post_and_a_get, raw(_answer))


@case(raw(OK + b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstale"))
async def a_body_for_a_head(side: Side) -> None:
    """HEAD is answered with a body, which is not for the next request."""
    await side.request("HEAD", "/1")
    await side.get("/2")


def before_the_request(*answers: bytes) -> Handler:
    def handler(peer: Peer) -> None:
        peer.send(*answers)
        peer.finish()
        peer.until_closed()

    return handler


@case(before_the_request(b"HTTP/1.1 408 Timeout\r\nconnection: close\r\n\r\n"))
async def an_answer_before_the_request(side: Side) -> None:
    await side.post("/1")
    await side.get("/2")


@case(before_the_request(b"220 mail.shop.test ESMTP\r\n"))
async def a_greeting_of_another_protocol(side: Side) -> None:
    await side.post("/1")
    await side.get("/2")


# -- the end of the connection, at every byte ------------------------------------------------

SMALL = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
SMALL_CHUNKED = CHUNKED + b"2\r\nok\r\n0\r\n\r\n"


def cut(answer: bytes, *, reset: bool) -> Handler:
    """Sends as many bytes as the path says, and ends the connection."""

    def handler(peer: Peer) -> None:
        seen = peer.request()
        assert seen is not None
        peer.send(answer[: seen[0].number])
        if reset:
            peer.reset()
        else:
            peer.finish()
            peer.until_closed()

    return handler


@case(cut(SMALL, reset=False))
async def end_at_every_byte(side: Side) -> None:
    for number in range(len(SMALL)):
        await side.post(f"/{number}")


@case(cut(SMALL, reset=True))
async def reset_at_every_byte(side: Side) -> None:
    for number in range(len(SMALL)):
        await side.post(f"/{number}")


@case(cut(SMALL_CHUNKED, reset=False))
async def end_at_every_byte_of_chunks(side: Side) -> None:
    for number in range(1, len(SMALL_CHUNKED)):
        await side.get(f"/{number}")


@case(cut(SMALL_CHUNKED, reset=True))
async def reset_at_every_byte_of_chunks(side: Side) -> None:
    for number in range(1, len(SMALL_CHUNKED)):
        await side.get(f"/{number}")


def gone_at_once(peer: Peer) -> None:
    peer.finish()
    peer.until_closed()


@case(gone_at_once, echo)
async def an_end_before_the_request(side: Side) -> None:
    """The first connection ends before it has served anything: a POST may have been sent."""
    await side.post("/1")
    await side.post("/2")


@case(cut(SMALL, reset=False), echo)
async def an_end_without_an_answer(side: Side) -> None:
    await side.get("/0")
    await side.get("/1")


@case(cut(SMALL, reset=True), echo)
async def a_reset_without_an_answer(side: Side) -> None:
    await side.get("/0")
    await side.get("/1")


def once(*, reset: bool) -> Handler:
    """Serves one request and ends the connection while it is idle."""

    def handler(peer: Peer) -> None:
        peer.request()
        peer.answer(200, b"once")
        peer.wait()
        peer.act.gate.clear()
        if reset:
            peer.reset()
        else:
            peer.finish()
        peer.act.signal.set()
        if not reset:
            peer.until_closed()

    return handler


async def idle_and_gone(side: Side) -> None:
    """Between two requests the server ends the idle connection."""
    await side.post("/1")
    side.act.gate.set()
    await side.until_signal()
    await side.post("/2")


add("broken-end_while_idle", idle_and_gone, once(reset=False), echo)
add("broken-reset_while_idle", idle_and_gone, once(reset=True), echo)


def late_word(peer: Peer) -> None:
    """Serves one request, and says something more while the connection is idle."""
    peer.request()
    peer.answer(200, b"once")
    peer.wait()
    peer.answer(408, b"too late")
    peer.act.signal.set()
    peer.until_closed()


add("broken-word_while_idle", idle_and_gone, late_word, echo)
