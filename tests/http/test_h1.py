"""The HTTP/1.1 exchange: bytes in, events out, and where a request stands.

No network: a stream of bytes that a table has written down. How the bytes are cut into reads must
not matter, so every table is read whole, in halves and byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import h11
import pytest

from outlast.http.exchange import NEED_DATA, NeedData, PeerClosed, ProtocolError
from outlast.http.h1 import MAX_HEAD, H1Exchange

OK = b"HTTP/1.1 200 OK\r\n"
HOST = [(b"Host", b"orders")]


class Tape:
    """A stream: gives what is on it, piece by piece, and takes `room` bytes at a time."""

    def __init__(self, *pieces: bytes, room: int = 1 << 30) -> None:
        self.pieces = list(pieces)
        self.room = room
        self.taken = b""
        self.sends = 0
        self.held = False  # a layer below has kept something back

    @property
    def written(self) -> int:
        return len(self.taken)

    def recv(self, size: int) -> bytes | None:
        return self.pieces.pop(0) if self.pieces else None

    def send(self, data: bytes | memoryview) -> int:
        self.sends += 1
        taken = bytes(data[: self.room])
        self.room -= len(taken)
        self.taken += taken
        return len(taken)

    def flush(self) -> bool:
        return not self.held


def exchange(*pieces: bytes, method: str = "GET", headers: list[tuple[bytes, bytes]] = HOST) -> Any:
    """An exchange whose request is out, and its answer on tape."""
    made = H1Exchange(cast(Any, Tape(*pieces)))
    made.start(method, b"/", headers)
    made.end()
    assert made.push()
    return made


def read(made: H1Exchange) -> tuple[int, bytes]:
    """Status and body, to the end. Raises PeerClosed or a protocol error."""
    while isinstance(head := made.head(), NeedData):
        assert made.pull(), "waits for more than there is"
    body = b""
    while piece := made.body():
        if isinstance(piece, NeedData):
            assert made.pull(), "waits for more than there is"
        else:
            body += piece
    return head.status, body


def cuts(answer: bytes) -> Iterator[list[bytes]]:
    """The same bytes in different reads."""
    half = len(answer) // 2
    yield [answer]
    yield [answer[:half], answer[half:]]
    yield [answer[n : n + 1] for n in range(len(answer))]


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

# method, answer, ended by the peer, status, body, whether the connection may serve another
ANSWERS: list[tuple[str, bytes, bool, int, bytes, bool]] = [
    ("GET", OK + b"Content-Length: 3\r\n\r\none", False, 200, b"one", True),
    ("GET", OK + b"Content-Length: 0\r\n\r\n", False, 200, b"", True),
    ("GET", CHUNKED + b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", False, 200, b"onetwo", True),
    ("GET", CHUNKED + b"3;a=b\r\none\r\n0\r\nX-Sum: 1\r\n\r\n", False, 200, b"one", True),
    ("GET", CHUNKED + b"0\r\n\r\n", False, 200, b"", True),
    ("HEAD", OK + b"Content-Length: 3\r\n\r\n", False, 200, b"", True),
    ("HEAD", CHUNKED, False, 200, b"", True),
    ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", False, 204, b"", True),
    ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", False, 304, b"", True),
    ("GET", b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", False, 200, b"x", True),
    # interim responses
    (
        "GET",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\nx",
        False,
        200,
        b"x",
        True,
    ),
    (
        "GET",
        b"HTTP/1.1 102 A\r\n\r\nHTTP/1.1 103 B\r\nLink: x\r\n\r\nHTTP/1.1 204 C\r\n\r\n",
        False,
        204,
        b"",
        True,
    ),
    # the peer ends the connection, or says so
    ("GET", OK + b"\r\nto the end", True, 200, b"to the end", False),
    ("GET", OK + b"Content-Length: 3\r\n\r\none", True, 200, b"one", False),
    ("GET", OK + b"Connection: close\r\nContent-Length: 3\r\n\r\none", False, 200, b"one", False),
    ("GET", OK + b"Connection: Close\r\nContent-Length: 0\r\n\r\n", False, 200, b"", False),
    ("GET", b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\none", False, 200, b"one", False),
    ("GET", b"HTTP/1.0 200 OK\r\n\r\none", True, 200, b"one", False),
    (
        "GET",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
        False,
        200,
        b"",
        False,
    ),
    # more than one response
    ("GET", OK + b"Content-Length: 1\r\n\r\nx" + OK, False, 200, b"x", False),
    ("GET", OK + b"Content-Length: 1\r\n\r\nxy", False, 200, b"x", False),
    ("HEAD", OK + b"Content-Length: 3\r\n\r\none", False, 200, b"", False),
    ("GET", b"HTTP/1.1 204 No Content\r\n\r\nsurprise", False, 204, b"", False),
    ("GET", CHUNKED + b"0\r\n\r\n\r\n", False, 200, b"", False),
]


@pytest.mark.parametrize(("method", "answer", "ended", "status", "body", "again"), ANSWERS)
def test_answers(
    method: str, answer: bytes, ended: bool, status: int, body: bytes, again: bool
) -> None:
    for pieces in cuts(answer):
        made = exchange(*pieces, *([b""] if ended else []), method=method)
        assert read(made) == (status, body)
        while made.pull():  # what has arrived in the meantime
            pass
        assert made.leave() is again


def test_one_request_after_another() -> None:
    made = exchange(OK + b"Content-Length: 1\r\n\r\n1")
    tape = cast(Tape, made._stream)
    assert read(made) == (200, b"1")
    assert made.leave()
    mark = tape.written
    made.start("POST", b"/2", [*HOST, (b"Content-Length", b"3")])
    assert (made.mark, made.sent, made.begun) == (mark, False, False)
    made.data(b"two")
    made.end()
    assert made.push()
    assert made.sent
    assert tape.taken[mark:] == b"POST /2 HTTP/1.1\r\nHost: orders\r\nContent-Length: 3\r\n\r\ntwo"
    assert made.head() is NEED_DATA
    tape.pieces.append(OK + b"Content-Length: 1\r\n\r\n2")
    assert read(made) == (200, b"2")


def test_the_head_tells_all() -> None:
    made = exchange(
        b"HTTP/1.1 299 All Is Well\r\nX-One: 1\r\nx-one: 2\r\nContent-Length: 0\r\n\r\n"
    )
    assert made.pull()
    head = made.head()
    assert (head.status, head.reason, head.http_version) == (299, b"All Is Well", b"HTTP/1.1")
    assert list(head.headers)[:2] == [(b"X-One", b"1"), (b"x-one", b"2")]
    assert head.header(b"x-one") == "1"
    assert head.header(b"x-two") is None


def test_a_switch_of_protocols_is_an_answer() -> None:
    upgrade = [*HOST, (b"Upgrade", b"other"), (b"Connection", b"upgrade")]
    answer = b"HTTP/1.1 101 Switching\r\nUpgrade: other\r\n\r\nother bytes"
    made = exchange(answer, headers=upgrade)
    assert read(made) == (101, b"")
    assert not made.leave()


# -- what is no answer ---------------------------------------------------------------------

BROKEN = [
    b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    b"HTTP/2 200 OK\r\n\r\n",
    b"HTTP/1.1 twohundred OK\r\n\r\n",
    OK + b"no colon\r\n\r\n",
    OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
]


@pytest.mark.parametrize("answer", BROKEN)
def test_garbage_is_a_protocol_error(answer: bytes) -> None:
    for pieces in cuts(answer):
        made = exchange(*pieces)
        with pytest.raises(h11.RemoteProtocolError):
            read(made)
        assert made.begun
        assert not made.leave()


@pytest.mark.parametrize("ends", [True, False])
def test_an_endless_head_is_a_protocol_error(ends: bool) -> None:
    filler = OK + b"X-Filler: " + b"x" * MAX_HEAD
    made = exchange(*[filler[n : n + 4096] for n in range(0, len(filler), 4096)])
    if ends:
        cast(Tape, made._stream).pieces.append(b"\r\n\r\n")
    with pytest.raises(h11.RemoteProtocolError):
        read(made)


# an answer that breaks off, and what it is then
CUT = [
    (b"", PeerClosed),
    (b"HTT", ProtocolError),
    (OK, ProtocolError),
    (OK + b"Content-Length: 3\r\n\r\non", ProtocolError),
    (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\non", ProtocolError),
    (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n", ProtocolError),
    (b"HTTP/1.1 100 Continue\r\n\r\n", ProtocolError),
]


@pytest.mark.parametrize(("answer", "kind"), CUT)
def test_an_answer_that_breaks_off(
    answer: bytes, kind: type[Exception] | tuple[type[Exception], ...]
) -> None:
    made = exchange(*([answer] if answer else []), b"")
    with pytest.raises(kind):
        read(made)
    assert (made.begun, made.ended) == (bool(answer), True)
    assert not made.leave()


# -- the request ---------------------------------------------------------------------------


def test_a_small_request_leaves_in_one_piece() -> None:
    tape = Tape()
    made = H1Exchange(cast(Any, tape))
    made.start("POST", b"/", [*HOST, (b"Content-Length", b"3")])
    made.data(b"one")
    made.end()
    assert made.push()
    assert tape.sends == 1


def test_connections_that_carry_the_same_share_it() -> None:
    made = [exchange() for _ in range(3)]
    assert len({id(each._before.fields) for each in made}) == 1


def test_a_body_is_framed_in_chunks() -> None:
    tape = Tape()
    made = H1Exchange(cast(Any, tape))
    made.start("POST", b"/", [*HOST, (b"Transfer-Encoding", b"chunked")])
    made.data(b"one")
    assert made.push()
    made.data(b"two")
    made.end()
    assert made.push()
    assert tape.taken.partition(b"\r\n\r\n")[2] == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


@pytest.mark.parametrize("room", [0, 1, 30, 60, 100_000])
def test_a_request_goes_out_as_the_peer_takes_it(room: int) -> None:
    tape = Tape(room=room)
    made = H1Exchange(cast(Any, tape))
    payload = bytes(range(256)) * 1024
    made.start("PUT", b"/", [*HOST, (b"Content-Length", str(len(payload)).encode())])
    made.data(payload)
    made.end()
    assert not made.push()
    assert made.sent is (room > 0)
    assert tape.written == room
    while not made.push():
        tape.room += 50_000
    assert tape.taken.endswith(payload)
    assert tape.taken.count(b"PUT") == 1


@pytest.mark.parametrize("streamed", [False, True])
def test_a_request_that_is_half_out_ends_its_connection(streamed: bool) -> None:
    """Answered in full before it was sent in full: what is left would begin the next request."""
    tape = Tape(room=80)
    made = H1Exchange(cast(Any, tape))
    made.start("PUT", b"/", [*HOST, (b"Content-Length", b"100")])
    if streamed:
        assert made.push()
    made.data(b"x" * 100)
    made.end()
    assert not made.push()
    tape.pieces.append(OK + b"Content-Length: 2\r\n\r\nok")
    assert read(made) == (200, b"ok")
    assert not made.leave()


def test_what_a_layer_below_keeps_back_is_not_out() -> None:
    tape = Tape()
    tape.held = True
    made = H1Exchange(cast(Any, tape))
    made.start("GET", b"/", HOST)
    made.end()
    assert not made.push()
    tape.pieces.append(OK + b"Content-Length: 2\r\n\r\nok")
    assert read(made) == (200, b"ok")
    assert not made.leave()


WRONG: list[tuple[str, bytes, list[tuple[bytes, bytes]]]] = [
    ("G T", b"/", HOST),
    ("GET", b"/a b", HOST),
    ("GET", b"/", [*HOST, (b"bad name", b"x")]),
    ("GET", b"/", [*HOST, (b"name", b"bad\r\nvalue: x")]),
    ("GET", b"/", []),
]


@pytest.mark.parametrize(("method", "target", "headers"), WRONG)
def test_a_wrong_request_is_not_sent(
    method: str, target: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    tape = Tape()
    made = H1Exchange(cast(Any, tape))
    with pytest.raises(h11.LocalProtocolError):
        made.start(method, target, headers)
    assert tape.taken == b""
    assert not made.leave()


@pytest.mark.parametrize("body", [b"more than three", b"on"])
def test_a_body_of_another_length_is_the_callers_fault(body: bytes) -> None:
    made = H1Exchange(cast(Any, Tape()))
    made.start("POST", b"/", [*HOST, (b"Content-Length", b"3")])

    def send() -> None:
        made.data(body)
        made.end()

    with pytest.raises(h11.LocalProtocolError):
        send()
    assert not made.leave()


def framed(
    made: H1Exchange, method: str, target: bytes, headers: list[tuple[bytes, bytes]]
) -> bytes:
    """What goes out for a request without a body, on a connection that is then free again."""
    tape = cast(Tape, made._stream)
    before = tape.written
    made.start(method, target, headers)
    made.end()
    assert made.push()
    tape.pieces.append(OK + b"Content-Length: 0\r\n\r\n")
    assert read(made) == (200, b"")
    assert made.leave()
    return tape.taken[before:]


def test_a_request_like_one_before_is_framed_as_if_it_were_the_first() -> None:
    one, other = (H1Exchange(cast(Any, Tape())) for _ in range(2))
    first, second = [(b"Host", b"a"), (b"X", b"1")], [(b"Host", b"a"), (b"X", b"2")]
    for made, method, target, headers in (
        (one, "GET", b"/", first),
        (one, "GET", b"/", first),
        (other, "GET", b"/", first),
        (other, "PUT", b"/", first),
        (one, "GET", b"/else", first),
        (one, "GET", b"/else", second),
        (other, "PUT", b"/", first),
    ):
        lines = [b"%s %s HTTP/1.1" % (method.encode(), target)]
        lines += [b"%s: %s" % pair for pair in headers]
        given = list(headers)
        assert framed(made, method, target, given) == b"\r\n".join([*lines, b"", b""])
        given.append((b"X-Late", b"3"))  # the caller's own list, which is not kept


def test_a_request_without_any_header_field_is_refused_whatever_went_before() -> None:
    made = H1Exchange(cast(Any, Tape()))
    for _ in range(2):
        with pytest.raises(h11.LocalProtocolError, match="Host"):
            made.start("GET", b"/", [])
    framed(made := H1Exchange(cast(Any, Tape())), "GET", b"/", HOST)
    with pytest.raises(h11.LocalProtocolError, match="Host"):
        made.start("GET", b"/", [])
