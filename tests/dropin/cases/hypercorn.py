"""A real HTTP/2 server over TLS, hypercorn: streaming both ways, early answers, trailers, answers
without a body, crowds, large bodies under flow control, and a graceful shutdown."""

from __future__ import annotations

from typing import Any

from tests.dropin.hypercorn import HypercornStage
from tests.dropin.sides import Side, Upload
from tests.dropin.table import add

MEGABYTE = bytes(range(256)) * 4096
HTTP_2: dict[str, Any] = {"http2": True}


def stage_of(side: Side) -> HypercornStage:
    assert isinstance(side.stage, HypercornStage)
    return side.stage


async def echoes(side: Side) -> None:
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"):
        await side.request(method, f"/echo/{method}?a=b")
    await side.post("/echo/1", Upload(b"one", b"", b"two" * 1000))
    await side.pieces("POST", "/echo/2", content=b"payload")
    await side.unread("POST", "/echo/3", content=b"payload")
    await side.get("/absent/4")
    await side.get("/echo/5", headers=[("X-b", "1"), ("x-a", "2"), ("Cookie", "c=3")])


async def without_a_body(side: Side) -> None:
    for status in (204, 304, 200):
        for method in ("GET", "HEAD", "POST"):
            await side.request(method, f"/status/{status}", label=f"{method} {status}")
    await side.request("HEAD", "/large/1")
    await side.request("HEAD", "/trailers")
    await side.get("/echo/next")


async def streamed(side: Side) -> None:
    """The server waits in the middle of its answer for the client to have its first half."""
    first: list[bytes] = []
    for number in (1, 2):

        def each(got: bytes) -> None:
            if got == b"first":
                first.append(got)
                stage_of(side).open()

        await side.pieces("GET", f"/steps/{number}", each=each)
    side.note("first", len(first))


async def streamed_both_ways(side: Side) -> None:
    parts = [bytes((number,)) * 1000 for number in range(20)]
    await side.pieces("POST", "/both/1", content=Upload(*parts))
    await side.post("/both/2", Upload(b"one", b"two"))
    await side.post("/both/3", b"payload")
    await side.get("/both/4")


async def answered_early(side: Side) -> None:
    await side.get("/early/1")
    await side.post("/early/2", b"payload")
    await side.post("/early/3", MEGABYTE)
    await side.pieces("POST", "/early/4", content=Upload(MEGABYTE[:300_000], MEGABYTE[:300_000]))
    await side.get("/echo/5")


async def trailers(side: Side) -> None:
    await side.get("/trailers/1")
    await side.get("/trailers/2", headers={"TE": "trailers"})
    await side.pieces("GET", "/trailers/3", headers={"TE": "trailers"})


async def large(side: Side) -> None:
    """Far more than any window, both ways."""
    await side.post("/echo/1", MEGABYTE)
    await side.post("/echo/2", Upload(*[MEGABYTE[:100_000]] * 5))
    await side.pieces("GET", "/large/1")
    await side.get("/large/2")


async def left_unread(side: Side) -> None:
    await side.get("/echo/1")
    await side.unread("GET", "/steps/4")
    await side.get("/echo/2")


async def crowd(side: Side) -> None:
    def one(number: int) -> Any:
        return lambda: side.post(f"/echo/{number}", MEGABYTE[: 10 * number])

    await side.get("/echo/first")
    await side.together(*(one(number) for number in range(40)))


async def crowd_of_uploads(side: Side) -> None:
    """Together far more than the connection's window."""

    def one(number: int) -> Any:
        return lambda: side.post(f"/echo/{number}", MEGABYTE[: 100_000 + number])

    await side.get("/echo/first")
    await side.together(*(one(number) for number in range(8)))


async def shut_down_while_idle(side: Side) -> None:
    await side.post("/echo/1")
    await side.aside(stage_of(side).leave)
    await side.post("/echo/2")
    await side.get("/echo/3")


async def shut_down_meanwhile(side: Side) -> None:
    """What has begun is answered, then the farewell comes; what follows meets the next server."""
    left: list[bool] = []

    def each(got: bytes) -> None:
        if got == b"first" and not left:
            left.append(True)
            stage_of(side).leave()
            stage_of(side).open()

    await side.get("/echo/1")
    await side.pieces("GET", "/steps/2", each=each)
    await side.post("/echo/3")


SCRIPTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "echoes": (echoes, {}),
    "without_a_body": (without_a_body, {}),
    "streamed": (streamed, {}),
    "streamed_both_ways": (streamed_both_ways, {}),
    "answered_early": (answered_early, {}),
    "trailers": (trailers, {}),
    "large": (large, {}),
    "left_unread": (left_unread, {}),
    "crowd": (crowd, {"unordered": True}),
    "crowd_of_uploads": (crowd_of_uploads, {"unordered": True}),
    "shut_down_while_idle": (shut_down_while_idle, {}),
    "shut_down_meanwhile": (shut_down_meanwhile, {}),
}
for _name, (_script, _more) in SCRIPTS.items():
    add(f"hypercorn-http2_{_name}", _script, open=HypercornStage, client=HTTP_2, **_more)
for _name in ("answered_early", "streamed", "streamed_both_ways", "shut_down_while_idle"):
    _script, _more = SCRIPTS[_name]
    add(f"hypercorn-http1_{_name}", _script, open=HypercornStage, **_more)
