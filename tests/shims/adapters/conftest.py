"""Addresses on loopback that adapters meet: a server, one that is silent, one that refuses."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import pytest
import trustme

from outlast import Policy
from tests.net.kernel_world import silent_listener
from tests.shims.adapters.site import Site, http, serving

SOON = Policy(connect_timeout=0.5)  # for connects that are meant to fail


@pytest.fixture
def site() -> Iterator[Site]:
    """An HTTP server."""
    with serving(http) as made:
        yield made


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that answers no SYN."""
    socks = silent_listener()
    yield socks[0].getsockname()[1]
    for sock in socks:
        sock.close()


@pytest.fixture
def refusing() -> Iterator[int]:
    """A port where nobody listens, and nobody else will."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """Who signs for the servers here."""
    return trustme.CA()


@pytest.fixture(scope="session")
def served_as(authority: trustme.CA) -> ssl.SSLContext:
    """A server's context, with a certificate for orders.svc alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("orders.svc").configure_cert(context)
    return context


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """A client's context that trusts them."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context
