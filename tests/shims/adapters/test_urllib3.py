"""urllib3 over our sockets: pools, pools of pools, proxies, and every knob of a connection."""

from __future__ import annotations

import functools
import gc
import socket
import ssl
from typing import Any

import pytest
import urllib3

from outlast import Policy, report_of
from outlast.shims.adapters.urllib3 import (
    OutlastHTTPConnectionPool,
    OutlastHTTPSConnectionPool,
    OutlastPools,
    OutlastProxyPools,
)
from tests.net.pairs import keepalive
from tests.shims.adapters.conftest import SOON
from tests.shims.adapters.looks import LINUX, both, declare_dead, is_ours, raised_by
from tests.shims.adapters.site import Site, http, serving


def alone(site: Site) -> dict[str, str]:
    return {"orders.svc:80": f"static://127.0.0.1:{site.port}"}


def test_a_silent_endpoint_costs_a_moment(site: Site, silent: int) -> None:
    ports = {"orders.svc:80": both(silent, site.port)}
    with OutlastPools(targets=ports, retries=False, timeout=2.0) as pools:
        for _ in range(3):
            assert pools.request("GET", "http://orders.svc/a").data == b"GET /a HTTP/1.1"
    assert len(site.accepted) == 1


def test_a_pool_of_its_own(site: Site) -> None:
    with OutlastHTTPConnectionPool("orders.svc", 80, targets=alone(site)) as pool:
        assert pool.request("GET", "/a").status == 200
        assert pool.request("GET", "/a").status == 200
    assert len(site.accepted) == 1


def test_errors_are_urllib3s_and_carry_the_report(silent: int, refusing: int) -> None:
    cases: list[tuple[int, type[Exception]]] = [
        (silent, urllib3.exceptions.ConnectTimeoutError),
        (refusing, urllib3.exceptions.NewConnectionError),
    ]
    for port, kind in cases:
        ports = {"orders.svc:80": f"static://127.0.0.1:{port}"}
        with OutlastPools(targets=ports, policy=SOON, retries=False) as pools:
            error = raised_by(functools.partial(pools.request, "GET", "http://orders.svc/"))
            assert type(error) is kind
            assert report_of(error) is not None
            assert isinstance(error.__cause__, OSError)


def test_an_unknown_name_is_urllib3s_error() -> None:
    kind: Any = getattr(urllib3.exceptions, "NameResolutionError", None)
    with OutlastPools(retries=False) as pools:
        with pytest.raises(kind or urllib3.exceptions.NewConnectionError):
            pools.request("GET", "http://no-such-name.invalid/")
        with pytest.raises(urllib3.exceptions.LocationParseError, match="label empty or too long"):
            pools.request("GET", "http://" + "x" * 64 + "/")


def test_timeouts_of_connect_and_read(site: Site, silent: int) -> None:
    ports = {**alone(site), "mute.svc:80": f"static://127.0.0.1:{silent}"}
    timeout = urllib3.Timeout(connect=0.2, read=0.1)
    with OutlastPools(targets=ports, retries=False, timeout=timeout) as pools:
        with pytest.raises(urllib3.exceptions.ReadTimeoutError):
            pools.request("GET", "http://orders.svc/mute")
        with pytest.raises(urllib3.exceptions.ConnectTimeoutError, match=r"timeout=0.2"):
            pools.request("GET", "http://mute.svc/")


@pytest.mark.skipif(not LINUX, reason="option numbers of Linux")
@pytest.mark.incident("FR-79")
def test_fr79_options_hold_on_every_socket(site: Site) -> None:
    with OutlastHTTPConnectionPool("orders.svc", 80, targets=alone(site)) as pool:
        connection = pool._get_conn()
        connection.connect()
        assert is_ours(connection.sock)
        nodelay = connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert nodelay == 1, "urllib3's own default"
        connection.close()
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, 5, 33)]
    made: dict[str, Any] = {"targets": alone(site), "socket_options": options}
    with OutlastHTTPConnectionPool("orders.svc", 80, **made) as pool:
        connection = pool._get_conn()
        connection.connect()
        assert keepalive(connection.sock) == (1, 5, 33, 6)
        assert connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
        connection.close()


