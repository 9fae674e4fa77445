"""CONNECT and SOCKS5 without I/O: what is said, byte by byte, and how much is taken."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import TransportFailure
from outlast.http.proxy import ProxyFault, Talk, beyond, connect, failure_of, hold, merged
from outlast.http.socks import socks5
from outlast.net.dial import DialError
from outlast.net.seam import READ, Wait
from tests.net.tls_pair import MemoryStream, driven

PROXY = "proxy http://p:1"
STANDS = b"HTTP/1.1 200 OK\r\n\r\n"
BOUND_TO = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x1f\x90"


def held(talk: Talk, answers: bytes, piece: int = 1 << 20) -> tuple[bytes, bytes]:
    """What the talk says, and what of `answers` it leaves; given `piece` bytes at most."""
    said, most = next(talk)
    while True:
        came, answers = answers[: min(most, piece)], answers[min(most, piece) :]
        try:
            out, most = talk.send(came)
        except StopIteration:
            return said, answers
        said += out


# -- CONNECT -------------------------------------------------------------------------------


def test_what_connect_says() -> None:
    said, left = held(connect("db", 443, [(b"X-A", b"1"), (b"accept", b"a/b")], PROXY), STANDS)
    assert said == (b"CONNECT db:443 HTTP/1.1\r\nHost: db:443\r\nX-A: 1\r\naccept: a/b\r\n\r\n")
    assert left == b""
    said, _ = held(connect("::1", 443, [], PROXY), STANDS)
    assert said.startswith(b"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nAccept: */*\r\n")


@pytest.mark.parametrize("piece", [1, 2, 7, 1000])
def test_connect_in_crumbs(piece: int) -> None:
    held(connect("db", 443, [], PROXY), b"HTTP/1.1 100 Continue\r\n\r\n" + STANDS, piece)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 Connection established\r\n\r\n",
        b"HTTP/1.1 201 \r\n\r\n",
        b"HTTP/1.1 299 X\r\nContent-Length: 100\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_any_2xx_will_do(answer: bytes) -> None:
    """What such an answer says of a body means nothing (RFC 9110 section 9.3.6)."""
    held(connect("db", 443, [], PROXY), answer)


@pytest.mark.parametrize("status", [300, 400, 401, 403, 404, 405, 407, 499])
def test_what_the_proxy_would_not_is_final(status: int) -> None:
    with pytest.raises(TransportFailure, match=f"{status} X") as caught:
        held(connect("db", 443, [], PROXY), b"HTTP/1.1 %d X\r\n\r\n" % status)
    assert (caught.value.kind, caught.value.final) == ("ProxyError", True)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 599])
def test_what_the_proxy_could_not_says_nothing_against_it(status: int) -> None:
    with pytest.raises(ProxyFault, match=f"{status} X") as caught:
        held(connect("db", 443, [], PROXY), b"HTTP/1.1 %d X\r\n\r\n" % status)
    assert (caught.value.kind, caught.value.errno, caught.value.blame) == (
        "ProxyError",
        None,
        False,
    )


def test_an_end_instead_of_an_answer() -> None:
    for answer in (b"", b"HTTP/1.1 200", b"HTTP/1.1 100 X\r\n\r\n"):
        with pytest.raises(ProxyFault, match="disconnected") as caught:
            held(connect("db", 443, [], PROXY), answer)
        assert caught.value.errno == errno.ECONNRESET
        assert caught.value.blame


@given(st.binary(max_size=200), st.integers(1, 50))
def test_any_bytes_end_a_connect_in_one_of_the_known_ways(answer: bytes, piece: int) -> None:
    with pytest.raises((ProxyFault, TransportFailure)):
        held(connect("db", 443, [], PROXY), answer, piece)


# -- SOCKS5 --------------------------------------------------------------------------------


def test_what_socks_says() -> None:
    said, _ = held(socks5("db", 443, None, PROXY), b"\x05\x00" + BOUND_TO)
    assert said == b"\x05\x01\x00" + b"\x05\x01\x00\x03\x02db\x01\xbb"
    said, _ = held(socks5("10.0.0.1", 80, None, PROXY), b"\x05\x00" + BOUND_TO)
    assert said == b"\x05\x01\x00" + b"\x05\x01\x00\x01\x0a\x00\x00\x01\x00\x50"
    said, _ = held(socks5("::1", 80, None, PROXY), b"\x05\x00" + BOUND_TO)
    assert said == b"\x05\x01\x00" + b"\x05\x01\x00\x04" + bytes(15) + b"\x01\x00\x50"


def test_what_socks_says_of_the_user() -> None:
    answers = b"\x05\x02" + b"\x01\x00" + BOUND_TO
    said, _ = held(socks5("db", 443, (b"me", b""), PROXY), answers)
    assert said == b"\x05\x01\x02" + b"\x01\x02me\x00" + b"\x05\x01\x00\x03\x02db\x01\xbb"


@pytest.mark.parametrize("piece", [1, 3, 1000])
@pytest.mark.parametrize(
    "bound", [b"\x01" + bytes(6), b"\x04" + bytes(18), b"\x03\x02ab\x00\x00", b"\x03\x00\x00\x00"]
)
def test_what_comes_behind_the_answers_is_left(bound: bytes, piece: int) -> None:
    """A server behind the proxy may speak first (HTTP/2 does)."""
    answers = b"\x05\x00" + b"\x05\x00\x00" + bound + b"server first"
    _, left = held(socks5("db", 443, None, PROXY), answers, piece)
    assert left == b"server first"


@pytest.mark.parametrize("reply", range(1, 256))
def test_every_reply_is_told(reply: int) -> None:
    answers = b"\x05\x00" + bytes((5, reply))
    kinds = TransportFailure if reply in (2, 7, 8) else ProxyFault
    with pytest.raises(kinds, match="Proxy Server could not connect") as caught:
        held(socks5("db", 443, None, PROXY), answers)
    assert vars(caught.value)["kind"] == "ProxyError"


@given(st.binary(max_size=30), st.integers(1, 9))
def test_any_bytes_end_a_socks_talk_in_one_of_the_known_ways(answer: bytes, piece: int) -> None:
    for auth, begun in ((None, b"\x05\x00"), ((b"u", b"p"), b"\x05\x02"), (None, b"")):
        try:
            _, left = held(socks5("db", 443, auth, PROXY), begun + answer, piece)
        except (ProxyFault, TransportFailure) as error:
            assert vars(error)["kind"] == "ProxyError"  # noqa: PT017  or no error at all
        else:
            assert answer.endswith(left)


# -- I/O -----------------------------------------------------------------------------------


class Narrow(MemoryStream):
    """Takes a byte at a time, keeps each back until it is waited for, and answers at the end."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.answer = answer
        self.kept = False
        self.piece = 1

    def send(self, data: bytes | memoryview) -> int:
        if self.kept:
            return 0
        self.kept = True
        self.outbox += bytes(data[:1])
        return 1

    def flush(self) -> bool:
        return not self.kept

    def waited(self, wait: Wait) -> None:
        ((source, mask),) = wait.interests
        assert source is self
        if mask == READ:
            assert not self.kept, "an answer is waited for before all was said"
            self.inbox += self.answer
        self.kept = False


