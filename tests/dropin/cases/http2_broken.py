"""HTTP/2 servers that refuse, or break the protocol; callers that ask in vain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h2.errors
import h2.settings
import httpx

from tests.dropin.family import FAMILY
from tests.dropin.h2_talk import Asked, Conversation, Talk, echo_asked, echo_h2, h2_handler, serving
from tests.dropin.sides import Side, Upload
from tests.dropin.stage import BOUND, Peer
from tests.dropin.table import add, case

PRIOR: dict[str, Any] = {"http1": False, "http2": True}
SHORT = httpx.Timeout(BOUND, read=0.15)  # seconds; a timeout that is to come
CODES = h2.errors.ErrorCodes


async def posts_and_gets(side: Side) -> None:
    await side.post("/1")
    await side.get("/2")
    await side.pieces("POST", "/3", content=b"payload")


async def post_then_get(side: Side) -> None:
    await side.post("/1")
    await side.get("/2")


# -- one stream is reset ---------------------------------------------------------------------


def reset_before(code: h2.errors.ErrorCodes) -> Conversation:
    """Streams whose path ends in an odd number are reset at once, the others answered."""

    def answer(talk: Talk, asked: Asked) -> None:
        if int(asked.path[-1]) % 2:
            talk.reset(asked.stream, code)
        else:
            talk.answer(asked, 200, b"ok")

    return serving(answer)


def reset_in_the_body(code: h2.errors.ErrorCodes) -> Conversation:
    def answer(talk: Talk, asked: Asked) -> None:
        talk.head(asked.stream, 200)
        talk.data(asked.stream, b"half", end=False)
        talk.reset(asked.stream, code)

    return serving(answer)


for _code in (CODES.CANCEL, CODES.INTERNAL_ERROR, CODES.REFUSED_STREAM, CODES.NO_ERROR):
    _name = _code.name.lower()
    add(
        f"http2_broken-reset_{_name}", posts_and_gets, h2_handler(reset_before(_code)), client=PRIOR
    )
    add(
        f"http2_broken-reset_{_name}_in_the_body",
        posts_and_gets,
        h2_handler(reset_in_the_body(_code)),
        client=PRIOR,
    )


def refuses(talk: Talk) -> None:
    """Refuses one stream, and serves what follows."""
    asked = talk.request()
    assert asked is not None
    talk.reset(asked.stream, CODES.REFUSED_STREAM)
    serving(echo_asked)(talk)


add("http2_broken-refused_once", post_then_get, h2_handler(refuses), echo_h2, client=PRIOR)


def enough(talk: Talk) -> None:
    """Answers by the head and asks for no more of the body (RFC 9113 section 8.1)."""
    while (asked := talk.begun()) is not None:
        talk.head(asked.stream, 413)
        talk.data(asked.stream, b"too big")
        talk.reset(asked.stream, CODES.NO_ERROR)


@case(h2_handler(enough), client=PRIOR, cut=True)
async def an_answer_before_the_body(side: Side) -> None:
    await side.post("/1", b"x" * 1_000_000, timeout=httpx.Timeout(BOUND, read=side.vain(0.3)))
    await side.get("/2")


# -- the protocol is broken ------------------------------------------------------------------


def wrong(*frames: tuple[int, int, int, bytes]) -> Conversation:
    """Requests are answered with these frames: type, flags, stream (1: the request's), payload."""

    def conversation(talk: Talk) -> None:
        while (asked := talk.request()) is not None:
            for kind, flags, stream, payload in frames:
                talk.raw(kind, flags, asked.stream if stream == 1 else stream, payload)

    return conversation


DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_HEADERS, END_STREAM, PADDED = 4, 1, 8
OK = bytes((0x88,))  # HPACK: ":status: 200"
PROTOCOL: dict[str, Conversation] = {
    "data_on_stream_0": wrong((DATA, 0, 0, b"x")),
    "data_before_the_head": wrong((DATA, END_STREAM, 1, b"x")),
    "data_on_an_unknown_stream": wrong((DATA, 0, 99, b"x")),
    "head_on_an_even_stream": wrong(
        (HEADERS, END_HEADERS | END_STREAM, 2, OK), (HEADERS, END_HEADERS | END_STREAM, 1, OK)
    ),
    "broken_hpack": wrong((HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff")),
    "no_status": wrong((HEADERS, END_HEADERS | END_STREAM, 1, b"\x00\x01a\x01b")),
    "status_in_words": wrong((HEADERS, END_HEADERS | END_STREAM, 1, b"\x08\x02ok")),
    "capital_name": wrong((HEADERS, END_HEADERS | END_STREAM, 1, OK + b"\x00\x01A\x01b")),
    "continuation_missing": wrong((HEADERS, 0, 1, OK), (DATA, END_STREAM, 1, b"x")),
    "continuation_of_nothing": wrong((CONTINUATION, END_HEADERS, 1, OK)),
    "frame_too_large": wrong((HEADERS, END_HEADERS, 1, OK), (DATA, 0, 1, b"x" * 70_000)),
    "padding_too_long": wrong((HEADERS, END_HEADERS, 1, OK), (DATA, PADDED, 1, b"\xffx")),
    "short_settings": wrong((SETTINGS, 0, 0, b"abc")),
    "settings_on_a_stream": wrong((SETTINGS, 0, 1, b"")),
    "window_too_large": wrong((WINDOW, 0, 0, (2**31 - 1).to_bytes(4, "big"))),
    "window_of_nothing": wrong((WINDOW, 0, 0, bytes(4))),
    "unwanted_push": wrong((PUSH, END_HEADERS, 1, b"\0\0\0\2" + OK)),
    "short_ping": wrong((PING, 0, 0, b"abc")),
    "short_farewell": wrong((GOAWAY, 0, 0, b"abc")),
    "unknown_frames": wrong(
        (0xEE, 0xFF, 1, b"?" * 100),
        (HEADERS, END_HEADERS, 1, OK),
        (0xEE, 0, 0, b""),
        (DATA, END_STREAM, 1, b"ok"),
    ),
    "length_too_small": wrong(
        (HEADERS, END_HEADERS, 1, OK + b"\x0f\x0d\x011"), (DATA, END_STREAM, 1, b"ok")
    ),
    "length_too_large": wrong(
        (HEADERS, END_HEADERS, 1, OK + b"\x0f\x0d\x019"), (DATA, END_STREAM, 1, b"ok")
    ),
}


async def two_posts(side: Side) -> None:
    await side.post("/1")
    await side.pieces("POST", "/2", content=b"payload")


for _name, _conversation in PROTOCOL.items():
    add(f"http2_broken-{_name}", two_posts, h2_handler(_conversation), client=PRIOR)


def preface(data: bytes) -> Callable[[Peer], None]:
    """A server that opens by these bytes."""

    def handler(peer: Peer) -> None:
        peer.sock.recv(65_536)
        peer.send(data)
        peer.finish()
        while peer.sock.recv(65_536):
            pass

    return handler


for _name, _bytes in {
    "http_1_answer": b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    "garbage": b"\xff" * 100,
    "nothing_at_all": b"",
    "half_a_frame": b"\0\0\6\4\0\0",
}.items():
    add(f"http2_broken-{_name}", two_posts, preface(_bytes), client=PRIOR)


# -- what the caller may ask in vain ---------------------------------------------------------


@case(echo_h2, client=PRIOR)
async def a_request_that_cannot_be(side: Side) -> None:
    await side.get("/1")
    await side.get("/2", headers={":path": "/elsewhere"})
    await side.get("/3")


@case(echo_h2, client=PRIOR)
async def the_callers_code_fails(side: Side) -> None:
    def burst() -> None:
        raise LookupError("mine")

    await side.get("/1")
    await side.post("/2", Upload(b"12", burst))
    await side.get("/3")


def silent(talk: Talk, asked: Asked) -> None:
    """Answers nothing but /ok."""
    if asked.path == "/ok":
        talk.answer(asked, 200, b"ok")


@case(h2_handler(serving(silent)), client=PRIOR)
async def read_timeout(side: Side) -> None:
    """One stream times out: what becomes of the connection?"""
    await side.get("/ok")
    await side.get("/mute", timeout=SHORT)
    await side.get("/ok")


def halves(talk: Talk, asked: Asked) -> None:
    talk.head(asked.stream, 200)
    talk.data(asked.stream, b"half", end=asked.path == "/ok")


@case(h2_handler(serving(halves)), client=PRIOR)
async def read_timeout_in_the_body(side: Side) -> None:
    await side.get("/half", timeout=SHORT)
    await side.get("/ok")


@case(h2_handler(serving(halves)), client=PRIOR)
async def left_unread(side: Side) -> None:
    await side.unread("GET", "/half")
    await side.get("/ok")


def shut(talk: Talk) -> None:
    """After one answer no body is taken any more."""
    asked = talk.request()
    assert asked is not None
    talk.answer(asked, 200, b"ready")
    talk.generous = False
    talk.resize(0)


@case(h2_handler(shut), client=PRIOR, cut=True)
async def write_timeout(side: Side) -> None:
    await side.get("/1")
    await side.post(
        "/2", b"x" * 200_000, timeout=httpx.Timeout(BOUND, write=0.15, read=side.vain(0.15))
    )


def shrinks(talk: Talk) -> None:
    """Takes the window back in the middle of a body, and gives it again."""
    asked = talk.request()
    assert asked is not None
    talk.answer(asked, 200, b"ready")
    talk.generous = False
    asked = talk.begun()
    assert asked is not None
    talk.until_full(asked, 65_535)  # the first window, all of it
    talk.resize(0)
    talk.until_idle()
    talk.resize(65_535)
    talk.generous = True
    talk.give()
    serving(echo_asked)(talk)


@case(h2_handler(shrinks), client=PRIOR, cut=True)
async def a_window_that_shrinks(side: Side) -> None:
    await side.get("/1")
    vain = side.vain(0.5) if FAMILY == "httpx" else BOUND  # httpx2 knows how
    await side.post("/2", b"x" * 200_000, timeout=httpx.Timeout(BOUND, read=vain))