def test_the_local_address(site: Site) -> None:
    source = ("127.0.0.2", 0)
    with OutlastPools(targets=alone(site), source_address=source) as pools:
        assert pools.request("GET", "http://orders.svc/").status == 200
    assert site.peers[0] == "127.0.0.2"


def test_a_connection_to_an_endpoint_that_is_dead_is_not_used_again(site: Site) -> None:
    with serving(http) as other:
        target = both(site.port, other.port)
        with OutlastPools(targets={"orders.svc:80": target}) as pools:
            pools.request("GET", "http://orders.svc/")
            declare_dead(target, (site if site.accepted else other).port)
            pools.request("GET", "http://orders.svc/")
        assert [len(site.accepted), len(other.accepted)] == [1, 1]


def test_without_a_watch_the_pool_does_as_urllib3(site: Site) -> None:
    with serving(http) as other:
        target = both(site.port, other.port)
        made: dict[str, Any] = {"targets": {"orders.svc:80": target}, "policy": Policy(watch=False)}
        with OutlastPools(**made) as pools:
            pools.request("GET", "http://orders.svc/")
            declare_dead(target, (site if site.accepted else other).port)
            pools.request("GET", "http://orders.svc/")
        assert len(site.accepted) + len(other.accepted) == 1


def test_a_closed_connection_is_replaced(site: Site) -> None:
    with OutlastPools(targets=alone(site)) as pools:
        for _ in range(3):
            assert pools.request("GET", "http://orders.svc/close").status == 200
    assert len(site.accepted) == 3


def test_tls_verifies_the_name_that_was_written(
    served_as: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    with serving(http, served_as) as secure:
        target = f"static://127.0.0.1:{secure.port}"
        made: dict[str, Any] = {"ssl_context": trusting, "retries": False}
        ports = {"orders.svc:443": target, "others.svc:443": target}
        with OutlastPools(targets=ports, **made) as pools:
            assert pools.request("GET", "https://orders.svc/a").data == b"GET /a HTTP/1.1"
            with pytest.raises(urllib3.exceptions.SSLError):
                pools.request("GET", "https://others.svc/")
        with OutlastHTTPSConnectionPool("orders.svc", 443, targets=ports, **made) as pool:
            assert pool.request("GET", "/a").status == 200
        if not hasattr(
            urllib3.exceptions, "NameResolutionError"
        ):  # there the context checks the host all the same
            return
        with OutlastPools(targets=ports, assert_hostname="orders.svc", **made) as pools:
            assert pools.request("GET", "https://others.svc/a").status == 200


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_is_dialled_like_anybody(
    site: Site, silent: int, served_as: ssl.SSLContext, trusting: ssl.SSLContext, scheme: str
) -> None:
    ports = {"proxy.svc:3128": both(silent, site.port)}
    made: dict[str, Any] = {"targets": ports, "ssl_context": trusting}
    with serving(http, served_as) as secure:
        with OutlastProxyPools("http://proxy.svc:3128", **made) as pools:
            url = f"{scheme}://orders.svc:{secure.port}/a"
            for _ in range(2):
                assert pools.request("GET", url).status == 200
    assert len(site.accepted) == 1


def test_a_failed_connect_leaves_nothing_open(silent: int, refusing: int) -> None:
    """The guards look for sockets that outlive the test."""
    ports = {"orders.svc:80": both(silent, refusing)}
    with OutlastPools(targets=ports, policy=SOON, retries=urllib3.Retry(1)) as pools:
        with pytest.raises(urllib3.exceptions.MaxRetryError) as caught:
            pools.request("GET", "http://orders.svc/", timeout=0.2)
    del caught
    gc.collect()
