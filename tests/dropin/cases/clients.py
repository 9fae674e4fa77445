"""What httpx's clients build upon a transport: redirects, authentication, cookies, decoding, hooks.

None of it is the transport's work; all of it depends on how the transport treats requests,
bodies and responses.
"""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Callable, Generator
from typing import Any
from unittest import mock

import httpx

from tests.dropin.sides import Side, Upload
from tests.dropin.stage import Peer, echo
from tests.dropin.table import case

# -- redirects -------------------------------------------------------------------------------


def redirects(peer: Peer) -> None:
    """/301/x leads to /x by that status; what is no redirect is answered with what came."""
    while (seen := peer.request()) is not None:
        head, body = seen
        status, _, rest = head.target.strip("/").partition("/")
        if not status.isdigit():
            text = f"{head.method} {head.target} ".encode() + body
            peer.answer(200, b"" if head.method == "HEAD" else text)
            continue
        leads = {"loop": head.target, "out": f"http://b.test:{peer.port}/end", "odd": "//"}
        text = b"" if head.method == "HEAD" else b"moved"
        peer.answer(int(status), text, f"location: {leads.get(rest, '/' + rest)}")


@case(redirects, client={"follow_redirects": True})
async def redirects_are_followed(side: Side) -> None:
    for status in (301, 302, 303, 307, 308):
        await side.get(f"/{status}/end")
        await side.post(f"/{status}/end?post")
        await side.request("HEAD", f"/{status}/end?head")
    await side.get("/301/302/303/end")


@case(redirects)
async def redirects_are_not_followed(side: Side) -> None:
    await side.get("/302/end")
    response = await side.get("/302/next")
    assert response is not None
    assert response.next_request is not None
    side.note("next", response.next_request.url.path)


@case(redirects, client={"follow_redirects": True, "max_redirects": 3})
async def too_many_redirects(side: Side) -> None:
    await side.get("/302/loop")
    await side.get("/end")


@case(redirects, client={"follow_redirects": True})
async def a_stream_cannot_be_redirected(side: Side) -> None:
    await side.post("/307/end", Upload(b"once"))
    await side.post("/302/end", Upload(b"once"))
    await side.post("/end", Upload(b"once"))


@case(redirects, client={"follow_redirects": True}, names={"b.test": ("127.0.0.1",)})
async def to_another_origin(side: Side) -> None:
    """Authorization stays behind; the other origin has connections of its own."""
    await side.get("/302/out", headers={"Authorization": "Basic eDp5", "X-Kept": "1"})
    await side.get("/end")


@case(redirects, client={"follow_redirects": True})
async def odd_redirects(side: Side) -> None:
    await side.get("/302/odd")
    await side.get("/302/%0a")
    await side.get("/end")


# -- authentication --------------------------------------------------------------------------


def guarded(challenge: str) -> Callable[[Peer], None]:
    """Without credentials: 401 with a challenge, else an echo."""

    def handler(peer: Peer) -> None:
        while (seen := peer.request()) is not None:
            head, body = seen
            if "authorization" in head.headers:
                peer.answer(200, body or b"welcome")
            else:
                peer.answer(401, b"who?", f"www-authenticate: {challenge}", "set-cookie: a=1")

    return handler


DIGEST = 'Digest realm="r", nonce="n", qop="auth", algorithm=SHA-256, opaque="o"'


@case(guarded("Basic"), client={"auth": ("user", "pass")})
async def basic(side: Side) -> None:
    await side.get("/1")
    await side.post("/2")
    await side.get("/3", auth=None)


@case(guarded(DIGEST), client={"auth": httpx.DigestAuth("user", "pass")})
async def digest(side: Side) -> None:
    side.client.auth = httpx.DigestAuth("user", "pass")  # it remembers challenges: one per side
    with mock.patch.object(httpx.DigestAuth, "_get_client_nonce", return_value=b"cnonce"):
        await side.get("/1")
        await side.post("/2")
        await side.post("/3", Upload(b"a stream"))