def test_a_talk_over_a_narrow_network() -> None:
    stream = Narrow(STANDS)
    driven(hold(stream, connect("db", 443, [], PROXY), PROXY), stream.waited)
    assert stream.outbox.endswith(b"\r\n\r\n")
    assert not stream.kept


def test_a_network_that_breaks_is_told() -> None:
    stream = Narrow(b"")
    stream.failure = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
    with pytest.raises(ProxyFault, match="proxy http://p:1: Connection reset by peer") as caught:
        driven(hold(stream, socks5("db", 443, None, PROXY), PROXY), stream.waited)
    assert (caught.value.kind, caught.value.errno) == ("ReadError", errno.ECONNRESET)


# -- words ---------------------------------------------------------------------------------


def test_headers_are_merged_by_name() -> None:
    ours = [(b"Host", b"a"), (b"Accept", b"b")]
    assert merged(ours, [(b"HOST", b"c"), (b"x", b"d")]) == [
        (b"Accept", b"b"),
        (b"HOST", b"c"),
        (b"x", b"d"),
    ]


def test_what_a_failed_connect_becomes() -> None:
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    plain = failure_of(DialError("no", timed_out=False, cause=refused))
    assert (plain.kind, plain.message, plain.cause) == ("ConnectError", "no", refused)
    late = failure_of(DialError("late", timed_out=True, cause=refused))
    assert (late.kind, late.message, late.cause) == ("ConnectTimeout", "late", refused)
    bare = DialError("late", timed_out=True, cause=None)
    assert failure_of(bare).cause is bare
    fault = ProxyFault("ProxyError", "503 Service Unavailable", blame=False)
    told = failure_of(DialError("no", timed_out=False, cause=fault))
    assert (told.kind, told.message) == ("ProxyError", "503 Service Unavailable; nothing was sent")
    assert all(failure.final for failure in (plain, late, told))


def test_a_reset_behind_the_proxy_may_be_dialled_again() -> None:
    assert beyond(ConnectionResetError(errno.ECONNRESET, "x"), "db").errno == errno.ECONNRESET
    assert beyond(OSError(errno.EIO, "x"), "db").errno is None
