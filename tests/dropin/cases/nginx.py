"""A real server, nginx: what it does otherwise than a raw handler that a case has made for itself.

Files, keep-alive limits, compression, ranges, refusals of large uploads, an upstream of HTTP/1.0,
TLS, client certificates, HTTP/2, a Unix socket.
"""

from __future__ import annotations

from typing import Any

import httpx

from tests.dropin.authority import client_certificate
from tests.dropin.nginx import NginxStage
from tests.dropin.sides import Side, Upload
from tests.dropin.stage import BOUND, Peer, closing, echo, raw
from tests.dropin.table import add, case

MEGABYTE = 1_048_576
PAYLOAD = bytes(range(256)) * 4096
FILE = "/hello.txt"

# -- files -----------------------------------------------------------------------------------


async def files(side: Side) -> None:
    await side.get(FILE)
    await side.get("/empty.txt")
    await side.request("HEAD", FILE)
    await side.get("/absent.txt")
    await side.get("/../../etc/passwd")
    await side.get("/%2e%2e/hello.txt")
    await side.get("/large.txt")
    await side.pieces("GET", "/large.txt")
    await side.unread("GET", "/large.txt")
    await side.request("POST", FILE, content=b"not allowed")
    await side.request("OPTIONS", FILE)
    await side.request("PURGE", FILE)
    await side.request("PURGE", "/up/purge")


async def conditions(side: Side) -> None:
    response = await side.get(FILE)
    assert response is not None
    tag, at = response.headers["etag"], response.headers["last-modified"]
    await side.request("GET", FILE, label="etag", headers={"If-None-Match": tag})
    await side.request("GET", FILE, label="at", headers={"If-Modified-Since": at})
    await side.request("GET", FILE, label="other", headers={"If-Match": '"other"'})
    await side.get(FILE)


RANGES = ("bytes=0-1", "bytes=2-", "bytes=-2", "bytes=9-99", "bytes=1-0", "lines=1-2", "bytes=0-99")


async def ranges(side: Side) -> None:
    for each in RANGES:
        await side.request("GET", FILE, label=each, headers={"Range": each})
    await side.request("HEAD", FILE, headers={"Range": "bytes=0-1"})
    headers = {"Range": "bytes=0-1", "If-Range": '"other"'}
    await side.request("GET", FILE, label="if", headers=headers)
    await side.pieces("GET", "/large.txt", headers={"Range": "bytes=1000-2000000"})


async def zipped(side: Side) -> None:
    await side.get("/zipped/large.txt")
    await side.pieces("GET", "/zipped/large.txt")
    await side.request("GET", "/zipped/hello.txt", headers={"Accept-Encoding": "identity"})
    await side.request("HEAD", "/zipped/hello.txt")
    await side.get("/zipped/hello.txt")
    await side.unread("GET", "/zipped/large.txt")
    await side.get("/zipped/empty.txt")


async def until_the_end(side: Side) -> None:
    """No chunks: a compressed file ends with its connection."""
    await side.get("/endless/large.txt")
    await side.get("/endless/hello.txt")


async def moved(side: Side) -> None:
    await side.get("/folder")
    await side.get("/moved/")
    await side.get("/found/")
    await side.post("/again/")
    await side.post("/found/")
    await side.request("HEAD", "/moved/")


async def moved_and_followed(side: Side) -> None:
    await side.get("/moved/")
    await side.post("/found/")
    await side.post("/again/")


EVERYWHERE: dict[str, Any] = {
    "files": files,
    "conditions": conditions,
    "ranges": ranges,
    "zipped": zipped,
    "until_the_end": until_the_end,
    "moved": moved,
}
# Requests over HTTP/2 have no length that can be compared, and count no connections in common.
OVER: dict[str, dict[str, Any]] = {
    "plain": {},
    "secure": {},
    "http2": {"client": {"http2": True}, "cut": True},
}
for _server, _more in OVER.items():
    for _name, _script in EVERYWHERE.items():
        add(f"nginx-{_server}_{_name}", _script, echo, nginx=_server, **_more)
    _followed = {**_more, "client": {**_more.get("client", {}), "follow_redirects": True}}
    add(f"nginx-{_server}_moved_and_followed", moved_and_followed, echo, nginx=_server, **_followed)

# -- how long connections last ---------------------------------------------------------------


async def limited(side: Side) -> None:
    for place in ("once", "twice", "thrice", "never"):
        for _ in range(4):
            await side.get(f"/{place}{FILE}")
        await side.unread("GET", f"/{place}/large.txt")
        await side.request("POST", f"/{place}{FILE}")


add("nginx-plain_limited", limited, nginx="plain")
add("nginx-secure_limited", limited, nginx="secure")


async def alone(side: Side) -> None:
    """Until nginx has closed all its connections."""
    assert isinstance(side.stage, NginxStage)
    await side.aside(side.stage.nginx.until_alone)


@case(nginx="plain", kept=False)
async def ended_while_idle(side: Side) -> None:
    await side.get(f"/brief{FILE}")
    await alone(side)
    await side.request("POST", f"/brief{FILE}")
    await alone(side)
    await side.get(FILE)


@case(nginx="http2_brief", client={"http2": True}, cut=True, kept=False)
async def http2_ended_while_idle(side: Side) -> None:
    """The farewell (GOAWAY) of an idle connection."""
    await side.get(FILE)
    await alone(side)
    await side.request("POST", FILE)


