"""HTTP/2 with a good server: every case over TCP by prior knowledge; ALPN where it is meant."""

from __future__ import annotations

import functools
import gzip
from typing import Any

import h2.errors
import h2.settings

from tests.dropin.authority import speaking
from tests.dropin.h2_talk import Asked, Conversation, Talk, echo_h2, h2_handler, serving
from tests.dropin.sides import Side, Upload
from tests.dropin.table import add, case

PRIOR = {"http1": False, "http2": True}  # no TLS, no question which protocol
MEGABYTE = 1_048_576
PAYLOAD = bytes(range(256)) * 4096

Codes = h2.settings.SettingCodes


@case(echo_h2, client=PRIOR)
async def every_method(side: Side) -> None:
    for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH", "PURGE"):
        await side.request(method, f"/{method}")


@case(echo_h2, client=PRIOR)
async def bodies(side: Side) -> None:
    await side.post("/bytes", b"\0\r\n\xff")
    await side.post("/empty", b"")
    await side.post("/stream", Upload(b"one", b"", b"two" * 1000))
    await side.post("/empty_stream", Upload())
    await side.post("/length", Upload(b"12", b"345"), headers={"Content-Length": "5"})
    await side.request("GET", "/get", content=b"a GET with a body")
    await side.request("POST", "/json", json={"a": 1})


@case(echo_h2, client=PRIOR)
async def megabytes(side: Side) -> None:
    await side.post("/1", PAYLOAD * 2)
    await side.post("/2", Upload(PAYLOAD, PAYLOAD))
    await side.pieces("POST", "/3", content=PAYLOAD)


HEADERS: dict[str, Any] = {
    "order_and_case": [("X-b", "1"), ("x-A", "2"), ("X-B", "3"), ("ACCEPT", "*/*")],
    "many": [(f"X-{n}", "v" * 20) for n in range(500)],
    "large": [("X-Large", "v" * 20_000)],
    "host": {"Host": "shop.test"},
    "empty_value": {"X-Empty": ""},
    "spaces_around": {"X-Spaces": "  a  b  "},
    "latin_1": [(b"X-Latin", "grüße".encode("latin-1"))],
    "connection": {"Connection": "close, x", "Keep-Alive": "1", "Proxy-Connection": "x"},
    "upgrade": {"Upgrade": "h2c", "Connection": "upgrade"},
    "te": {"TE": "trailers"},
    "cookie": [("Cookie", "a=1"), ("Cookie", "b=2")],
    "authorization": {"Authorization": "Basic eDp5"},
    "expect": {"Expect": "100-continue"},
    "two_hosts": [("Host", "a.test"), ("Host", "b.test")],
}


def with_headers(headers: Any) -> Any:
    async def script(side: Side) -> None:
        await side.post("/post", headers=headers)
        await side.get("/get", headers=headers)
        await side.get("/next")

    return script


for _name, _headers in HEADERS.items():
    add(f"http2-header_{_name}", with_headers(_headers), echo_h2, client=PRIOR)


@case(echo_h2, client=PRIOR)
async def targets(side: Side) -> None:
    for number, path in enumerate(("/a?b=c", "//", "/%zz", "/ü?ß", "/a b", "/" + "x" * 1000)):
        await side.request("GET", path, label=f"{number}")
    for target in (b"*", b"http://shop.test/x", b"/a b"):
        await side.get("/", extensions={"target": target})


@case(echo_h2, client=PRIOR, stage={"host": "::1"})
async def ip_version_6(side: Side) -> None:
    await side.get("/1")


# -- what is answered ------------------------------------------------------------------------


def answering(status: int, body: bytes, *fields: tuple[str, str]) -> Conversation:
    return serving(lambda talk, asked: talk.answer(asked, status, body, *fields))


def interim(talk: Talk, asked: Asked) -> None:
    talk.head(asked.stream, 103, ("link", "</a>"))
    talk.head(asked.stream, 100)
    talk.answer(asked, 200, b"ok")


def trailers(talk: Talk, asked: Asked) -> None:
    talk.head(asked.stream, 200)
    talk.data(asked.stream, b"body", end=False)
    talk.h2.send_headers(asked.stream, [("x-sum", "17")], end_stream=True)
    talk.flush()


def padded(talk: Talk, asked: Asked) -> None:
    talk.head(asked.stream, 200)
    talk.h2.send_data(asked.stream, b"", pad_length=100)
    talk.h2.send_data(asked.stream, b"body", end_stream=True, pad_length=200)
    talk.flush()


def pinging(talk: Talk, asked: Asked) -> None:
    talk.h2.ping(b"are you?")
    talk.answer(asked, 200, b"ok")
    talk.h2.ping(b"there no")
    talk.flush()


def resized(talk: Talk, asked: Asked) -> None:
    """Settings change under way."""
    talk.resize(10_000)
    talk.answer(asked, 200, bytes(asked.body))


