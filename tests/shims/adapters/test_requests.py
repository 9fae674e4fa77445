"""requests over our sockets: what it takes and raises is requests' own."""

from __future__ import annotations

import pickle
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import trustme

import outlast
from outlast import Policy, report_of
from outlast.shims.adapters.requests import OutlastAdapter
from tests.net.pairs import PATIENCE, keepalive
from tests.shims.adapters.conftest import SOON
from tests.shims.adapters.looks import LINUX, both, declare_dead, is_ours, raised_by
from tests.shims.adapters.site import Site, go_dead, http, serving


@pytest.fixture
def session() -> Iterator[requests.Session]:
    """A session that does not look at the environment."""
    with requests.Session() as made:
        made.trust_env = False
        yield made


def mounted(session: requests.Session, target: str, **fields: Any) -> OutlastAdapter:
    """The adapter, for orders.svc."""
    policy = Policy(**fields) if fields else None
    ports = {"orders.svc:80": target, "orders.svc:443": target}
    adapter = OutlastAdapter(targets=ports, policy=policy)
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    return adapter


def socket_of(response: requests.Response) -> Any:
    """Of a response that is still under way, or of the one idle connection."""
    connection: Any = response.raw.connection
    return connection.sock


def test_a_silent_endpoint_costs_a_moment(
    session: requests.Session, site: Site, silent: int
) -> None:
    mounted(session, both(silent, site.port))
    for _ in range(3):
        response = session.get("http://orders.svc/a", timeout=PATIENCE)
        assert response.text == "GET /a HTTP/1.1"
        assert response.elapsed.total_seconds() < 2
    assert len(site.accepted) == 1, "a connection is used again"


def test_without_any_timeout_a_connect_ends(session: requests.Session, silent: int) -> None:
    mounted(session, f"static://127.0.0.1:{silent}", connect_timeout=0.3)
    error = raised_by(lambda: session.get("http://orders.svc/"))
    assert isinstance(error, requests.ConnectTimeout)
    report = report_of(error)
    assert report is not None
    assert report.of_phase("connect")


def test_the_callers_timeout_stands(session: requests.Session, silent: int) -> None:
    mounted(session, f"static://127.0.0.1:{silent}")
    with pytest.raises(requests.ConnectTimeout, match=r"timeout=0.2"):
        session.get("http://orders.svc/", timeout=(0.2, PATIENCE))


def test_refused_and_unknown_are_connection_errors(
    session: requests.Session, refusing: int
) -> None:
    mounted(session, f"static://127.0.0.1:{refusing}", connect_timeout=0.3)
    error = raised_by(lambda: session.get("http://orders.svc/"))
    assert isinstance(error, requests.ConnectionError)
    assert report_of(error) is not None
    with pytest.raises(requests.ConnectionError, match=r"resolve|not known"):
        session.get("http://no-such-name.invalid/")


def test_the_read_timeout_is_requests_own(session: requests.Session, site: Site) -> None:
    mounted(session, f"static://127.0.0.1:{site.port}")
    with pytest.raises(requests.ReadTimeout):
        session.get("http://orders.svc/mute", timeout=(PATIENCE, 0.1))


def test_a_block_decides_too(session: requests.Session, silent: int) -> None:
    mounted(session, f"static://127.0.0.1:{silent}")
    with outlast.override(connect_timeout=0.2), pytest.raises(requests.ConnectTimeout):
        session.get("http://orders.svc/")


@pytest.mark.skipif(not LINUX, reason="option numbers of Linux")
@pytest.mark.incident("FR-80")
def test_fr80_keepalive_is_on_with_one_line(session: requests.Session, site: Site) -> None:
    mounted(session, f"static://127.0.0.1:{site.port}")
    with session.get("http://orders.svc/", stream=True) as response:
        assert is_ours(socket_of(response))


@pytest.mark.skipif(not LINUX, reason="option numbers of Linux")
@pytest.mark.incident("FR-79")
def test_fr79_options_of_the_callers_stand_on_every_socket(site: Site) -> None:
    class Tuned(OutlastAdapter):
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, 4, 77)]
            super().init_poolmanager(*args, socket_options=options, **kwargs)

    adapter = Tuned()
    with requests.Session() as session:
        session.mount("http://", adapter)
        for _ in range(2):
            with session.get(f"http://127.0.0.1:{site.port}/", stream=True) as response:
                assert keepalive(socket_of(response))[:2] == (1, 77)
                assert socket_of(response).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
            adapter.close()
    assert len(site.accepted) == 2


