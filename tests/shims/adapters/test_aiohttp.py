"""aiohttp over our sockets, also on uvloop: what it takes and raises is its own."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver

import outlast
from outlast import Policy, report_of
from outlast.shims.adapters.aiohttp import OutlastConnector
from tests.net.pairs import PATIENCE
from tests.shims.adapters.conftest import SOON
from tests.shims.adapters.looks import LINUX, both, declare_dead, is_ours
from tests.shims.adapters.site import Site, go_dead, http, serving

LOOPS = [pytest.param({"debug": True}, id="asyncio")]
if importlib.util.find_spec("uvloop") is not None:
    LOOPS.append(pytest.param({"use_uvloop": True}, id="uvloop"))

pytestmark = pytest.mark.anyio


@pytest.fixture(params=LOOPS)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """aiohttp knows asyncio only."""
    return "asyncio", request.param


@contextlib.asynccontextmanager
async def session(targets: dict[str, str], **kwargs: Any) -> AsyncIterator[aiohttp.ClientSession]:
    """A session over our connector."""
    timeout = kwargs.pop("timeout", aiohttp.ClientTimeout())
    connector = OutlastConnector(targets=targets, **kwargs)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as made:
        yield made


async def asked(made: aiohttp.ClientSession, url: str = "http://orders.svc/a", **more: Any) -> str:
    async with made.get(url, **more) as response:
        return await response.text()


def alone(port: int) -> dict[str, str]:
    return {"orders.svc:80": f"static://127.0.0.1:{port}"}


def sockets(connector: Any) -> list[Any]:
    """Of the idle connections."""
    idle = [entry[0] for entries in connector._conns.values() for entry in entries]
    return [each.transport.get_extra_info("socket") for each in idle]


@pytest.mark.incident("FR-04")
async def test_fr04_a_silent_endpoint_costs_a_moment(site: Site, silent: int) -> None:
    timeout = aiohttp.ClientTimeout(sock_connect=3)
    async with session({"orders.svc:80": both(silent, site.port)}, timeout=timeout) as made:
        for _ in range(3):
            assert await asked(made) == "GET /a HTTP/1.1"
        if LINUX:
            assert is_ours(sockets(made.connector)[0])
    assert len(site.accepted) == 1


async def test_timeouts_are_aiohttps(site: Site, silent: int) -> None:
    short = aiohttp.ClientTimeout(sock_connect=0.2, sock_read=0.2)
    targets = {**alone(site.port), "mute.svc:80": f"static://127.0.0.1:{silent}"}
    async with session(targets, timeout=short) as made:
        with pytest.raises(aiohttp.ConnectionTimeoutError):
            await asked(made, "http://mute.svc/")
        with pytest.raises(aiohttp.SocketTimeoutError):
            await asked(made, "http://orders.svc/mute")


async def test_without_any_timeout_a_connect_ends(silent: int) -> None:
    async with session(alone(silent), policy=SOON) as made:
        with pytest.raises(aiohttp.ConnectionTimeoutError) as caught:
            await asked(made)
        assert report_of(caught.value.__cause__) is not None
        with outlast.override(connect_timeout=0.1):
            with pytest.raises(aiohttp.ConnectionTimeoutError):
                await asked(made)


async def test_refused_and_unknown_are_aiohttps_errors(refusing: int) -> None:
    async with session(alone(refusing), policy=SOON) as made:
        with pytest.raises(aiohttp.ClientConnectorError) as caught:
            await asked(made)
        assert isinstance(caught.value.os_error, ConnectionRefusedError)
        assert report_of(caught.value) is not None
        with pytest.raises(aiohttp.ClientConnectorDNSError):
            await asked(made, "http://no-such-name.invalid/")


async def test_the_local_address(site: Site) -> None:
    async with session(alone(site.port), local_addr=("127.0.0.2", 0)) as made:
        await asked(made)
    assert site.peers == ["127.0.0.2"]


async def test_a_connection_to_an_endpoint_that_is_dead_is_not_used_again(site: Site) -> None:
    with serving(http) as other:
        target = both(site.port, other.port)
        async with session({"orders.svc:80": target}) as made:
            await asked(made)
            declare_dead(target, (site if site.accepted else other).port)
            await asked(made)
        assert [len(site.accepted), len(other.accepted)] == [1, 1]


@pytest.mark.skipif(not LINUX, reason="needs a socket filter")
async def test_a_read_without_a_timeout_ends_when_the_peer_is_dead(site: Site) -> None:
    policy = Policy(user_timeout=1, keepalive=None)
    async with session(alone(site.port), policy=policy) as made:
        await asked(made)
        go_dead(site.accepted[0])
        with pytest.raises(aiohttp.ClientError):
            async with made.post("http://orders.svc/", data=b"x") as response:
                await response.text()
        assert await asked(made) == "GET /a HTTP/1.1"


async def test_tls_verifies_the_name_that_was_written(
    served_as: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    with serving(http, served_as) as secure:
        target = f"static://127.0.0.1:{secure.port}"
        targets = {"orders.svc:443": target, "others.svc:443": target}
        async with session(targets, ssl=trusting) as made:
            assert await asked(made, "https://orders.svc/a") == "GET /a HTTP/1.1"
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await asked(made, "https://others.svc/a")
            given = {"server_hostname": "orders.svc"}
            assert await asked(made, "https://others.svc/a", **given) == "GET /a HTTP/1.1"
        with serving(http) as plain:
            async with session({"orders.svc:443": f"static://127.0.0.1:{plain.port}"}) as made:
                with pytest.raises(aiohttp.ConnectionTimeoutError):
                    await asked(made, "https://orders.svc/a", timeout=SHORT)


SHORT = aiohttp.ClientTimeout(sock_connect=0.3)


# aiohttp warns of uvloop's transports on Python 3.10, which can do it all the same.
@pytest.mark.filterwarnings("ignore:An HTTPS request is being sent:RuntimeWarning")
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_is_dialled_like_anybody(
    site: Site, silent: int, served_as: ssl.SSLContext, trusting: ssl.SSLContext, scheme: str
) -> None:
    with serving(http, served_as) as secure:
        targets = {"proxy.svc:3128": both(silent, site.port)}
        async with session(targets, ssl=trusting) as made:
            url = f"{scheme}://orders.svc:{secure.port}/a"
            for _ in range(2):
                assert "/a HTTP/1.1" in await asked(made, url, proxy="http://proxy.svc:3128")
    assert len(site.accepted) == 1


class Known(AbstractResolver):
    """Knows one name."""

    def __init__(self, *ports: int) -> None:
        self.ports = ports
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> Any:
        self.asked.append(host)
        told = {"hostname": host, "host": "127.0.0.1", "family": socket.AF_INET}
        return [{**told, "port": each, "proto": 0, "flags": 0} for each in self.ports]

    async def close(self) -> None:
        self.asked.append("close")


async def test_a_resolver_of_the_callers_is_asked(site: Site, silent: int) -> None:
    known = Known(silent, site.port)
    targets = {"mapped.svc:80": f"static://127.0.0.1:{site.port}"}
    async with session(targets, resolver=known, force_close=True) as made:
        assert await asked(made) == "GET /a HTTP/1.1"
        assert await asked(made, "http://mapped.svc/a") == "GET /a HTTP/1.1"
    assert known.asked == ["orders.svc"], "and it stays open"


async def test_a_family_is_the_callers(site: Site) -> None:
    async with session({}, family=socket.AF_INET) as made:
        url = f"http://localhost:{site.port}/a"
        assert await asked(made, url) == "GET /a HTTP/1.1"


@pytest.mark.parametrize("delay", [None, 0.3])
async def test_the_delay_of_the_callers(site: Site, silent: int, delay: float | None) -> None:
    """None is no race: with one dial open at a time the silent endpoint costs a second."""
    target = both(silent, site.port)
    async with session({"orders.svc:80": target}, happy_eyeballs_delay=delay) as made:
        assert made.connector.dialler.policy == Policy(  # type: ignore[union-attr]  # it is ours
            **({"open_attempts": 1} if delay is None else {"attempt_delay": 0.3})
        )
        assert await asked(made) == "GET /a HTTP/1.1"


@pytest.mark.parametrize("name", ["socket_factory", "interleave"])
async def test_what_cannot_be_kept_is_refused(name: str) -> None:
    arguments: dict[str, Any] = {name: 1}
    with pytest.raises(ValueError, match=name):
        OutlastConnector(**arguments)


async def test_a_cancelled_connect_leaves_nothing_open(silent: int) -> None:
    """The guards look for sockets that outlive the test."""
    async with session(alone(silent)) as made:
        task = asyncio.ensure_future(asked(made))
        done, _ = await asyncio.wait([task], timeout=0.1)
        assert not done
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_traces_are_told(site: Site) -> None:
    told: list[str] = []

    async def tell(*arguments: Any) -> None:
        told.append(type(arguments[2]).__name__)

    config = aiohttp.TraceConfig()
    config.on_connection_create_end.append(tell)
    config.on_connection_reuseconn.append(tell)
    connector = OutlastConnector(targets=alone(site.port))
    async with aiohttp.ClientSession(connector=connector, trace_configs=[config]) as made:
        for _ in range(2):
            await asyncio.wait_for(asked(made), PATIENCE)
    assert told == ["TraceConnectionCreateEndParams", "TraceConnectionReuseconnParams"]
