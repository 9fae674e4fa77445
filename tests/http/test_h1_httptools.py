"""httptools in the place of h11: the same of the same bytes, however they come; or it is told.

`SAME` is judged by h11; `OTHERWISE` has what docs/drop-in.md lists.
"""

from __future__ import annotations

import contextlib
import gc
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

import h11
import httpx
import pytest

import outlast
from outlast.http.exchange import NeedData, PeerClosed
from outlast.http.h1 import CHUNK, MAX_HEAD, H1Exchange
from outlast.http.h1_httptools import HttptoolsExchange
from tests.http.servers import BOUND, Server, serve
from tests.http.test_h1 import HOST, Tape

H = b"HTTP/1.1 200 OK\r\n"
C = b"transfer-encoding: chunked\r\n"
# A bar at the end: the server ends the connection there.
SAME: dict[str, bytes] = {
    "plain": H + b"content-length: 5\r\n\r\nhello",
    "empty": H + b"content-length: 0\r\n\r\n",
    "chunked": H + C + b"\r\n5\r\nhello\r\n3\r\nabc\r\n0\r\n\r\n",
    "trailers": H + C + b"\r\n5\r\nhello\r\n0\r\nX-A: b\r\n\r\n",
    "chunk_ext": H + C + b"\r\n5;a=b\r\nhello\r\n0;x\r\n\r\n",
    "eof": H + b"\r\nhello|",
    "eof_none": H + b"\r\n|",
    "eof_close": H + b"connection: close\r\n\r\nhello|",
    "cl_close": H + b"Connection: close\r\ncontent-length: 5\r\n\r\nhello",
    "1_0": b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    "1_0_ka": b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello",
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "304": b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n",
    "204_cl": b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n",
    "204_te": b"HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n",
    "100": b"HTTP/1.1 100 Continue\r\n\r\n" + H + b"content-length: 5\r\n\r\nhello",
    "103s": b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n" * 3
    + H
    + b"content-length: 5\r\n\r\nhello",
    "101": b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nraw",
    "101_bare": b"HTTP/1.1 101 Switching\r\n\r\nraw",
    "no_reason": b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n",
    "empty_reason": b"HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n",
    "reason_utf8": b"HTTP/1.1 200 \xc3\xa4h\r\ncontent-length: 0\r\n\r\n",
    "cut_cl": H + b"content-length: 10\r\n\r\nhello|",
    "cut_chunk": H + C + b"\r\n5\r\nhel|",
    "cut_head": H + b"content-le|",
    "cut_at_once": b"|",
    "cut_interim": b"HTTP/1.1 100 Continue\r\n\r\n|",
    "two": (H + b"content-length: 5\r\n\r\nhello") * 2,
    "extra_X": H + b"content-length: 5\r\n\r\nhelloX",
    "extra_HTT": H + b"content-length: 5\r\n\r\nhelloHTT",
    "extra_after_close": H + b"connection: close\r\ncontent-length: 5\r\n\r\nhelloX",
    "204_extra": b"HTTP/1.1 204 No\r\n\r\nX",
    "garbage": b"garbage\r\n\r\n",
    "binary": bytes(range(256)),
    "fold_first": H + b" x: a\r\ncontent-length: 0\r\n\r\n",
    "two_cl_differ": H + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    "te_gzip_chunked": H + b"transfer-encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "te_gzip": H + b"transfer-encoding: gzip\r\n\r\nhello|",
    "te_identity": H + b"transfer-encoding: identity\r\n\r\nhello|",
    "te_Chunked": H + b"Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
    "two_te": H + C + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "te_1_0": b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n|",
    "cl_neg": H + b"content-length: -5\r\n\r\n",
    "cl_plus": H + b"content-length: +5\r\n\r\nhello",
    "cl_word": H + b"content-length: five\r\n\r\n",
    "cl_huge": H + b"content-length: 99999999999999999999999\r\n\r\n",
    "cl_20_digits": H + b"content-length: 00000000000000000005\r\n\r\nhello",
    "cl_empty": H + b"content-length: \r\n\r\n",
    "nul_value": H + b"x: a\0b\r\ncontent-length: 0\r\n\r\n",
    "latin_value": H + b"x: \xe4\r\ncontent-length: 0\r\n\r\n",
    "cr_value": H + b"x: a\rb\r\ncontent-length: 0\r\n\r\n",
    "space_name": H + b"x y: a\r\ncontent-length: 0\r\n\r\n",
    "space_colon": H + b"x : a\r\ncontent-length: 0\r\n\r\n",
    "empty_name": H + b": a\r\ncontent-length: 0\r\n\r\n",
    "empty_value": H + b"x:\r\ncontent-length: 0\r\n\r\n",
    "spaces_value": H + b"x:  \t a b \t \r\ncontent-length: 0\r\n\r\n",
    "no_colon": H + b"nothing\r\ncontent-length: 0\r\n\r\n",
    "case": H + b"X-CaSe: A\r\nContent-LENGTH: 0\r\n\r\n",
    "0_9": b"HTTP/0.9 200 OK\r\ncontent-length: 0\r\n\r\n",
    "lower_http": b"http/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    "icy": b"ICY 200 OK\r\ncontent-length: 0\r\n\r\n",
    "status_2": b"HTTP/1.1 20 OK\r\n\r\n",
    "status_4": b"HTTP/1.1 2000 OK\r\n\r\n",
    "status_word": b"HTTP/1.1 abc OK\r\n\r\n",
    "status_000": b"HTTP/1.1 000 OK\r\ncontent-length: 0\r\n\r\n",
    "status_099": b"HTTP/1.1 099 OK\r\ncontent-length: 0\r\n\r\n",
    "status_600": b"HTTP/1.1 600 OK\r\ncontent-length: 0\r\n\r\n",
    "status_999": b"HTTP/1.1 999 OK\r\ncontent-length: 0\r\n\r\n",
    "two_spaces": b"HTTP/1.1  200 OK\r\ncontent-length: 0\r\n\r\n",
    "request": b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
    "bad_chunk": H + C + b"\r\nzz\r\nhello\r\n0\r\n\r\n",
    "chunk_long": H + C + b"\r\n5\r\nhelloX\r\n0\r\n\r\n",
    "chunk_neg": H + C + b"\r\n-5\r\nhello\r\n0\r\n\r\n",
    "chunk_0x": H + C + b"\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "chunk_huge": H + C + b"\r\nffffffffffffffffffffffff\r\nhello",
    "bad_trailer": H + C + b"\r\n0\r\nx y z\r\n\r\n",
    "head_too_long": H + b"x: " + b"a" * 150_000,
    "many_heads": H + b"x: a\r\n" * 30_000,
    "long_ok": H + b"x: " + b"a" * 60_000 + b"\r\ncontent-length: 0\r\n\r\n",
    "trailer_drip": H + C + b"\r\n0\r\n" + b"x: a\r\n" * 30_000,
    "ext_drip": H + C + b"\r\n5;" + b"a" * 150_000,
    "keep_alive_list": H + b"connection: foo, close\r\ncontent-length: 0\r\n\r\n",
    "conn_ka_close": H + b"connection: keep-alive, close\r\ncontent-length: 0\r\n\r\n",
    "upgrade_offered": H + b"upgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 5\r\n\r\nhello",
    "426": b"HTTP/1.1 426 Up\r\nupgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 2\r\n\r\nno",
}
SAME["103_reason"] = b"HTTP/1.1 103 a\0b\r\n\r\n" + SAME["plain"]
OTHERWISE: dict[str, bytes] = {
    "extra_crlf": H + b"content-length: 5\r\n\r\nhello\r\n",
    "lf_only": b"HTTP/1.1 200 OK\ncontent-length: 5\n\nhello",
    "lf_head_end": b"HTTP/1.1 200 OK\r\ncontent-length: 5\n\nhello",
    "leading_crlf": b"\r\n" + H + b"content-length: 0\r\n\r\n",
    "obs_fold": H + b"x: a\r\n b\r\ncontent-length: 0\r\n\r\n",
    "two_cl_same": H + b"content-length: 5\r\ncontent-length: 5\r\n\r\nhello",
    "two_cl_list": H + b"content-length: 5, 5\r\n\r\nhello",
    "cl_and_te": H
    + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "te_and_cl": H
    + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "ctl_value": H + b"x: a\x01b\r\ncontent-length: 0\r\n\r\n",
    "bad_version": b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    "1_2": b"HTTP/1.2 200 OK\r\ncontent-length: 0\r\n\r\n",
    "chunk_lf": H + C + b"\r\n5\nhello\n0\n\n",
    "chunk_space": H + C + b"\r\n5 \r\nhello\r\n0\r\n\r\n",
    "chunk_zeros": H
    + b"transfer-encoding: chunked\r\n\r\n0000000000000000000005\r\nhello\r\n0\r\n\r\n",
    "proxy_conn": H + b"proxy-connection: close\r\ncontent-length: 0\r\n\r\n",
}
KINDS = (HttptoolsExchange, H1Exchange)
REFUSED = ["RemoteProtocolError", False]
ASKS: tuple[tuple[str, list[tuple[bytes, bytes]], bytes], ...] = (
    ("GET", HOST, b""),
    ("POST", [*HOST, (b"Content-Length", b"4")], b"body"),
    ("PUT", [*HOST, (b"Transfer-Encoding", b"chunked")], b"body"),
    ("HEAD", HOST, b""),
    ("GET", [*HOST, (b"Connection", b"close")], b""),
)


