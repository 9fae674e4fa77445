"""Certificates for the stage, and clients that trust or do not trust them."""

from __future__ import annotations

import functools
import ssl
from datetime import datetime, timezone

import trustme

__all__ = [
    "authority",
    "client_certificate",
    "expired",
    "good",
    "named",
    "self_signed",
    "server_pem",
    "speaking",
    "trusting",
    "wanting_client_certificate",
]

NAMES = ("127.0.0.1", "::1", "shop.test", "xn--bcher-kva.test")


@functools.cache
def authority() -> trustme.CA:
    return trustme.CA()


@functools.cache
def trusting() -> ssl.SSLContext:
    """A client's context that trusts the authority, shared: making one takes a while."""
    context = ssl.create_default_context()
    authority().configure_trust(context)
    return context


def client_certificate() -> ssl.SSLContext:
    """A client's context that trusts the authority and has a certificate from it."""
    context = ssl.create_default_context()
    authority().configure_trust(context)
    authority().issue_cert("client@shop.test").configure_cert(context)
    return context


def _serving(certificate: trustme.LeafCert, *protocols: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    context.set_alpn_protocols(list(protocols or ("h2", "http/1.1")))
    return context


@functools.cache
def _certificate(*names: str) -> trustme.LeafCert:
    return authority().issue_cert(*names)


def good() -> ssl.SSLContext:
    """A server's context that is all right."""
    return _serving(_certificate(*NAMES))


def server_pem() -> bytes:
    """The key and the certificate of such a server."""
    return _certificate(*NAMES).private_key_and_cert_chain_pem.bytes()


def named(*names: str) -> ssl.SSLContext:
    """A server's context for these names only."""
    return _serving(_certificate(*names))


def speaking(*protocols: str) -> ssl.SSLContext:
    """A server's context that offers these protocols, the preferred one first."""
    return _serving(_certificate(*NAMES), *protocols)


def expired() -> ssl.SSLContext:
    """A server's context whose certificate is of yesteryear."""
    past = datetime(2001, 1, 1, tzinfo=timezone.utc)
    return _serving(authority().issue_cert(*NAMES, not_after=past))


def self_signed() -> ssl.SSLContext:
    """A server's context with the own certificate of an authority that nobody knows."""
    stranger = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with stranger.cert_pem.tempfile() as chain, stranger.private_key_pem.tempfile() as key:
        context.load_cert_chain(chain, key)
    return context


def wanting_client_certificate() -> ssl.SSLContext:
    """A server's context that asks for a certificate of the authority."""
    context = good()
    context.verify_mode = ssl.CERT_REQUIRED
    authority().configure_trust(context)
    return context