ZIPPED = gzip.compress(b"x" * 9999, mtime=0)
ANSWERS: dict[str, Conversation] = {
    "no_content": answering(204, b"", ("x-a", "1")),
    "not_modified": answering(304, b"", ("etag", '"1"')),
    "empty": answering(200, b"", ("content-length", "0")),
    "no_length": answering(200, b"body"),
    "server_error": answering(500, b"oh"),
    "odd_status": answering(299, b"odd"),
    "gzip": answering(200, ZIPPED, ("content-encoding", "gzip")),
    "many_headers": answering(200, b"ok", *((f"x-{n}", "v") for n in range(500))),
    "large_headers": answering(200, b"ok", ("x", "v" * 20_000)),
    "header_order": answering(200, b"ok", ("b", "1"), ("a", "2"), ("b", "3")),
    "cookies": answering(200, b"ok", ("set-cookie", "a=1"), ("set-cookie", "b=2")),
    "large_body": answering(200, PAYLOAD * 3),
    "interim": serving(interim),
    "trailers": serving(trailers),
    "padded": serving(padded),
    "pinging": serving(pinging),
    "resized": serving(resized),
}


async def several(side: Side) -> None:
    await side.get("/1")
    await side.post("/2", PAYLOAD[:100_000])
    await side.pieces("GET", "/3")
    await side.get("/4")


for _name, _conversation in ANSWERS.items():
    add(f"http2-{_name}", several, h2_handler(_conversation), client=PRIOR)

SETTINGS: dict[str, dict[Codes, int]] = {
    "small_windows": {Codes.INITIAL_WINDOW_SIZE: 100},
    "large_frames": {Codes.MAX_FRAME_SIZE: MEGABYTE, Codes.INITIAL_WINDOW_SIZE: MEGABYTE},
    "no_header_table": {Codes.HEADER_TABLE_SIZE: 0},
    "one_stream": {Codes.MAX_CONCURRENT_STREAMS: 1},
}
for _name, _settings in SETTINGS.items():
    add(
        f"http2-settings_{_name}",
        several,
        h2_handler(
            serving(lambda talk, asked: talk.answer(asked, 200, bytes(asked.body))), _settings
        ),
        client=PRIOR,
    )


# -- streams side by side --------------------------------------------------------------------


def crowd(count: int) -> Any:
    async def script(side: Side) -> None:
        def one(number: int) -> Any:
            # all within the first window: httpx's threads may block each other beyond it
            return lambda: side.post(f"/{number}", PAYLOAD[: 10 * number])

        await side.get("/first")
        await side.together(*(one(number) for number in range(count)))

    return script


def late(talk: Talk) -> None:
    """Answers when ten are waiting, in the opposite order."""
    waiting: list[Asked] = []
    while (asked := talk.request()) is not None:
        waiting.append(asked)
        if asked.path == "/first" or len(waiting) == 10:
            for each in reversed(waiting):
                talk.answer(each, 200, bytes(each.body))
            waiting.clear()


add("http2-ten_streams", crowd(10), h2_handler(late), client=PRIOR, unordered=True)
add("http2-many_streams", crowd(60), echo_h2, client=PRIOR, unordered=True)
for _most in (1, 3):
    add(
        f"http2-{_most}_at_most",
        crowd(8),
        h2_handler(
            serving(lambda talk, asked: talk.answer(asked, 200, bytes(asked.body))),
            {Codes.MAX_CONCURRENT_STREAMS: _most},
        ),
        client=PRIOR,
        spread=True,  # beyond the limit outlast opens more connections, httpx waits
        kept=False,
    )


# -- responses that are left -----------------------------------------------------------------


def halves(talk: Talk, asked: Asked) -> None:
    """The second half of /slow waits for the gate."""
    talk.head(asked.stream, 200)
    if asked.path == "/slow":
        talk.peer.act.gate.clear()
        talk.data(asked.stream, b"first", end=False)
        talk.peer.wait()
    talk.data(asked.stream, b"second")


@case(h2_handler(serving(halves)), client=PRIOR)
async def streamed(side: Side) -> None:
    await side.pieces("GET", "/slow", each=lambda _: side.act.gate.set())
    await side.get("/next")


# -- over TLS --------------------------------------------------------------------------------


async def over_tls(side: Side) -> None:
    await side.get("/1")
    await side.post("/2", PAYLOAD)
    await side.pieces("POST", "/3", content=PAYLOAD)


add(
    "http2-over_tls",
    over_tls,
    echo_h2,
    tls=functools.partial(speaking, "h2"),
    client={"http2": True},
)
add(
    "http2-over_tls_alone",
    over_tls,
    echo_h2,
    tls=functools.partial(speaking, "h2"),
    client=PRIOR,
)
add(
    "http2-over_tls_not_agreed",
    over_tls,
    echo_h2,
    tls=functools.partial(speaking, "spdy/1"),
    client=PRIOR,
)
