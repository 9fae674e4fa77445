"""The forwarder on real sockets: bytes, ends, failures, limits, and the drain."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import random
import socket
import threading
from collections.abc import Callable

import pytest

import outlast
from outlast import events
from outlast.net import moving, ready_set
from outlast.net.moving import abort
from outlast.shims.forward import Forwarder, engine
from tests.shims.forward.ends import (
    PATIENCE,
    accepted,
    connect,
    deaf_server,
    ends,
    is_reset,
    is_turned_away,
    read,
    refuses,
    rest,
    target_of,
    until,
    upstream,
)

BIG = 20_000_000  # bytes; more than all the buffers between


@pytest.fixture(params=["best", "portable", "copying"])
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Linux; without epoll; without splice."""
    if request.param == "portable":
        monkeypatch.setattr(engine, "ready_set", ready_set.ReadySet)
    if request.param != "best":
        monkeypatch.setattr(moving, "CAN_SPLICE", False)


def test_bytes_go_both_ways(platform: None) -> None:
    with ends() as both:
        both.client.sendall(b"hello")
        assert read(both.far, 5) == b"hello"
        both.far.sendall(b"world")
        assert read(both.client, 5) == b"world"


@pytest.mark.parametrize("first", ["client", "far"])
def test_one_end_closes_its_half_and_reads_on(platform: None, first: str) -> None:
    with ends() as both:
        near, far = (both.client, both.far) if first == "client" else (both.far, both.client)
        near.sendall(b"a question")
        near.shutdown(socket.SHUT_WR)
        assert rest(far) == b"a question"
        far.sendall(b"an answer")
        assert read(near, 9) == b"an answer"
        far.shutdown(socket.SHUT_WR)
        assert rest(near) == b""
        until(lambda: both.forwarder.counts.closed == 1)
        assert (both.forwarder.counts.up, both.forwarder.counts.open) == (
            (10, 0) if first == "client" else (9, 0)
        )


def sender(sock: socket.socket, data: bytes) -> threading.Thread:
    """Sends all, and closes its half."""

    def send() -> None:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_a_great_deal_in_both_directions_at_once(platform: None) -> None:
    data = random.Random(5).randbytes(BIG)
    with ends() as both:
        threads = [sender(both.client, data), sender(both.far, data[::-1])]
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.append(rest(both.client)))
        reader.start()
        there = rest(both.far)
        for thread in (*threads, reader):
            thread.join(PATIENCE)
        assert hashlib.sha256(there).digest() == hashlib.sha256(data).digest()
        assert hashlib.sha256(found[0]).digest() == hashlib.sha256(data[::-1]).digest()
        until(lambda: both.forwarder.counts.closed == 1)


def test_a_slow_reader_stops_its_writer_and_loses_nothing(platform: None) -> None:
    """All that is between them is what the kernel's buffers and one pipe hold."""
    data = random.Random(6).randbytes(1 << 16)
    with ends() as both:
        both.client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        both.far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        both.client.settimeout(0.3)
        sent = bytearray()
        with contextlib.suppress(TimeoutError):
            while len(sent) < 64 * BIG:
                sent += data[: both.client.send(data)]
        assert len(sent) < BIG
        both.client.shutdown(socket.SHUT_WR)
        assert rest(both.far) == bytes(sent)


# -- failures ----------------------------------------------------------------------------


def test_a_reset_is_passed_on_as_one_after_what_was_said(
    platform: None, caplog: pytest.LogCaptureFixture
) -> None:
    with ends() as both:
        both.far.sendall(b"413 too large")
        until(lambda: both.client.recv(99, socket.MSG_PEEK) == b"413 too large")
        abort(both.far)
        assert read(both.client, 13) == b"413 too large"
        assert is_reset(both.client)
        until(lambda: both.forwarder.counts.failed == 1)
    assert "cut: upstream 127.0.0.1:" in caplog.text
    assert "connection reset by peer" in caplog.text