def ask(made: H1Exchange, method: str, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    made.start(method, b"/", headers)
    if body:
        made.data(body)
    made.end()
    assert made.push()


def outcome(made: H1Exchange) -> list[Any]:
    """Head, body, how it ended, and whether the connection serves again."""
    got: list[Any] = []
    body = b""
    try:
        while isinstance(head := made.head(), NeedData):
            if not made.pull():
                return [*got, "waits"]
        got.append((head.status, list(head.headers), head.http_version, head.reason))
        while piece := made.body():
            if not isinstance(piece, NeedData):
                body += piece
            elif not made.pull():
                return [*got, body, "waits"]
        got.append(body)
    except (h11.RemoteProtocolError, PeerClosed) as error:
        got += [body, type(error).__name__] if got else [type(error).__name__]
    return [*got, made.leave()]


def told(kind: type[H1Exchange], pieces: list[bytes], asked: Any = ASKS[0]) -> list[Any]:
    """On a connection that has served the same request before, and after it once more."""
    tape = Tape(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    made = kind(cast(Any, tape))
    ask(made, *asked)
    first = outcome(made)
    if not first[-1]:
        return [first]
    tape.pieces = list(pieces)
    ask(made, *asked)
    found = outcome(made)
    if found[-1] is not True:
        return [first, found]
    tape.pieces = [H + b"content-length: 1\r\n\r\n!"]
    ask(made, *asked)
    return [first, found, outcome(made)]


def splits(raw: bytes) -> Iterator[list[bytes]]:
    """The same bytes in different reads: at each byte, and each byte alone; of long ones fewer."""
    end = [b""] if raw.endswith(b"|") else []
    raw = raw.removesuffix(b"|")
    if len(raw) < 400:
        for at in range(len(raw)):
            yield [*([raw[:at]] if at else []), raw[at:], *end]
        yield [*(bytes([each]) for each in raw), *end]
    else:
        yield [raw[at : at + 1000] for at in range(0, len(raw), 1000)]


@pytest.mark.parametrize("name", SAME)
def test_it_is_the_same_as_with_h11(name: str) -> None:
    for pieces in splits(SAME[name]):
        assert told(HttptoolsExchange, pieces) == told(H1Exchange, pieces), pieces


@pytest.mark.parametrize("asked", ASKS, ids=lambda each: f"{each[0]}-{len(each[1])}")
@pytest.mark.parametrize("name", ["plain", "chunked", "204", "304", "100", "cut_cl", "two", "eof"])
def test_so_it_is_whatever_was_asked(name: str, asked: Any) -> None:
    for pieces in splits(SAME[name]):
        found, expected = (told(kind, pieces, asked) for kind in (HttptoolsExchange, H1Exchange))
        assert found == expected, pieces


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_differs_is_refused_or_harmless(name: str) -> None:
    """A connection that is kept gives the next request its own answer."""
    for pieces in splits(OTHERWISE[name]):
        _, found, *after = told(HttptoolsExchange, pieces)
        assert len(pieces) > 1 or found != told(H1Exchange, pieces)[1]
        assert found == REFUSED or found[0][0] == 200
        assert not after or after[0][1:] == [b"!", True]


BITS = (
    *(b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b",", b";", b'"', b"0", b"1", b"f", b"\x80"),
    *(b"chunked", b"close", b"keep-alive", b"HTTP/1.1 ", b"HTTP/1.0", b"upgrade: x\r\n"),
    *(b"content-length: 3\r\n", b"connection: close\r\n", C),
)
SHORT = [raw for raw in (*SAME.values(), *OTHERWISE.values()) if len(raw) < 500]


def changed(raw: bytes, rng: random.Random) -> bytes:
    """A response with up to three mistakes."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(raw))
        other = rng.choice(SHORT)
        piece = rng.randint(0, len(other))
        into = rng.choice([*BITS, bytes([rng.randrange(256)]), other[piece:][: rng.randint(1, 30)]])
        raw = raw[:at] + rng.choice([b"", into, into]) + raw[at + rng.choice([0, 0, 1, 3]) :]
    return raw


@pytest.mark.parametrize("seed", range(5))
def test_no_response_is_taken_for_another_one(seed: int) -> None:
    """Whatever it is, it is read as h11 reads it, or refused."""
    rng = random.Random(seed)
    for _ in range(600):
        raw = changed(rng.choice(SHORT), rng)
        end, raw = [b""] if raw.endswith(b"|") else [], raw.replace(b"|", b"")
        cut = rng.randint(0, len(raw))
        pieces = [*filter(None, (raw[:cut], raw[cut:])), *end]
        ours, theirs = (told(kind, pieces, ASKS[0])[1] for kind in KINDS)
        if isinstance(ours[0], str) or isinstance(theirs[0], str):
            continue  # no head, for one of them
        assert ours[0] == theirs[0], (seed, pieces)
        fewer, more = sorted((ours[1], theirs[1]), key=len)
        assert more.startswith(fewer), (seed, pieces)
        if len(theirs) == 3 and theirs[2] != "waits":  # h11 has all of it
            assert ours[1:2] == theirs[1:2] or "RemoteProtocolError" in ours, (seed, pieces)


@pytest.mark.parametrize("begins", [H + b"x: ", H + C + b"\r\n0\r\n", H + C + b"\r\n5;"])
def test_what_drips_for_ever_ends(begins: bytes) -> None:
    """A head, a trailer, a chunk's extensions."""
    tape = Tape(begins)
    made = HttptoolsExchange(cast(Any, tape))
    ask(made, *ASKS[0])
    made.pull()
    drops = 0
    with pytest.raises(h11.RemoteProtocolError, match="no end"):  # noqa: PT012  whichever it is
        while isinstance(made.head(), NeedData) or isinstance(made.body(), NeedData):
            tape.pieces, drops = (
                [b"x: a\r\n" * 100 if b"0\r\n" in begins else b"a" * 600],
                drops + 1,
            )
            made.pull()
    assert drops * 600 <= MAX_HEAD + CHUNK
    assert not made.leave()


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_the_parser_is_no_error_of_the_peers(
    interrupt: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may come while httptools tells of a field; it wraps what is raised there."""

    def struck(*_: object) -> None:
        raise interrupt

    monkeypatch.setattr("outlast.http.h1_httptools._Response.on_header", struck)
    made = HttptoolsExchange(cast(Any, Tape(SAME["plain"])))
    ask(made, *ASKS[0])
    with pytest.raises(interrupt):
        made.pull()


ENDINGS = [[SAME["plain"][:30]], [SAME["plain"][:-2]], [SAME["cut_cl"][:-1], b""], [b"\0\r\n\r\n"]]


@pytest.mark.parametrize("pieces", ENDINGS)
def test_what_breaks_leaves_no_garbage(pieces: list[bytes]) -> None:
    gc.collect()
    gc.disable()
    try:
        made = HttptoolsExchange(cast(Any, Tape(*pieces)))
        ask(made, *ASKS[0])
        while made.pull():
            with contextlib.suppress(h11.RemoteProtocolError):
                made.head()
                made.body()
        del made  # as when its connection is aborted: nobody calls `leave`
        assert not [each for each in gc.get_objects() if type(each).__name__ == "_Response"]
    finally:
        gc.enable()


def test_a_coding_with_a_tab_behind_it_is_refused() -> None:
    """llhttp does not know it for chunked: its chunks would be the body."""
    raw = H + b"transfer-encoding: chunked\t\r\n\r\n3\r\none\r\n0\r\n\r\n"
    for pieces in splits(raw):
        assert told(HttptoolsExchange, pieces)[1] == REFUSED


def test_what_is_left_unread_ends_the_connection() -> None:
    made = HttptoolsExchange(cast(Any, Tape(SAME["plain"])))
    ask(made, *ASKS[0])
    made.pull()
    made.head()
    assert not made.leave()


def test_an_answer_before_the_request_is_all_sent_ends_the_connection() -> None:
    made = HttptoolsExchange(cast(Any, Tape(SAME["plain"])))
    made.start("POST", b"/", [*HOST, (b"Content-Length", b"4")])
    assert made.push()
    assert outcome(made)[-1] is False


def test_the_whole_way_and_no_garbage() -> None:
    with Server(serve) as server, outlast.client(http1_parser="httptools", timeout=BOUND) as client:
        for _ in range(3):
            assert client.post(server.url, content=b"five!").content == b"five!"
            assert client.get(server.url).status_code == 200
            assert client.head(server.url).status_code == 200
        gc.collect()
        for _ in range(3):
            assert client.get(server.url).is_success
        assert not [each for each in gc.get_objects() if type(each).__name__ == "_Response"]
    assert server.connections == 1


@pytest.mark.parametrize("make", [outlast.Transport, outlast.AsyncTransport, outlast.client])
def test_a_parser_that_is_none(make: Any) -> None:
    with pytest.raises(ValueError, match=r"http1_parser: 'llhttp' is no parser; write 'h11' or"):
        make(http1_parser="llhttp")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httptools", None)
    with pytest.raises(ImportError, match=r"pip install 'outlast\[httptools\]'"):
        outlast.Transport(http1_parser="httptools")


def test_it_is_imported_only_on_use() -> None:
    code = "import sys, outlast; outlast.Transport().close(); print('httptools' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"False\n"


def test_an_upgrade_is_h11s() -> None:
    """It hands the connection over with what has come behind the head."""
    made = HttptoolsExchange(cast(Any, Tape(b"HTTP/1.1 101 Yes\r\nupgrade: x\r\n\r\nraw")))
    ask(made, "GET", [*HOST, (b"Connection", b"upgrade"), (b"Upgrade", b"x")], b"")
    made.pull()
    head = made.head()
    assert not isinstance(head, NeedData)
    assert (head.status, made.hand_over()) == (101, b"raw")


def test_its_errors_are_the_familys() -> None:
    def broken(peer: Any) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r garbage")
        peer.until_closed()

    with (
        Server(broken) as server,
        outlast.client(http1_parser="httptools", timeout=BOUND) as client,
    ):
        with pytest.raises(httpx.RemoteProtocolError):
            client.post(server.url)