def test_the_adapter_can_be_pickled(session: requests.Session, site: Site) -> None:
    target = f"static://127.0.0.1:{site.port}"
    adapter = pickle.loads(pickle.dumps(mounted(session, target, connect_timeout=2)))
    session.mount("http://", adapter)
    assert session.get("http://orders.svc/").ok
    assert adapter.policy == Policy(connect_timeout=2)


def test_a_connection_to_an_endpoint_that_is_dead_is_not_used_again(
    session: requests.Session, site: Site
) -> None:
    with serving(http) as other:
        target = both(site.port, other.port)
        mounted(session, target)
        assert session.get("http://orders.svc/").ok
        first = site if site.accepted else other
        declare_dead(target, first.port)
        assert session.get("http://orders.svc/").ok
        assert [len(site.accepted), len(other.accepted)] == [1, 1]


@pytest.mark.skipif(not LINUX, reason="needs a socket filter")
def test_a_read_without_a_timeout_ends_when_the_peer_is_dead(
    session: requests.Session, site: Site
) -> None:
    mounted(session, f"static://127.0.0.1:{site.port}", user_timeout=1, keepalive=None)
    assert session.get("http://orders.svc/").ok
    go_dead(site.accepted[0])
    error = raised_by(lambda: session.post("http://orders.svc/", data=b"x"))
    assert isinstance(error, (requests.ConnectionError, requests.ReadTimeout))  # as ETIMEDOUT is
    assert session.get("http://orders.svc/").ok


def test_tls_verifies_the_name_that_was_written(
    session: requests.Session,
    served_as: ssl.SSLContext,
    authority: trustme.CA,
    tmp_path: Path,
) -> None:
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    with serving(http, served_as) as secure:
        target = f"static://127.0.0.1:{secure.port}"
        mounted(session, target)
        assert session.get("https://orders.svc/a", verify=str(bundle)).text == "GET /a HTTP/1.1"
        session.mount("https://", OutlastAdapter(targets={"others.svc:443": target}))
        with pytest.raises(requests.exceptions.SSLError, match=r"others.svc"):
            session.get("https://others.svc/", verify=str(bundle))


def test_a_proxy_is_dialled_like_anybody(
    session: requests.Session, site: Site, silent: int
) -> None:
    adapter = OutlastAdapter(targets={"proxy.svc:3128": both(silent, site.port)})
    session.mount("http://", adapter)
    session.proxies = {"http": "http://proxy.svc:3128"}
    assert session.get("http://orders.svc/a").text == "GET http://orders.svc/a HTTP/1.1"


def test_a_tunnel_through_a_proxy(
    session: requests.Session,
    site: Site,
    served_as: ssl.SSLContext,
    authority: trustme.CA,
    tmp_path: Path,
) -> None:
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    with serving(http, served_as) as secure:
        session.mount("https://", OutlastAdapter(targets={"proxy.svc:3128": both_of(site)}))
        session.proxies = {"https": "http://proxy.svc:3128"}
        url = f"https://orders.svc:{secure.port}/a"
        assert session.get(url, verify=str(bundle)).text == "GET /a HTTP/1.1"
        session.close()


def both_of(site: Site) -> str:
    return f"static://127.0.0.1:{site.port}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"targets": ["orders.svc:80"]}, "targets: .* maps nothing"),
        ({"targets": {"orders.svc:80": "ftp://x"}}, "unknown scheme"),
        ({"policy": {"attempts": 2}}, "policy: .* is no outlast.Policy"),
    ],
)
def test_what_is_malformed_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        OutlastAdapter(**arguments)


def test_retries_are_requests_own(session: requests.Session, refusing: int) -> None:
    ports = {"orders.svc:80": f"static://127.0.0.1:{refusing}"}
    session.mount("http://", OutlastAdapter(max_retries=2, targets=ports, policy=SOON))
    with pytest.raises(requests.ConnectionError, match="Max retries exceeded"):
        session.get("http://orders.svc/")


PROGRAM = """
import os, sys, requests
from outlast.shims.adapters.requests import OutlastAdapter
session = requests.Session()
session.trust_env = False
session.mount("http://", OutlastAdapter())
base = f"http://127.0.0.1:{sys.argv[1]}"
assert session.get(f"{base}/parent").ok
children = []
for _ in range(2):
    children.append(os.fork())
    if not children[-1]:
        children = []
        break
mine = f"{os.getpid()}"
for number in range(50):
    text = session.get(f"{base}/{mine}-{number}").text
    assert text == f"GET /{mine}-{number} HTTP/1.1", text
for child in children:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.skipif(not LINUX, reason="forks")
@pytest.mark.incident("FR-72")
def test_fr72_replies_match_their_requests(site: Site) -> None:
    """Parent and children share a session, and never a connection."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(site.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(site.accepted) == 3, "one for each process"