def test_what_arrived_before_a_reset_is_handed_over(platform: None) -> None:
    """The forwarder finds data and reset together."""
    with ends() as both:
        both.client.sendall(b"unread")  # so that a close of the far side is a reset
        until(lambda: both.far.recv(99, socket.MSG_PEEK) == b"unread")
        both.far.sendall(b"last words")
        both.far.close()
        assert read(both.client, 10) == b"last words"
        assert is_reset(both.client)


def test_a_client_that_is_reset_resets_upstream(platform: None) -> None:
    with ends() as both:
        abort(both.client)
        assert is_reset(both.far)
        until(lambda: both.forwarder.counts.failed == 1)


def test_a_reset_while_the_reader_is_slow_ends_in_time(platform: None) -> None:
    with ends() as both:
        both.far.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            while True:
                both.far.sendall(bytes(1 << 16))
        abort(both.far)
        until(lambda: both.forwarder.counts.failed == 1)
        assert is_reset(both.client)


def test_a_client_is_reset_where_everybody_refuses(caplog: pytest.LogCaptureFixture) -> None:
    with upstream() as server:
        target = target_of(server)
    with Forwarder("127.0.0.1:0", target) as forwarder:
        assert is_turned_away(forwarder)
        assert forwarder.counts.unreached == 1
    assert "reset: connect failed after" in caplog.text


