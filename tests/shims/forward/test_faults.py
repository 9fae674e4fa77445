"""What seldom happens: faults of ours, of listeners and of kernels; clients that die far away."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from typing import Any

import pytest

from outlast import Policy
from outlast.net.dial import DialError
from outlast.net.listening import Listener
from outlast.net.moving import CHUNK, Pipes, abort
from outlast.net.ready_set import FAILED, ready_set
from outlast.net.seam import READ
from outlast.shims.forward import Forwarder, engine
from outlast.shims.forward.passage import Passage
from outlast.shims.forward.relay import BULK, CLIENT, UPSTREAM, End, Relay
from outlast.shims.forward.route import parse_routes
from tests.net.pairs import pair, user_timeout
from tests.shims.forward.ends import (
    Ends,
    accepted,
    connect,
    ends,
    is_reset,
    is_turned_away,
    pause,
    read,
    rest,
    target_of,
    until,
    upstream,
)


def test_a_fault_in_one_dial_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> object:
        raise LookupError("no such table")

    with ends() as both:
        with monkeypatch.context() as patch:
            patch.setattr(engine, "reach", broken)
            assert is_turned_away(both.forwarder)
        both.client.sendall(b"x")
        assert read(both.far, 1) == b"x"
        assert both.forwarder.counts.unreached == 1
    assert "reset: a fault in the dial" in caplog.text
    assert "no such table" in caplog.text


def test_a_dial_without_descriptors_lets_nobody_in_for_a_moment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cause = OSError(errno.EMFILE, "Too many open files")

    async def poor(*_: object) -> object:
        monkeypatch.undo()
        return DialError("connect failed", timed_out=False, cause=cause)

    with ends() as both:
        monkeypatch.setattr(engine, "reach", poor)
        assert is_turned_away(both.forwarder)
        with connect(both.forwarder) as client, accepted(both.server) as far:
            client.sendall(b"x")
            assert read(far, 1) == b"x"
    assert "cannot accept another connection: Too many open files" in caplog.text


def test_a_listener_that_breaks_is_said_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Listener) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    with ends() as both:
        with monkeypatch.context() as patch:
            patch.setattr(Listener, "accept", broken)
            with contextlib.suppress(ConnectionResetError):
                connect(both.forwarder).close()
            until(lambda: "no connection can be taken there any more" in caplog.text)
        both.client.sendall(b"x")
        assert read(both.far, 1) == b"x"


def test_a_kernel_that_does_not_splice(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "splice", refuses, raising=False)
    with ends() as both:
        both.client.sendall(bytes(1_000_000))
        assert read(both.far, 1_000_000) == bytes(1_000_000)


@pytest.mark.parametrize("bulk", [False, True])
def test_a_reader_that_is_found_gone_by_writing(bulk: bool) -> None:
    """Before its own socket has been looked at. What it had said is handed over yet."""
    (route,) = parse_routes(["127.0.0.1:1", "static://127.0.0.1:2"])
    pipes, buffer = Pipes(), memoryview(bytearray(CHUNK))
    with pair() as (client, near), pair() as (far, upstream_end):
        passage = Passage(1, route, (near, "a client"), 0.0, None)
        relay = Relay(0.0)
        passage.join(upstream_end, relay)
        for sock in (near, upstream_end):
            sock.setblocking(False)
        if bulk:
            relay.copied(UPSTREAM, BULK, full=False, now=0.0)
        client.sendall(b"the last I have to say")
        abort(client)
        far.sendall(b"too late")
        passage.happened(UPSTREAM, READ, pipes, buffer, 0.0)
        assert (relay.failed, relay.end) == (CLIENT, End.FAILED)
        assert isinstance(passage.why, OSError)
        assert far.recv(99) == b"the last I have to say"
        with contextlib.closing(ready_set()) as ready:
            passage.close(ready, pipes)
        assert is_reset(far)
    pipes.close()


def test_an_ended_side_with_unread_data_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket has ended in both directions and says so for as long as it is asked."""
    looks: list[int] = []
    happened = engine.Engine._happened

    def counting(self: Any, passage: Passage, side: int, mask: int, now: float) -> None:
        looks.append(mask)
        happened(self, passage, side, mask, now)

    monkeypatch.setattr(engine.Engine, "_happened", counting)
    with ends() as both:
        both.client.shutdown(socket.SHUT_WR)
        assert rest(both.far) == b""
        sent = stop_up(both)
        both.far.close()
        until(lambda: FAILED in looks)
        before = len(looks)
        pause(0.2)
        assert len(looks) - before < 10
        assert len(rest(both.client)) == sent
        until(lambda: both.forwarder.counts.closed == 1)


def stop_up(both: Ends) -> int:
    """Upstream says as much as the client's side takes without being read, and a little that the
    forwarder has to leave in its own kernel; the bytes."""
    relay = only_passage(both.forwarder).relay
    assert relay is not None
    sent = 0
    while relay.wants(UPSTREAM):
        sent += both.far.send(bytes(1 << 14))
        pause(0.001)
    return sent


# -- clients on other machines ---------------------------------------------------------------


def only_passage(forwarder: Forwarder) -> Passage:
    assert forwarder._engine is not None
    (passage,) = forwarder._engine._passages.values()
    return passage


@pytest.mark.parametrize(
    ("near", "policy", "limit", "watches"),
    [
        (False, Policy(), 11_000, (True, True)),
        (True, Policy(), 0, (False, True)),
        (False, Policy(watch=False), 0, (False, False)),
        (False, Policy(user_timeout=0), 0, (False, False)),
    ],
)
def test_who_is_watched(
    monkeypatch: pytest.MonkeyPatch,
    near: bool,
    policy: Policy,
    limit: int,
    watches: tuple[bool, bool],
) -> None:
    """Upstream always, a client if it is on another machine; neither if the policy says so."""
    monkeypatch.setattr(engine, "_is_near", lambda _: near)
    with upstream() as server, Forwarder("127.0.0.1:0", target_of(server), policy=policy) as made:
        with connect(made) as client, accepted(server) as far:
            client.sendall(b"x")
            assert read(far, 1) == b"x"
            passage = only_passage(made)
            assert tuple(each is not None for each in passage.watches) == watches
            assert user_timeout(passage.sock(0)) == limit
            assert passage.sock(0).getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == (not near)
            assert passage.sock(1).getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_a_client_that_is_gone_before_it_can_be_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    monkeypatch.setattr(engine, "_is_near", lambda _: False)
    monkeypatch.setattr(engine, "watch", gone)
    with ends() as both:
        both.client.sendall(b"x")
        assert read(both.far, 1) == b"x"
        assert only_passage(both.forwarder).watches[0] is None


def test_the_watch_does_not_end_what_has_closed_in_order() -> None:
    """Our end is passed on: from then on the watch leaves the connection to the kernel."""
    with ends() as both:
        both.client.shutdown(socket.SHUT_WR)
        assert rest(both.far) == b""
        watched = only_passage(both.forwarder).watches[1]
        assert watched is not None
        assert watched._abort is False
