"""TLS to an origin inside TLS to a proxy: a stream face over a stream face, both in memory."""

from __future__ import annotations

import ssl
from typing import cast

import pytest

from outlast.net.seam import Wait
from outlast.net.tls import TlsStream, handshake
from tests.net.tls_pair import (
    NAME,
    MemoryStream,
    Server,
    client_context,
    driven,
    server_context,
    shaken,
)

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class Behind:
    """What the inner far end has for its network: the outer session's far end."""

    def __init__(self, outer: Server) -> None:
        self._outer = outer

    @property
    def outbox(self) -> bytearray:
        """What the client has sent."""
        return bytearray(self._outer.read())

    @property
    def inbox(self) -> bytearray:
        """What is added here goes to the client."""
        return bytearray()

    @inbox.setter
    def inbox(self, data: bytearray) -> None:
        self._outer.write(bytes(data))


class Nested:
    """Both sessions, both ends; `stream` is the client's inner one."""

    def __init__(self, version: ssl.TLSVersion) -> None:
        self.outer, self.proxy = shaken()
        self.raw: MemoryStream = self.proxy.raw
        context = server_context()
        context.maximum_version = version
        self.server = Server(cast(MemoryStream, Behind(self.proxy)), context)
        work = handshake(self.outer, context=client_context(), name=NAME)
        self.stream: TlsStream = driven(work, self._on_wait)

    def _on_wait(self, wait: Wait) -> None:
        ((source, _),) = wait.interests
        assert source is self.outer
        self.server.pump()


@pytest.fixture(params=VERSIONS, ids=["1.2", "1.3"])
def nested(request: pytest.FixtureRequest) -> Nested:
    """A session in a session."""
    return Nested(request.param)


def test_bytes_go_both_ways(nested: Nested) -> None:
    assert nested.stream.send(b"hello") == 5
    assert nested.server.read() == b"hello"
    nested.server.write(b"world")
    assert nested.stream.recv(100) == b"world"


def test_nothing_stays_behind_in_the_outer_session(nested: Nested) -> None:
    """`flush` answers for the layers below too."""
    nested.server.pump()
    nested.raw.room = 100
    sent = nested.stream.send(bytes(10_000))
    got = b""
    while not nested.stream.flush():
        assert nested.raw.room == 0
        got += nested.server.read()
        nested.raw.room = 1000
    assert len(got + nested.server.read()) == sent


def test_what_comes_while_idle_is_not_lost(nested: Nested) -> None:
    """Session tickets of the inner TLS are data to the outer one: a look takes nothing away."""
    nested.server.pump()
    assert nested.stream.quiet()
    assert nested.stream.quiet()
    nested.server.write(b"world")
    assert not nested.stream.quiet()
    assert nested.stream.recv(100) == b"world"
    assert nested.stream.recv(100) is None


def test_an_end_of_either_session_is_noticed(nested: Nested) -> None:
    nested.server.pump()
    nested.server.close_notify()
    assert not nested.stream.quiet()
    assert nested.stream.recv(100) == b""


def test_the_outer_sessions_end_is_noticed(nested: Nested) -> None:
    nested.server.pump()
    nested.proxy.close_notify()
    assert not nested.stream.quiet()


def test_a_close_ends_both(nested: Nested) -> None:
    nested.server.pump()
    nested.stream.close()
    assert nested.raw.trail[-1] == "closed"


def test_a_look_at_a_plain_session_takes_nothing_away() -> None:
    stream, server = shaken()
    server.write(b"world")
    assert not stream.quiet()
    assert not stream.quiet()
    assert stream.recv(3) == b"wor"
    assert stream.recv(100) == b"ld"


def test_the_network_is_waited_for_where_it_is(nested: Nested) -> None:
    assert nested.stream.fileno() == nested.raw.fileno()
    assert nested.stream.raw is nested.outer
