"""Requests of one kind after each other: what leaves is h11's, though it hears of it later."""

from __future__ import annotations

import itertools
from typing import Any, cast

import h11
import pytest

from outlast.http.h1 import H1Exchange
from tests.http.test_h1 import HOST, OK, Tape, exchange, read

ALIKE = [
    [*HOST, (b"Accept", b"*/*")],
    [*HOST, (b"accept", b"*/*"), (b"Connection", b"keep-alive")],
    [(b"X-First", b""), *HOST],
    [*HOST, (b"Content-Length", b"3")],
]
ASKED = [("GET", b"/"), ("GET", b"/two?q=%20"), ("HEAD", b"/"), ("OPTIONS", b"*"), ("PUT", b"/")]


def test_what_is_sent_is_what_h11_writes() -> None:
    """However requests follow each other: h11 has written each of them from scratch here."""
    tape = Tape()
    made = H1Exchange(cast(Any, tape))
    for fields, (method, target) in itertools.product(ALIKE, ASKED + ASKED[::-1]):
        body = b"one" if len(fields) > 1 and fields[1][0] == b"Content-Length" else b""
        alone = h11.Connection(h11.CLIENT)
        request = h11.Request(method=method.encode(), target=target, headers=fields)
        events = [request, *([h11.Data(data=body)] if body else []), h11.EndOfMessage()]
        written = b"".join(alone.send(each) or b"" for each in events)
        made.start(method, target, list(fields))
        if body:
            made.data(body)
        made.end()
        mark = tape.written
        assert made.push()
        assert tape.taken[mark:] == written
        tape.pieces.append(OK + b"Content-Length: 2\r\n\r\n")
        tape.pieces.append(b"ok")
        assert read(made) == (200, b"" if method == "HEAD" else b"ok")
        tape.pieces.clear()
        assert made.leave()


@pytest.mark.parametrize("method", ["GET", "POST", "CONNECT"])
@pytest.mark.parametrize(
    "more",
    [
        [],
        [(b"Connection", b"keep-alive")],
        [(b"Connection", b"Close")],
        [(b"Connection", b"keep-alive, Upgrade"), (b"Upgrade", b"websocket")],
        [(b"Expect", b"100-continue"), (b"Content-Length", b"3")],
        [(b"Transfer-Encoding", b"chunked")],
        [(b"Cookie", b"a=b"), (b"X-Close", b"close")],
    ],
)
def test_h11_knows_as_much_of_a_request_that_it_hears_of_in_brief(
    method: str, more: list[tuple[bytes, bytes]]
) -> None:
    fields = [*HOST, (b"Accept", b"*/*"), *more]
    for _ in range(3):  # whole, in brief for the first time, and again
        made = H1Exchange(cast(Any, Tape()))
        alone = h11.Connection(h11.CLIENT)
        alone.send(h11.Request(method=method.encode(), target=b"/", headers=fields))
        made.start(method, b"/", list(fields))
        if made._before.bare:
            made.end()
            alone.send(h11.EndOfMessage())
        made.push()
        for each in (made._h11, alone):
            each.receive_data(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n")
        assert made._h11.states == alone.states
        waiting = alone.client_is_waiting_for_100_continue
        assert made._h11.client_is_waiting_for_100_continue is waiting
        ends = [_next(each) for each in (made._h11, alone)]
        assert ends[0] == ends[1]
        assert made._h11.states == alone.states
    assert H1Exchange._latest.brief


def test_two_connections_with_fields_of_their_own_are_not_judged_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However their requests alternate, though there is one `_latest` for both."""
    judged: list[object] = []
    start_new = H1Exchange._start_new

    def counted(self: H1Exchange, *given: Any) -> None:
        judged.append(given)
        start_new(self, *given)

    monkeypatch.setattr(H1Exchange, "_start_new", counted)
    pairs = [(H1Exchange(cast(Any, Tape())), [*HOST, (b"X-Of", name)]) for name in (b"one", b"two")]
    for _ in range(5):
        for made, fields in pairs:
            cast(Tape, made._stream).pieces.append(OK + b"Content-Length: 0\r\n\r\n")
            made.start("GET", b"/", list(fields))
            made.end()
            assert made.push()
            assert read(made) == (200, b"")
            assert made.leave()
    assert len(judged) == 2


def _next(connection: h11.Connection) -> str:
    try:
        return type(connection.next_event()).__name__
    except h11.RemoteProtocolError as error:
        return str(error)


def test_what_h11_has_seen_before_leaves_before_it_hears_of_it() -> None:
    made = exchange(OK + b"Content-Length: 0\r\n\r\n")
    assert read(made) == (200, b"")
    assert made.leave()
    tape, states = cast(Tape, made._stream), []
    send = tape.send

    def listen(data: bytes | memoryview) -> int:
        states.append((made._h11.our_state, made._h11.their_state))
        return send(data)

    tape.send = listen  # type: ignore[method-assign]  # to look at h11 in the middle
    made.start("GET", b"/other", list(HOST))
    made.end()
    assert made.push()
    assert states == [(h11.DONE, h11.DONE)]  # of the request before
    assert made._h11.our_state is h11.DONE
    assert made._h11.their_state is h11.SEND_RESPONSE


@pytest.mark.parametrize("room", [0, 3])
def test_h11_hears_of_a_request_that_is_stuck(room: int) -> None:
    """An answer that comes before it is out is an answer."""
    made = exchange(OK + b"Content-Length: 0\r\n\r\n")
    assert read(made) == (200, b"")
    assert made.leave()
    tape = cast(Tape, made._stream)
    tape.room = room
    made.start("GET", b"/", list(HOST))
    made.end()
    assert not made.push()
    tape.pieces.append(OK + b"Content-Length: 2\r\n\r\nok")
    assert read(made) == (200, b"ok")
    assert not made.leave()
