"""HTTP/2 flow control (RFC 9113 section 6.9): broken by the server, or so it says by the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h2.errors

from tests.dropin.h2_talk import Asked, Conversation, Talk, echo_asked, echo_h2, h2_handler, serving
from tests.dropin.sides import Side
from tests.dropin.table import add, case

PRIOR: dict[str, Any] = {"http1": False, "http2": True}
CODES = h2.errors.ErrorCodes
FLOW = CODES.FLOW_CONTROL_ERROR
MOST = 2**31 - 1  # the largest window, and the largest increment
DATA, SETTINGS, WINDOW = 0, 4, 8  # frame types
INITIAL_WINDOW = 4  # a setting
FRAME = 16_384  # bytes; no client here takes larger frames


async def two_posts(side: Side) -> None:
    await side.post("/1")
    await side.pieces("POST", "/2", content=b"payload")


# -- more than the client's window -----------------------------------------------------------


def framed(stream: int, size: int) -> bytes:
    """So many bytes in a DATA frame."""
    return size.to_bytes(3, "big") + bytes((DATA, 0)) + stream.to_bytes(4, "big") + b"x" * size


def flood(*, beyond: bool) -> Conversation:
    """The body of /flood is kept back until /next is asked for; then it comes, and perhaps one
    byte more than the window allows: the client, who has read none of it, gives no more room.
    Those windows differ: a megabyte, or httpx's sixteen, of stream and connection alike."""

    def conversation(talk: Talk) -> None:
        first = talk.request()
        assert first is not None
        talk.head(first.stream, 200)
        second = talk.request()
        assert second is not None
        room = talk.h2.local_flow_control_window(first.stream) + 1 if beyond else 60_000
        frames, rest = divmod(room, FRAME)
        talk.peer.send(framed(first.stream, FRAME) * frames + framed(first.stream, rest))
        talk.answer(second, 200, b"next")
        talk.raw(DATA, 1, first.stream, b"")
        serving(echo_asked)(talk)

    return conversation


async def flooded(side: Side) -> None:
    await side.pieces("GET", "/flood", meanwhile=lambda: side.post("/next"))
    await side.post("/after")


for _name, _beyond in (("within", False), ("beyond", True)):
    add(
        f"http2_flow-{_name}_the_window",
        flooded,
        h2_handler(flood(beyond=_beyond)),
        echo_h2,
        client=PRIOR,
    )

# -- windows that cannot be ------------------------------------------------------------------


def spoken(*frames: tuple[int, int, bytes], head: bool) -> Conversation:
    """Requests are answered; before that, or between the head and the body, come these frames:
    type, stream (1: the request's), payload."""

    def answer(talk: Talk, asked: Asked) -> None:
        if head:
            talk.head(asked.stream, 200)
        for kind, stream, payload in frames:
            talk.raw(kind, 0, stream and asked.stream, payload)
        if not head:
            talk.head(asked.stream, 200)
        talk.data(asked.stream, b"ok")

    return serving(answer)


def window(increment: int) -> bytes:
    return increment.to_bytes(4, "big")


def initial(size: int) -> bytes:
    return INITIAL_WINDOW.to_bytes(2, "big") + size.to_bytes(4, "big")


WRONG: dict[str, tuple[tuple[int, int, bytes], ...]] = {
    "nothing_for_all": ((WINDOW, 0, window(0)),),
    "nothing_for_one": ((WINDOW, 1, window(0)),),
    "too_much_for_all": ((WINDOW, 0, window(MOST)),),
    "too_much_for_one": ((WINDOW, 1, window(MOST)),),
    "too_much_in_two_steps": ((WINDOW, 0, window(2**30)), (WINDOW, 0, window(2**30))),
    "too_large_from_the_start": ((SETTINGS, 0, initial(MOST + 1)),),
    "too_large_by_settings": ((WINDOW, 1, window(1000)), (SETTINGS, 0, initial(MOST))),
    "half_an_increment": ((WINDOW, 0, b"\0\0"),),
    "reserved_bit": ((WINDOW, 0, window(2**31 + 1)),),
}
for _name, _frames in WRONG.items():
    for _head in (False, True):
        _full = f"http2_flow-{_name}{'_after_the_head' if _head else ''}"
        add(_full, two_posts, h2_handler(spoken(*_frames, head=_head)), client=PRIOR)

# -- what the client is said to have done ----------------------------------------------------


def blaming(how: Callable[[Talk, Asked], None], *, head: bool) -> Conversation:
    """The first request is blamed, perhaps after half of its answer; then the server goes on."""

    def conversation(talk: Talk) -> None:
        asked = talk.request()
        if asked is None:
            return
        if head:
            talk.head(asked.stream, 200)
            talk.data(asked.stream, b"half", end=False)
        how(talk, asked)
        serving(lambda talk, asked: talk.answer(asked, 200, b"ok"))(talk)

    return conversation


def reset(talk: Talk, asked: Asked) -> None:
    talk.reset(asked.stream, FLOW)


def farewell(talk: Talk, asked: Asked) -> None:
    talk.goaway(asked.stream, int(FLOW))
    talk.peer.finish()


for _name, _how in (("reset", reset), ("farewell", farewell)):
    for _head in (False, True):
        _full = f"http2_flow-{_name}{'_in_the_body' if _head else ''}"
        add(_full, two_posts, h2_handler(blaming(_how, head=_head)), echo_h2, client=PRIOR)


def refused(talk: Talk) -> None:
    """A farewell by error that takes nothing: the request was not acted upon."""
    if talk.request() is not None:
        talk.goaway(0, int(FLOW))
        talk.peer.finish()


@case(h2_handler(refused), echo_h2, client=PRIOR)
async def farewell_before_the_first(side: Side) -> None:
    await two_posts(side)
