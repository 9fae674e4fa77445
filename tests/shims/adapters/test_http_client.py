"""`http.client` over our sockets."""

from __future__ import annotations

import socket
import ssl
from http.client import HTTPConnection
from typing import Any

import pytest

from outlast import report_of
from outlast.shims.adapters.http_client import OutlastHTTPConnection, OutlastHTTPSConnection
from tests.net.pairs import PATIENCE
from tests.shims.adapters.conftest import SOON
from tests.shims.adapters.looks import LINUX, both, is_ours, raised_by
from tests.shims.adapters.site import Site, http, serving


def asked(connection: HTTPConnection, path: str = "/a") -> bytes:
    """The answer to one request."""
    connection.request("GET", path)
    return connection.getresponse().read()


def test_a_silent_endpoint_costs_a_moment(site: Site, silent: int) -> None:
    ports = {"orders.svc:8080": both(silent, site.port)}
    made = OutlastHTTPConnection("orders.svc", 8080, timeout=2, targets=ports)
    assert asked(made) == asked(made) == b"GET /a HTTP/1.1"
    assert made.sock.gettimeout() == 2
    if LINUX:
        assert is_ours(made.sock)
    made.close()
    assert asked(made) == b"GET /a HTTP/1.1", "it opens itself again"
    made.close()


def test_arguments_are_http_clients(site: Site) -> None:
    made = OutlastHTTPConnection("127.0.0.1", site.port, 3, ("127.0.0.2", 0), 4096)
    assert asked(made) == b"GET /a HTTP/1.1"
    assert (made.blocksize, made.sock.getsockname()[0]) == (4096, "127.0.0.2")
    made.close()
    with pytest.raises(TypeError):
        OutlastHTTPConnection("127.0.0.1", no_such_option=1)


def test_the_global_default_timeout(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getdefaulttimeout", lambda: 4.5)
    made = OutlastHTTPConnection("127.0.0.1", site.port)
    made.connect()
    assert made.sock.gettimeout() == 4.5
    made.close()


def test_errors_are_those_of_the_system(silent: int, refusing: int) -> None:
    for port, kind in ((silent, TimeoutError), (refusing, ConnectionRefusedError)):
        ports = {"orders.svc:80": f"static://127.0.0.1:{port}"}
        made = OutlastHTTPConnection("orders.svc", targets=ports, policy=SOON)
        error = raised_by(made.connect)
        assert isinstance(error, kind)
        assert report_of(error) is not None
    with pytest.raises(socket.gaierror):
        OutlastHTTPConnection("no-such-name.invalid").connect()


def test_tls_verifies_the_name_that_was_written(
    served_as: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    with serving(http, served_as) as secure:
        target = f"static://127.0.0.1:{secure.port}"
        ports = {"orders.svc:443": target, "others.svc:443": target}
        keywords: dict[str, Any] = {"context": trusting, "targets": ports, "timeout": PATIENCE}
        made = OutlastHTTPSConnection("orders.svc", **keywords)
        assert asked(made) == b"GET /a HTTP/1.1"
        made.close()
        wrong = OutlastHTTPSConnection("others.svc", **keywords)
        with pytest.raises(ssl.SSLCertVerificationError, match=r"others.svc"):
            wrong.connect()
        wrong.close()


def test_a_tunnel(site: Site, served_as: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
    with serving(http, served_as) as secure:
        ports = {"proxy.svc:3128": f"static://127.0.0.1:{site.port}"}
        made = OutlastHTTPSConnection("proxy.svc", 3128, context=trusting, targets=ports)
        made.set_tunnel("orders.svc", secure.port)
        assert asked(made) == b"GET /a HTTP/1.1"
        made.close()
