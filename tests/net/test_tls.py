"""TLS over any stream: the handshake, what arrives with it, how it ends."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import pytest
import trustme

from outlast.net.options import Keepalive
from outlast.net.seam import Wait
from outlast.net.tls import SIP, TlsStream, handshake
from tests.net.tls_pair import (
    NAME,
    MemoryStream,
    Server,
    client_context,
    driven,
    ends,
    pumping,
    resets,
    server_context,
    shake,
    shaken,
)

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(params=VERSIONS, ids=["1.2", "1.3"])
def far(request: pytest.FixtureRequest) -> ssl.SSLContext:
    """The server's context, for one version of the protocol."""
    context = server_context()
    context.maximum_version = request.param
    return context


# --- the handshake ----------------------------------------------------------------------------


def test_a_session_stands_and_carries_bytes(far: ssl.SSLContext) -> None:
    stream, server = shaken(far)
    assert stream.session.version() == server.session.version()
    assert stream.send(b"hello") == 5
    assert server.read() == b"hello"
    server.write(b"world")
    assert stream.recv(100) == b"world"
    assert stream.recv(100) is None


def test_a_handshake_in_crumbs(far: ssl.SSLContext) -> None:
    """Bytes arrive three by three, and the network takes a hundred at a time."""
    server = Server(MemoryStream(), far)
    server.raw.piece = 3
    server.raw.room = 10
    stream = shake(server)
    server.write(b"world")
    while (data := stream.recv(100)) is None:
        pass
    assert data == b"world"


class Recorded(ssl.SSLContext):
    """Notes how much of the server's words lies in a session's buffer at each step."""

    lying: ClassVar[list[int]] = []

    def wrap_bio(self, incoming: ssl.MemoryBIO, *given: Any, **more: Any) -> ssl.SSLObject:
        session = super().wrap_bio(incoming, *given, **more)
        step = session.do_handshake

        def noted() -> None:
            self.lying.append(incoming.pending)
            step()

        session.do_handshake = noted  # type: ignore[method-assign]  # one session's own
        return session


def test_the_buffer_of_a_session_stays_small(far: ssl.SSLContext) -> None:
    """It would keep the size of the server's chain of certificates for the connection's life."""
    Recorded.lying.clear()
    shaken(far, context=client_context(Recorded))
    assert sum(Recorded.lying) > SIP
    assert max(Recorded.lying) <= SIP


def test_a_protocol_is_agreed_on(far: ssl.SSLContext) -> None:
    far.set_alpn_protocols(["h2", "http/1.1"])
    context = client_context()
    context.set_alpn_protocols(["http/1.1"])
    assert shaken(far, context=context)[0].protocol == "http/1.1"
    assert shaken(far)[0].protocol is None


class Contested(ssl.SSLContext):
    """Another thread sets it for HTTP/2 right after it was set for us."""

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        super().set_alpn_protocols(["h2"])


def test_what_was_not_to_be_offered_is_not_spoken(far: ssl.SSLContext) -> None:
    """The dial begins again: nothing was sent."""
    far.set_alpn_protocols(["h2", "http/1.1"])
    for kind, protocols, agreed in (
        (ssl.SSLContext, ["http/1.1"], "http/1.1"),
        (Contested, ["http/1.1"], None),
        (Contested, ["http/1.1", "h2"], "h2"),
    ):
        context = client_context(kind)
        server = Server(MemoryStream(), far)
        work = handshake(server.raw, context=context, name=NAME, protocols=protocols)
        if agreed is None:
            with pytest.raises(ConnectionResetError, match="h2 was not to be offered"):
                driven(work, pumping(server))
        else:
            assert driven(work, pumping(server)).protocol == agreed


@pytest.mark.parametrize("name", ["other.test", "10.0.0.1"])
def test_a_wrong_name_is_refused_and_the_server_told_why(far: ssl.SSLContext, name: str) -> None:
    server = Server(MemoryStream(), far)
    with pytest.raises(ssl.SSLCertVerificationError, match=name):
        shake(server, name=name)
    assert "ALERT" in str(server.failure)


def test_an_unknown_authority_is_refused(far: ssl.SSLContext) -> None:
    server = Server(MemoryStream(), server_context(ca=trustme.CA()))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server)
    assert "UNKNOWN_CA" in str(server.failure)


def test_the_name_may_be_an_address() -> None:
    stream = shake(Server(MemoryStream(), server_context("10.0.0.1")), name="10.0.0.1")
    assert stream.session.getpeercert() is not None


