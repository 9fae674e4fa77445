"""HTTP/2 servers that leave (GOAWAY) and connections that end."""

from __future__ import annotations

from typing import Any

import h2.errors

from tests.dropin.h2_talk import Conversation, Talk, echo_h2, h2_handler
from tests.dropin.sides import Side
from tests.dropin.table import add, case

PRIOR: dict[str, Any] = {"http1": False, "http2": True}
CODES = h2.errors.ErrorCodes


async def post_then_get(side: Side) -> None:
    await side.post("/1")
    await side.get("/2")


def leaves(last: int, code: int = 0, *, answer: bool, end: bool = True) -> Conversation:
    """The first request meets a farewell, perhaps an answer, and the connection's end, unless it
    is to be the client who ends it."""

    def conversation(talk: Talk) -> None:
        asked = talk.request()
        if asked is None:
            return
        talk.goaway(last, code)
        if answer:
            talk.answer(asked, 200, b"the last one")
        if end:
            talk.peer.finish()

    return conversation


FAREWELLS = {
    "before_the_first": (0, 0, False),
    "before_the_first_by_error": (0, CODES.ENHANCE_YOUR_CALM, False),
    "with_the_first": (1, 0, True),
    "with_the_first_unanswered": (1, 0, False),
    "beyond_all": (2**31 - 1, 0, True),
    "by_error": (1, CODES.INTERNAL_ERROR, False),
}
for _name, (_last, _why, _answered) in FAREWELLS.items():
    _leaving = h2_handler(leaves(_last, int(_why), answer=_answered))
    add(f"http2_leaving-left_{_name}", post_then_get, _leaving, echo_h2, client=PRIOR)
    if (_last, _answered) != (1, False):  # else nothing would ever come
        _staying = h2_handler(leaves(_last, int(_why), answer=_answered, end=False))
        add(f"http2_leaving-left_{_name}_open", post_then_get, _staying, echo_h2, client=PRIOR)


def leaves_between(talk: Talk) -> None:
    """One request is answered; then, while the connection is idle, the farewell."""
    asked = talk.request()
    assert asked is not None
    talk.answer(asked, 200, b"first")
    talk.peer.wait()
    talk.goaway(1)
    talk.peer.finish()
    talk.peer.act.signal.set()


@case(h2_handler(leaves_between), echo_h2, client=PRIOR)
async def left_while_idle(side: Side) -> None:
    await side.post("/1")
    side.act.gate.set()
    await side.until_signal()
    await side.post("/2")


def leaves_amid(talk: Talk) -> None:
    """Two streams are under way; only the first is to be finished."""
    first, second = talk.request(), talk.request()
    assert first is not None
    assert second is not None
    talk.goaway(first.stream)
    talk.answer(first, 200, b"finished")
    talk.peer.finish()


def settled(talk: Talk) -> None:
    """One answer, so that the client knows how many streams there may be; then `leaves_amid`."""
    asked = talk.request()
    assert asked is not None
    talk.answer(asked, 200, b"ready")
    leaves_amid(talk)


@case(h2_handler(settled), echo_h2, client=PRIOR, unordered=True)
async def left_amid_streams(side: Side) -> None:
    await side.get("/0")
    await side.together(lambda: side.post("/a"), lambda: side.post("/a"))


# -- the connection ends ---------------------------------------------------------------------


def ended(after: str, *, reset: bool) -> Conversation:
    """The connection ends before, in the head, or in the body of its second response."""

    def conversation(talk: Talk) -> None:
        asked = talk.request()
        assert asked is not None
        talk.answer(asked, 200, b"ready")
        asked = talk.request()
        if asked is None:
            return
        if after != "nothing":
            talk.head(asked.stream, 200)
        if after == "half":
            talk.data(asked.stream, b"half", end=False)
        if reset:
            talk.peer.reset()
        else:
            talk.peer.finish()

    return conversation


async def every_second(side: Side) -> None:
    await side.get("/0")
    await side.post("/1")
    await side.get("/2")
    await side.pieces("POST", "/3", content=b"payload")


@case(h2_handler(ended("nothing", reset=False)), echo_h2, client=PRIOR)
async def an_end_without_an_answer(side: Side) -> None:
    await side.get("/1")
    await side.get("/2")


@case(h2_handler(ended("nothing", reset=True)), echo_h2, client=PRIOR)
async def a_reset_without_an_answer(side: Side) -> None:
    await side.get("/1")
    await side.get("/2")


for _after in ("nothing", "head", "half"):
    for _reset in (False, True):
        _how = "reset" if _reset else "end"
        _handler = h2_handler(ended(_after, reset=_reset))
        add(f"http2_leaving-{_how}_after_{_after}", every_second, _handler, client=PRIOR)


# -- at every byte ---------------------------------------------------------------------------

ANSWER = 9 + 1 + 9 + 5  # bytes: a HEADERS frame with ":status: 200", a DATA frame with "hello"


def cut(*, reset: bool) -> Conversation:
    """Sends as many bytes of its answer as the path says, and ends the connection."""

    def conversation(talk: Talk) -> None:
        asked = talk.request()
        if asked is None:
            return
        talk.until_idle()  # the client has nothing more to write, which could fail
        talk.h2.send_headers(asked.stream, [(":status", "200")])
        talk.h2.send_data(asked.stream, b"hello", end_stream=True)
        answer = talk.h2.data_to_send()
        assert len(answer) == ANSWER
        talk.peer.send(answer[: int(asked.path[1:])])
        if reset:
            talk.peer.reset()
        else:
            talk.peer.finish()

    return conversation


async def at_every_byte(side: Side) -> None:
    for number in range(ANSWER):
        await side.post(f"/{number}")


for _reset in (False, True):
    _name = f"http2_leaving-{'reset' if _reset else 'end'}_at_every_byte"
    add(_name, at_every_byte, h2_handler(cut(reset=_reset)), client=PRIOR)
