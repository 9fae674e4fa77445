"""When an idle TLS connection is as it was left: session tickets are no news."""

from __future__ import annotations

import ssl

import pytest

from tests.net.tls_pair import (
    ends,
    resets,
    server_context,
    shaken,
)

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(params=VERSIONS, ids=["1.2", "1.3"])
def far(request: pytest.FixtureRequest) -> ssl.SSLContext:
    """The server's context, for one version of the protocol."""
    context = server_context()
    context.maximum_version = request.param
    return context


def test_session_tickets_are_no_news() -> None:
    """TLS 1.3 servers send them after the handshake, whenever they like."""
    stream, server = shaken()
    assert server.raw.inbox, "the tickets have arrived"
    assert stream.quiet()
    assert not server.raw.inbox
    assert stream.quiet()
    server.write(b"x")
    assert not stream.quiet()


def test_tickets_with_news_behind_them_are_news() -> None:
    stream, server = shaken()
    server.write(b"x")
    assert not stream.quiet()


def test_news_is_not_quiet(far: ssl.SSLContext) -> None:
    for happens in (
        lambda server: server.write(b"x"),
        lambda server: server.close_notify(),
        lambda server: ends(server.raw),
        lambda server: resets(server.raw),
    ):
        stream, server = shaken(far)
        assert stream.quiet()
        happens(server)
        assert not stream.quiet()


@pytest.mark.parametrize("news", ["data", "close_notify"])
def test_news_that_was_taken_off_the_network_before_is_not_quiet(
    far: ssl.SSLContext, news: str
) -> None:
    """It came together with the last answer: the next request must not go out behind it."""
    stream, server = shaken(far)
    server.write(b"the answer")
    if news == "data":
        server.write(b"and more")
    else:
        server.close_notify()
    assert stream.recv(10) == b"the answer"
    assert server.raw.quiet()
    assert not stream.quiet()