def test_a_server_that_speaks_no_tls() -> None:
    server = Server(MemoryStream(), server_context())
    server.raw.inbox += b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with pytest.raises(ssl.SSLError) as failure:
        shake(server)
    assert not isinstance(failure.value, (ssl.SSLEOFError, ssl.SSLZeroReturnError))


def truncates(raw: MemoryStream) -> None:
    if not raw.eof:
        raw.inbox += bytes([22, 3, 3, 0, 100, 2])  # the beginning of a record
    raw.eof = True


def says_goodbye(raw: MemoryStream) -> None:
    raw.inbox += bytes([21, 3, 3, 0, 2, 1, 0])  # an alert: close_notify
    raw.eof = True


@pytest.mark.parametrize("how", [ends, resets, truncates, says_goodbye])
def test_a_peer_that_leaves_in_the_middle_is_no_tls_error(
    how: Callable[[MemoryStream], None],
) -> None:
    """Another dial of the same address may meet a backend that lives; nothing was sent."""
    raw = MemoryStream()

    def on_wait(wait: Wait) -> None:
        how(raw)

    with pytest.raises(OSError) as failure:
        driven(handshake(raw, context=client_context(), name=NAME), on_wait)
    assert not isinstance(failure.value, ssl.SSLError), "nobody has judged a certificate"
    assert failure.value.errno == errno.ECONNRESET
    assert str(raw.address) in str(failure.value)


# --- bytes ------------------------------------------------------------------------------------


def test_what_comes_with_the_handshake_is_not_lost(far: ssl.SSLContext) -> None:
    server = Server(MemoryStream(), far)
    server.last_flight = b"220 welcome\r\n"
    stream = shake(server)
    assert stream.recv(100) == b"220 welcome\r\n"


@pytest.mark.parametrize("size", [40_000, 65_536, 100_000])
def test_several_records_are_one_read(far: ssl.SSLContext, size: int) -> None:
    """What was taken off the network is handed on: a wait for READ would wait for ever."""
    stream, server = shaken(far)
    sent = bytes(range(256)) * 140  # 35,840 bytes: three records
    server.write(sent)
    assert stream.recv(size) == sent
    assert stream.recv(size) is None


def test_a_small_read_leaves_the_rest(far: ssl.SSLContext) -> None:
    stream, server = shaken(far)
    server.write(b"0123456789")
    assert [stream.recv(4), stream.recv(4), stream.recv(4)] == [b"0123", b"4567", b"89"]
    assert stream.recv(4) is None


def test_a_record_that_has_not_arrived_wholly_is_nothing_yet(far: ssl.SSLContext) -> None:
    stream, server = shaken(far)
    server.write(b"first")
    server.write(b"second")
    late = bytes(server.raw.inbox[-10:])
    del server.raw.inbox[-10:]
    assert stream.recv(100) == b"first"
    assert stream.recv(100) is None
    server.raw.inbox += late
    assert stream.recv(100) == b"second"


def test_what_the_network_does_not_take_is_kept(far: ssl.SSLContext) -> None:
    stream, server = shaken(far)
    server.raw.room = 10
    assert stream.send(b"hello") == 5
    assert not stream.flush()
    assert stream.send(b"more") == 0
    server.raw.room = 1000
    assert stream.flush()
    assert stream.send(b", world") == 7
    assert server.read() == b"hello, world"


def test_an_answer_is_read_although_nothing_can_be_sent_any_more(far: ssl.SSLContext) -> None:
    """A server may answer and stop reading in the middle of a request."""
    stream, server = shaken(far)
    server.raw.room = 0
    stream.send(b"half a request")
    server.write(b"too large")
    server.raw.send_failure = BrokenPipeError(errno.EPIPE, "Broken pipe")
    with pytest.raises(BrokenPipeError):
        stream.send(b"the other half")
    assert stream.recv(100) == b"too large"
    assert stream.recv(100) is None
    with pytest.raises(BrokenPipeError):
        stream.flush()


def test_a_large_body_goes_out_whole(far: ssl.SSLContext) -> None:
    stream, server = shaken(far)
    body = bytes(range(256)) * 2000
    rest, got = memoryview(body), b""
    while rest or not stream.flush():
        server.raw.room = 20_000
        rest = rest[stream.send(rest) if rest else 0 :]
        got += server.read()
    assert got + server.read() == body
    assert stream.written > len(body)