@case(nginx="http2_twice", client={"http2": True}, cut=True, kept=False)
async def http2_limited(side: Side) -> None:
    """Every connection takes two requests, and says a farewell with the second."""
    for _ in range(5):
        await side.get(FILE)


@case(nginx="plain")
async def closed_without_a_word(side: Side) -> None:
    await side.request("POST", "/closed/")
    await side.get(FILE)


# -- an upstream -----------------------------------------------------------------------------


async def bodies(side: Side) -> None:
    for place in ("/up", "/up_1_1"):
        await side.post(f"{place}/1")
        await side.post(f"{place}/2", Upload(b"one", b"", b"two" * 1000))
        await side.post(f"{place}/3", PAYLOAD)
        await side.pieces("POST", f"{place}/4", content=Upload(PAYLOAD, PAYLOAD))
        await side.request("HEAD", f"{place}/5")
        await side.request("GET", f"{place}/6", content=b"a GET with a body")
        await side.post(f"{place}/7", headers={"Expect": "100-continue"})


for _server, _more in OVER.items():
    add(f"nginx-{_server}_bodies", bodies, echo, nginx=_server, **_more)

H = b"HTTP/1.1 200 OK\r\n"
OLD = b"HTTP/1.0 200 OK\r\n"
UPSTREAM: dict[str, Any] = {
    "of_http_1_0": closing(OLD + b"\r\nuntil the end"),
    "with_a_length": closing(OLD + b"content-length: 5\r\n\r\nhello"),
    "in_chunks": raw(H + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    "cut_off": closing(H + b"content-length: 10\r\n\r\nhello"),
    "cut_off_in_chunks": closing(H + b"transfer-encoding: chunked\r\n\r\n5\r\nhel"),
}


async def posts(side: Side) -> None:
    """POSTs: what answers 502 is not repeated."""
    for place in ("/up", "/up_1_1"):
        await side.post(f"{place}/1")
        await side.pieces("POST", f"{place}/2", content=b"payload")
        await side.unread("POST", f"{place}/3", content=b"payload")
    await side.get(FILE)


for _server, _more in OVER.items():
    for _name, _handler in UPSTREAM.items():
        # over HTTP/2 a request that is left is logged when nginx hears of it
        _order = {"unordered": _server == "http2"}
        _full = f"nginx-{_server}_upstream_{_name}"
        add(_full, posts, _handler, nginx=_server, **_more, **_order)


def in_step(peer: Peer) -> None:
    """The second half of the body waits until the client has the first."""
    while peer.request() is not None:
        peer.act.gate.clear()
        peer.send(H + b"transfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        peer.wait()
        peer.send(b"6\r\nsecond\r\n0\r\n\r\n")


async def streamed(side: Side) -> None:
    for number in (1, 2):
        await side.pieces("GET", f"/up_1_1/{number}", each=lambda _: side.act.gate.set())


for _server, _more in OVER.items():
    add(f"nginx-{_server}_streamed", streamed, in_step, nginx=_server, **_more)


@case(nginx="plain")
async def nobody_upstream(side: Side) -> None:
    """502: outlast asks again where that is safe."""
    await side.post("/nobody/1")
    await side.get("/nobody/2")


def mute(peer: Peer) -> None:
    peer.request()
    peer.until_closed()


@case(mute, nginx="plain")
async def mute_upstream(side: Side) -> None:
    await side.post("/impatient/1")


# -- uploads that are refused ----------------------------------------------------------------


def too_large(place: str, *, first: float) -> Any:
    """Uploads beyond a limit, and one below it. `first`: how long httpx may wait for the first
    one's answer, if it does so in vain: over HTTP/2 for a window that nobody opens any more."""

    async def script(side: Side) -> None:
        patience = httpx.Timeout(BOUND, read=side.vain(first))
        await side.post(f"{place}/1", b"x" * 4 * MEGABYTE, timeout=patience)
        await side.post(f"{place}/2", Upload(*[b"x" * MEGABYTE] * 4))
        await side.post(f"{place}/3", b"x" * 1000)
        await side.post(f"{place}/4", b"x" * 2000, headers={"Expect": "100-continue"})

    return script


# To be rude: nginx closes without reading what is under way.
for _server, _more in OVER.items():
    for _name, _place in (("", "/small"), ("_rudely", "/small_and_rude")):
        _script = too_large(_place, first=0.3 if _server == "http2" else BOUND)
        _cut = {**_more, "cut": True}
        add(f"nginx-{_server}_too_large{_name}", _script, echo, nginx=_server, **_cut)


# -- who comes, and how ----------------------------------------------------------------------


async def get_and_post(side: Side) -> None:
    await side.get(FILE)
    await side.post("/up/1")


add("nginx-certificate_missing", get_and_post, echo, nginx="certified")
add(
    "nginx-certificate_shown",
    get_and_post,
    echo,
    nginx="certified",
    client={"verify": client_certificate()},
)


@case(nginx="secure")
async def plain_http_to_https(side: Side) -> None:
    url = side.stage.url.replace("https:", "http:")
    await side.request("POST", f"{url}/1")
    await side.get(FILE)


@case(nginx="http2", client={"http2": True, "http1": False}, cut=True)
async def http2_alone(side: Side) -> None:
    await side.get(FILE)
    await side.request("POST", FILE)