@case(guarded(DIGEST))
async def digest_of_a_stream(side: Side) -> None:
    """The challenge comes when the stream has been consumed."""
    with mock.patch.object(httpx.DigestAuth, "_get_client_nonce", return_value=b"cnonce"):
        await side.post("/1", Upload(b"a stream"), auth=httpx.DigestAuth("user", "pass"))
    await side.get("/2")


class Stubborn(httpx.Auth):
    """Asks twice, and reads the response in between."""

    requires_response_body = True

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        response = yield request
        request.headers["Authorization"] = base64.b64encode(response.content).decode()
        yield request


@case(guarded("Mine"), client={"auth": Stubborn()})
async def a_flow_of_ones_own(side: Side) -> None:
    await side.get("/1")
    await side.post("/2")


@case(guarded("Mine"))
async def an_unread_401(side: Side) -> None:
    """A flow that does not read the first response: its connection."""

    def flow(request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        yield request
        request.headers["Authorization"] = "x"
        yield request

    auth = httpx.Auth()
    auth.auth_flow = flow  # type: ignore[method-assign]  # an object of its own, for this case
    await side.get("/1", auth=auth)
    await side.post("/2", auth=auth)


# -- cookies ---------------------------------------------------------------------------------


def counts(peer: Peer) -> None:
    while (seen := peer.request()) is not None:
        cookie = seen[0].headers.get("cookie", "")
        peer.answer(200, cookie.encode(), f"set-cookie: n={len(cookie)}; Path=/", "set-cookie: k=v")


@case(counts, client={"cookies": {"mine": "1"}})
async def cookies(side: Side) -> None:
    for number in range(4):
        await side.get(f"/{number}")
    side.note("jar", sorted(side.client.cookies.items()))


# -- decoding --------------------------------------------------------------------------------

TEXT = "grüße\r\nzwei\n\ndrei" * 3000


def encodes(peer: Peer) -> None:
    """By the path: /gzip, /deflate, /twice, /chunks, /identity."""
    plain = TEXT.encode()
    bodies = {
        "/gzip": ("gzip", gzip.compress(plain, mtime=0)),
        "/deflate": ("deflate", zlib.compress(plain)),
        "/twice": ("gzip, deflate", zlib.compress(gzip.compress(plain, mtime=0))),
        "/identity": ("identity", plain),
    }
    while (seen := peer.request()) is not None:
        name, body = bodies[seen[0].target]
        peer.answer(
            200, body, f"content-encoding: {name}", "content-type: text/plain; charset=utf-8"
        )


@case(encodes)
async def decoding(side: Side) -> None:
    for path in ("/gzip", "/deflate", "/twice", "/identity"):
        response = await side.get(path)
        assert response is not None
        side.note(f"{path} text", response.text == TEXT)
        await side.pieces("GET", path)


# -- hooks and requests of one's own ---------------------------------------------------------


@case(echo)
async def hooks(side: Side) -> None:
    seen: list[str] = []

    def at_request(request: httpx.Request) -> None:
        seen.append(f"request {request.url.path}")
        request.headers["X-Hook"] = "1"

    def at_response(response: httpx.Response) -> None:
        seen.append(f"response {response.status_code}")

    async def later_request(request: httpx.Request) -> None:
        at_request(request)

    async def later_response(response: httpx.Response) -> None:
        at_response(response)

    asynchronous = isinstance(side.client, httpx.AsyncClient)
    each: dict[str, Any] = {
        "request": [later_request if asynchronous else at_request],
        "response": [later_response if asynchronous else at_response],
    }
    side.client.event_hooks = each
    await side.get("/1")
    await side.post("/2")
    side.note("hooks", seen)


@case(echo, client={"headers": {"X-Default": "1", "User-Agent": "mine"}, "params": {"a": "b"}})
async def defaults(side: Side) -> None:
    await side.get("/1")
    await side.get("/2?c=d", headers={"x-default": "2"}, params={"e": "f"})


@case(echo)
async def one_request_sent_twice(side: Side) -> None:
    request = side.client.build_request("POST", side.url("/1"), content=b"again")
    for _ in range(2):
        response = await side.send_built(request)
        side.note("again", (response.status_code, response.content))


@case(echo)
async def after_the_close(side: Side) -> None:
    await side.get("/1")
    await side.close()
    await side.get("/2")