# --- the end ----------------------------------------------------------------------------------


def test_a_close_notify_is_an_end(far: ssl.SSLContext) -> None:
    stream, server = shaken(far)
    server.write(b"last words")
    server.close_notify()
    server.raw.eof = True
    assert stream.recv(4) == b"last"
    assert stream.recv(100) == b" words"
    assert stream.recv(100) == b""
    assert stream.recv(100) == b""


@pytest.mark.parametrize("strict", [False, True])
def test_an_end_without_close_notify_is_an_end(far: ssl.SSLContext, strict: bool) -> None:
    """The framing above judges whether it came too early."""
    context = client_context()
    option = getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
    context.options = context.options & ~option if strict else context.options | option
    stream, server = shaken(far, context=context)
    server.write(b"last words")
    server.raw.eof = True
    assert stream.recv(100) == b"last words"
    assert stream.recv(100) == b""
    assert stream.recv(100) == b""


def test_bytes_before_an_error_come_first(far: ssl.SSLContext) -> None:
    stream, server = shaken(far)
    server.write(b"good")
    server.write(b"bad!")
    server.raw.inbox[-1] ^= 1
    assert stream.recv(100) == b"good"
    for _ in range(2):  # never to be taken for an end
        with pytest.raises(ssl.SSLError):
            stream.recv(100)


def test_a_reset_is_told(far: ssl.SSLContext) -> None:
    stream, server = shaken(far)
    server.raw.failure = ConnectionResetError(errno.ECONNRESET, "reset")
    with pytest.raises(ConnectionResetError):
        stream.recv(100)
    with pytest.raises(ConnectionResetError):
        stream.send(b"x")


def test_a_close_says_goodbye_once(far: ssl.SSLContext) -> None:
    stream, server = shaken(far)
    stream.close()
    stream.close()
    assert server.read() == b""
    assert server.session.read(10) == b""  # close_notify has come
    assert set(server.raw.trail) == {"closed"}


@pytest.mark.parametrize("state", ["before the handshake", "full", "reset"])
def test_a_close_never_waits_or_raises(state: str) -> None:
    if state == "before the handshake":
        raw = MemoryStream()
        stream = TlsStream(raw, client_context(), NAME)
        stream.step_handshake()
    else:
        stream, server = shaken()
        raw = server.raw
        raw.room = 0
        if state == "reset":
            raw.failure = BrokenPipeError(errno.EPIPE, "gone")
    stream.close()
    assert raw.trail[-1] == "closed"


def test_an_abort_says_nothing(far: ssl.SSLContext) -> None:
    stream, server = shaken(far)
    before = stream.written
    stream.abort()
    stream.shut()
    assert server.raw.trail == ["aborted", "shut"]
    assert stream.written == before


# --- the face ---------------------------------------------------------------------------------


def test_the_rest_is_the_connections_below() -> None:
    stream, server = shaken()
    raw = server.raw
    assert stream.address == raw.address
    assert stream.local_port == raw.local_port
    assert stream.fileno() == raw.fileno()
    assert stream.notes == raw.notes
    assert stream.written == raw.written > 0
    assert stream.state() == raw.state()
    stream.set_user_timeout(2.5)
    assert raw.user_timeout == 2.5
    assert stream.keepalive == raw.keepalive == Keepalive()
    stream.set_keepalive(Keepalive(1, 1, 6))
    assert raw.keepalive == Keepalive(1, 1, 6)
    for raw.link in (True, False):
        assert stream.linked() is raw.link
    stream.connected()
    assert raw.trail == ["connected"]
    with pytest.raises(TypeError, match=r"10\.0\.0\.1:443"):
        stream.detach()


def test_tls_in_tls() -> None:
    """As through a proxy that is spoken to by TLS itself."""
    outer, proxy = shaken()
    inner_raw = MemoryStream()
    server = Server(inner_raw, server_context("inner.test"))

    def relay(wait: Wait) -> None:
        ((source, _),) = wait.interests
        assert source is outer
        inner_raw.outbox += proxy.read()
        server.pump()
        proxy.write(bytes(inner_raw.inbox))
        inner_raw.inbox.clear()

    inner = driven(handshake(outer, context=client_context(), name="inner.test"), relay)
    assert inner.send(b"hello") == 5
    inner_raw.outbox += proxy.read()
    assert server.read() == b"hello"
