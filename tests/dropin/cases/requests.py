"""What reaches the server: request lines, header lines, bodies, in the bytes of the wire."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import httpx

from tests.dropin.sides import Side, Upload
from tests.dropin.stage import echo, raw
from tests.dropin.table import add, case

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
MEGABYTE = 1_048_576


@case(echo)
async def every_method(side: Side) -> None:
    for method in ("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "POST", "PATCH", "PURGE"):
        await side.request(method, f"/{method}")


@case(echo)
async def empty_bodies(side: Side) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "GET"):
        await side.request(method, f"/1/{method}")
        await side.request(method, f"/2/{method}", content=b"")
        await side.request(method, f"/3/{method}", content=Upload())
        await side.request(method, f"/4/{method}", content=Upload(b"", b"", b""))


@case(echo)
async def bodies_of_all_kinds(side: Side) -> None:
    await side.post("/bytes", b"\0\r\n\xff")
    await side.post("/text", "grüße")
    await side.request("POST", "/json", json={"a": [1, None, "ß"]})
    await side.request("POST", "/form", data={"a": "1", "b": ["2", "3 4"]})
    await side.post("/stream", Upload(b"one", b"", b"two" * 1000))
    await side.post("/get", b"a body")
    await side.request("GET", "/get", content=b"a GET with a body")


@case(echo)
async def multipart(side: Side) -> None:
    headers = {"content-type": "multipart/form-data; boundary=here"}
    files = {"a": ("a.txt", io.BytesIO(b"x" * 100_000), "text/plain"), "b": ("b", b"bytes")}
    await side.request("POST", "/", data={"field": "1"}, files=files, headers=headers)


@case(echo)
async def megabytes(side: Side) -> None:
    payload = bytes(range(256)) * 4096 * 3
    await side.post("/once", payload)
    await side.post("/stream", Upload(*[payload[:MEGABYTE]] * 3))
    await side.post("/again", payload)


@case(echo)
async def a_declared_length(side: Side) -> None:
    """A streamed body whose length the caller knows is not chunked."""
    await side.post("/right", Upload(b"12", b"345"), headers={"Content-Length": "5"})
    await side.post("/next")


@case(echo)
async def too_little_for_the_declared_length(side: Side) -> None:
    await side.post("/1", Upload(b"12"), headers={"Content-Length": "5"})
    await side.post("/2")


@case(echo)
async def too_much_for_the_declared_length(side: Side) -> None:
    await side.post("/1", Upload(b"12", b"345", b"6"), headers={"Content-Length": "5"})
    await side.post("/2")


@case(echo)
async def the_callers_code_fails(side: Side) -> None:
    def burst() -> None:
        raise LookupError("mine")

    await side.post("/1", Upload(b"12", burst))
    await side.post("/2")


@case(echo)
async def a_chunk_that_is_no_bytes(side: Side) -> None:
    text: Any = "text"
    await side.post("/1", Upload(text))
    await side.post("/2")


# -- header lines ---------------------------------------------------------------------------

HEADERS: dict[str, Any] = {
    "order_and_case": [("X-b", "1"), ("x-A", "2"), ("X-B", "3"), ("ACCEPT", "*/*")],
    "many": [(f"X-{n}", "v" * 20) for n in range(500)],
    "large": [("X-Large", "v" * 60_000)],
    "host": {"Host": "shop.test"},
    "host_with_port": {"host": "shop.test:81"},
    "empty_value": {"X-Empty": ""},
    "spaces_around": {"X-Spaces": "  a  b  "},
    "latin_1": [(b"X-Latin", "grüße".encode("latin-1"))],
    "utf_8": {"X-Text": "grüße €"},
    "close": {"Connection": "close"},
    "keep_alive": {"Connection": "Keep-Alive"},
    "expect": {"Expect": "100-continue"},
    "te": {"TE": "trailers"},
    "cookie": [("Cookie", "a=1"), ("Cookie", "b=2")],
    "line_break_in_value": {"X-Bad": "a\r\nX-Smuggled: 1"},
    "nul_in_value": {"X-Bad": "a\0b"},
    "space_in_name": {"X Bad": "1"},
    "empty_name": {"": "1"},
    "colon_in_name": {"X:Bad": "1"},
    "two_hosts": [("Host", "a.test"), ("Host", "b.test")],
    "two_lengths": [("Content-Length", "7"), ("Content-Length", "8")],
    "length_that_is_no_number": {"Content-Length": "seven"},
    "length_and_chunked": {"Content-Length": "7", "Transfer-Encoding": "chunked"},
    "gzip_transfer": {"Transfer-Encoding": "gzip"},
}


def with_headers(headers: Any) -> Callable[[Side], Any]:
    async def script(side: Side) -> None:
        await side.post("/post", headers=headers)
        await side.request("GET", "/get", headers=headers)
        await side.get("/next")

    return script


for _name, _headers in HEADERS.items():
    add(f"requests-header_{_name}", with_headers(_headers), echo)


@case(echo)
async def no_host(side: Side) -> None:
    async def later(request: httpx.Request) -> None:
        del request.headers["host"]

    def now(request: httpx.Request) -> None:
        del request.headers["host"]

    hook: Any = now if isinstance(side.client, httpx.Client) else later
    side.client.event_hooks = {"request": [hook]}
    await side.get("/1")


@case(echo)
async def odd_methods(side: Side) -> None:
    await side.request("get", "/lower")
    await side.request("M-SEARCH", "/dash")
    await side.request("GE T", "/space")
    await side.request("", "/empty")
    await side.request("GRÜSSE", "/unicode")
    await side.get("/next")


# -- targets ---------------------------------------------------------------------------------

TARGETS = (
    *("", "/", "//", "/a//b", "/a/../b", "/./a", "/%2e%2E/x", "/a%2Fb", "/%zz", "/a b", "/ü"),
    *("?", "/?", "?a=b", "/?a=b&a=c", "/?a=%20+b", "/?ü=ß", "/?a=b#fragment", "/#fragment"),
    *("/;p=1", "/:@!$&'()*+,;=~-._", "/" + "x" * 8000, "/?" + "y" * 8000, "/a?b?c", "/[x]"),
    *("/\\", "/|", "/^`{}", '/"<>', "/%E2%82%AC", "/a\tb", "/a\nb"),
)


@case(echo)
async def odd_paths(side: Side) -> None:
    for number, target in enumerate(TARGETS):
        await side.request("GET", target, label=f"{number:02}")


@case(echo)
async def parameters(side: Side) -> None:
    await side.get("/a?b=1", params={"c": "2 3"})
    await side.request("GET", "/list", params=[("a", 1), ("a", None), ("b", True)])


@case(echo)
async def a_user_in_the_url(side: Side) -> None:
    await side.get(f"http://user:pa%20ss@{side.stage.authority}/x")
    await side.get(f"http://user@{side.stage.authority}/y")
    await side.get(f"http://@{side.stage.authority}/z")


@case(echo)
async def a_base_url(side: Side) -> None:
    side.client.base_url = httpx.URL(side.url("/base/"))
    await side.request("GET", side.stage.url + "/elsewhere", label="1")
    response = side.client.build_request("GET", "below")
    side.note("2", str(response.url).removeprefix(side.stage.url))


@case(echo)
async def the_target_extension(side: Side) -> None:
    for number, target in enumerate(
        (b"*", b"http://shop.test/absolute", b"shop.test:443", b"/%20")
    ):
        await side.request("OPTIONS", "/", extensions={"target": target}, label=f"{number}")
    await side.request("GET", "/", extensions={"target": "/text"}, label="text")
    await side.request("GET", "/", extensions={"target": b"/a b"}, label="wrong")
    await side.get("/next")


@case(raw(OK))
async def early_reader(side: Side) -> None:
    """A server that reads nothing but heads gets bodies all the same."""
    await side.post("/1")
    await side.post("/2")


@case(echo, stage={"host": "::1"})
async def ip_version_6(side: Side) -> None:
    await side.get("/1")
    await side.post("/2")


@case(echo)
async def websocket_schemes(side: Side) -> None:
    """httpx speaks HTTP for ws:// URLs: libraries build WebSockets upon that."""
    await side.request("GET", side.url("/1").replace("http", "ws"), label="1")
    await side.get("/2")


@case(echo)
async def foreign_urls(side: Side) -> None:
    port = side.stage.port
    side.client.base_url = httpx.URL("")
    for url in (
        *("ftp://127.0.0.1/", "mailto:nobody@shop.test", "http://", "https://", "http:///path"),
        *("://x", "/relative", "", "x", "http://127.0.0.1:0/"),
        *(f"HTTP://127.0.0.1:{port}/upper", f"http://127.1:{port}/short", "http://[::g]/"),
    ):
        await side.request("GET", url, label=url) if "://" in url else await bare(side, url)


@case(echo)
async def a_port_that_cannot_be(side: Side) -> None:
    await side.get("http://127.0.0.1:70000/")


async def bare(side: Side, url: str) -> None:
    """A URL without a scheme, as it is."""
    try:
        await side.send("GET", url)
    except Exception as error:  # noqa: BLE001  an outcome, whatever it is
        side.note(url, type(error).__name__)