def test_a_client_is_held_while_nobody_answers_and_then_reset(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []
    with deaf_server() as target:
        policy = outlast.Policy(connect_timeout=0.3)
        with Forwarder("127.0.0.1:0", target, policy=policy, explain=told.append) as forwarder:
            with events.subscribe(lambda _: told.append("an event"), events.DialFailed):
                with contextlib.closing(connect(forwarder)) as client:
                    client.sendall(b"never read")
                    assert is_reset(client)
        assert forwarder.counts.unreached == 1
    assert "connect timed out after 0.3" in caplog.text
    assert "reset: connect timed out" in "".join(told)
    assert "an event" in told


def test_a_client_that_leaves_meanwhile_ends_the_dial() -> None:
    with deaf_server() as target, Forwarder("127.0.0.1:0", target) as forwarder:
        client = connect(forwarder)
        until(lambda: forwarder.counts.accepted == 1)
        abort(client)
        until(lambda: forwarder.counts.gone == 1)
        assert forwarder.counts.open == 0


def test_a_half_that_is_closed_early_is_no_reason_to_end_the_dial() -> None:
    with ends() as both:
        with contextlib.closing(connect(both.forwarder)) as client:
            client.sendall(b"all I have to say")
            client.shutdown(socket.SHUT_WR)
            with contextlib.closing(accepted(both.server)) as far:
                assert rest(far) == b"all I have to say"
                far.sendall(b"yes")
                assert read(client, 3) == b"yes"


# -- limits ------------------------------------------------------------------------------


def test_an_idle_connection_is_reset_on_both_sides(platform: None) -> None:
    with ends(idle_timeout=0.2) as both:
        assert is_reset(both.client)
        assert is_reset(both.far)
        assert both.forwarder.counts.idle == 1


def test_more_than_there_are_places_wait(caplog: pytest.LogCaptureFixture) -> None:
    with ends(max_connections=1) as both:
        with contextlib.closing(connect(both.forwarder)) as second:
            second.sendall(b"second")
            until(lambda: "all 1 connections are in use" in caplog.text)
            both.client.close()
            both.far.close()
            with contextlib.closing(accepted(both.server)) as far:
                assert read(far, 6) == b"second"


def test_a_hundred_at_once() -> None:
    with ends() as both:
        pairs = []
        with contextlib.ExitStack() as stack:
            for _ in range(100):
                client = stack.enter_context(connect(both.forwarder))
                pairs.append((client, stack.enter_context(accepted(both.server))))
            for number, (client, _) in enumerate(pairs):
                client.sendall(b"%03d" % number)
            assert sorted(read(far, 3) for _, far in pairs) == [b"%03d" % n for n in range(100)]
            assert both.forwarder.counts.open == 101


# -- what is told ------------------------------------------------------------------------


def test_what_is_told_of_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    kinds: list[events.OutlastEvent] = []
    caplog.set_level(logging.INFO, "outlast.forward")
    with events.subscribe(kinds.append, events.ConnectionOpened, events.ConnectionClosed):
        with ends(explain=told.append) as both:
            both.client.sendall(b"12345")
            assert read(both.far, 5) == b"12345"
            both.client.close()
            both.far.close()
            until(lambda: both.forwarder.counts.closed == 1)
    text = "\n".join(told)
    assert "1 dial" in text
    assert "connected in" in text
    assert "closed by both sides after" in text
    assert "5 bytes up, 0 down" in text
    assert [type(each).__name__ for each in kinds] == ["ConnectionOpened", "ConnectionClosed"]
    assert "closed after" in str(kinds[1])
    assert "peer" in str(kinds[1])
    assert str(both.forwarder.counts) == "1 accepted, 1 closed; 5 bytes up, 0 down"


def test_an_explanation_that_fails_costs_nobody_their_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(text: str) -> None:
        raise RuntimeError(text)

    with ends(explain=broken) as both:
        both.client.sendall(b"x")
        assert read(both.far, 1) == b"x"
    assert "the explanation of connections has failed" in caplog.text


# -- its life ----------------------------------------------------------------------------


def test_before_it_listens_it_has_no_address() -> None:
    forwarder = Forwarder("127.0.0.1:0", "static://127.0.0.1:9")
    with pytest.raises(RuntimeError, match="call start"):
        _ = forwarder.address
    assert forwarder.addresses == ()
    forwarder.stop()


def test_it_starts_once() -> None:
    with ends() as both, pytest.raises(RuntimeError, match="make another one"):
        both.forwarder.start()


def test_one_that_was_only_opened_is_closed_by_stop() -> None:
    forwarder = Forwarder("127.0.0.1:0", "static://127.0.0.1:9")
    forwarder.open()
    forwarder.open()
    assert not refuses(forwarder)
    forwarder.stop()
    assert refuses(forwarder)


def test_several_pairs_in_one() -> None:
    with upstream() as one, upstream() as two:
        pairs = ("127.0.0.1:0", target_of(one), "127.0.0.1:0", outlast.Target(target_of(two)))
        with Forwarder(*pairs) as forwarder:
            for number, server in enumerate((one, two)):
                with connect(forwarder, number) as client, accepted(server) as far:
                    client.sendall(b"x")
                    assert read(far, 1) == b"x"
            assert len(forwarder.routes) == 2


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Forwarder, "nothing to forward"),
        (lambda: Forwarder(":0"), "':0' has no target; LISTEN and TARGET come in pairs"),
        (lambda: Forwarder(":0", "k8s://shop/db:1"), "k8s:// is not available yet"),
        (lambda: Forwarder(":1", "a:1", "127.0.0.1:1", "b:2"), "given twice"),
        (lambda: Forwarder(":0", "a:1", policy=5), "policy: 5 is no outlast.Policy"),  # type: ignore[arg-type]  # the test
        (lambda: Forwarder(":0", "a:1", idle_timeout=0), "idle_timeout: 0 would cut"),
        (lambda: Forwarder(":0", "a:1", idle_timeout="soon"), "idle_timeout: 'soon'"),
        (lambda: Forwarder(":0", "a:1", max_connections=0), "max_connections: 0 is no whole"),
        (lambda: Forwarder(":0", "a:1", max_connections=100_000), "descriptors, and this process"),
    ],
)
def test_what_is_refused_at_once(
    make: Callable[[], Forwarder], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.shims.forward.forwarder._descriptors", lambda: 1024)
    with pytest.raises(ValueError, match=r".") as caught:
        make()
    assert said in str(caught.value)


def test_where_the_system_tells_no_limit_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.shims.forward.forwarder._descriptors", lambda: None)
    assert Forwarder(":0", "a:1", max_connections=5000)._limits.connections == 5000
    assert Forwarder(":0", "a:1")._limits.connections == 200


def test_a_forwarder_to_itself_is_refused() -> None:
    with upstream() as server:
        port = server.getsockname()[1]
    forwarder = Forwarder(f"127.0.0.1:{port}", f"static://127.0.0.1:{port}")
    with pytest.raises(ValueError, match="is this very place"):
        forwarder.open()
