"""redis-py over our sockets, sync and async: what it takes and raises is its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
import trustme

from outlast import Policy
from outlast.shims.adapters import redis as adapter
from tests.net.pairs import PATIENCE, keepalive, user_timeout
from tests.shims.adapters.conftest import SOON
from tests.shims.adapters.looks import LINUX, both, declare_dead, is_ours
from tests.shims.adapters.redis_site import redis as talk
from tests.shims.adapters.site import Site, go_dead, serving


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """redis-py knows asyncio only."""
    return "asyncio", {"debug": True}


@pytest.fixture
def store() -> Iterator[Site]:
    """A Redis server."""
    with serving(talk) as made:
        yield made


def alone(site: Site) -> dict[str, str]:
    return {"db.svc:6379": f"static://127.0.0.1:{site.port}"}


@contextlib.contextmanager
def client(targets: dict[str, str], **kwargs: Any) -> Iterator[Any]:
    """A sync client of db.svc."""
    kind = adapter.OutlastSSLConnection if "ssl_ca_certs" in kwargs else adapter.OutlastConnection
    kwargs.setdefault("retry", redis.retry.Retry(redis.backoff.NoBackoff(), 0))
    pool = redis.ConnectionPool(
        connection_class=kind, **{"host": "db.svc", "targets": targets, "protocol": 2, **kwargs}
    )
    made = redis.Redis(connection_pool=pool)
    try:
        yield made
    finally:
        pool.disconnect()


@contextlib.asynccontextmanager
async def async_client(targets: dict[str, str], **kwargs: Any) -> AsyncIterator[Any]:
    """An async client of db.svc."""
    secure = "ssl_ca_certs" in kwargs
    kind = adapter.OutlastAsyncSSLConnection if secure else adapter.OutlastAsyncConnection
    kwargs.setdefault("retry", redis.asyncio.retry.Retry(redis.backoff.NoBackoff(), 0))
    pool: Any = redis.asyncio.ConnectionPool(
        connection_class=kind, **{"host": "db.svc", "targets": targets, "protocol": 2, **kwargs}
    )
    made = redis.asyncio.Redis(connection_pool=pool)
    try:
        yield made
    finally:
        await pool.disconnect()


def sockets(pool: Any) -> list[Any]:
    """Of the idle connections."""
    found = []
    for each in pool._available_connections:
        writer = getattr(each, "_writer", None)
        found.append(each._sock if writer is None else writer.get_extra_info("socket"))
    return found


# --- sync -------------------------------------------------------------------------------------


def test_a_silent_endpoint_costs_a_moment(store: Site, silent: int) -> None:
    with client({"db.svc:6379": both(silent, store.port)}, socket_timeout=2) as made:
        for _ in range(3):
            assert made.echo("a") == b"a"
        (sock,) = sockets(made.connection_pool)
        assert sock.gettimeout() == 2
        if LINUX:
            assert is_ours(sock)
    assert len(store.accepted) == 1


def test_a_url_with_a_class(store: Site) -> None:
    made: Any = redis.Redis.from_url(
        f"redis://127.0.0.1:{store.port}/0?socket_keepalive=yes",
        connection_class=adapter.OutlastConnection,
        policy=Policy(connect_timeout=2),
        protocol=2,
    )
    assert made.ping()
    made.connection_pool.disconnect()


def test_errors_are_redis_own(silent: int, refusing: int) -> None:
    with client({"db.svc:6379": f"static://127.0.0.1:{silent}"}, policy=SOON) as made:
        with pytest.raises(redis.TimeoutError, match="Timeout connecting"):
            made.ping()
    with client({"db.svc:6379": f"static://127.0.0.1:{refusing}"}, policy=SOON) as made:
        with pytest.raises(redis.ConnectionError, match="refused"):
            made.ping()
    with client({}, host="no-such-name.invalid") as made, pytest.raises(redis.ConnectionError):
        made.ping()


@pytest.mark.incident("FR-08")
def test_fr08_a_limit_of_one_second_is_one_second_every_time(store: Site, silent: int) -> None:
    """Connecting and reading, however the other end is lost; a fifth of a second here."""
    limits: dict[str, Any] = {"socket_timeout": 0.2, "socket_connect_timeout": 0.2}
    targets = {"db.svc:6379": f"static://127.0.0.1:{silent}", **renamed(store)}
    with client(targets, **limits) as lost, client(targets, host="mute.svc", **limits) as mute:
        for made, call in ((lost, "ping"), (mute, "blpop")) * 2:
            began = time.monotonic()
            with pytest.raises(redis.TimeoutError):
                getattr(made, call)(*["key"] * (call == "blpop"))
            assert 0.19 < time.monotonic() - began < 1.5


def renamed(site: Site) -> dict[str, str]:
    return {"mute.svc:6379": f"static://127.0.0.1:{site.port}"}


@pytest.mark.skipif(not LINUX, reason="needs a socket filter")
@pytest.mark.incident("FR-21")
@pytest.mark.incident("FR-22")
def test_fr21_fr22_a_blocking_pop_without_a_timeout_ends(store: Site) -> None:
    policy = Policy(user_timeout=1, keepalive=(1, 1, 1))
    with client(alone(store), policy=policy, socket_timeout=None) as made:
        assert made.ping()
        go_dead(store.accepted[0])
        with pytest.raises((redis.ConnectionError, redis.TimeoutError)):
            made.blpop("key")
        assert made.ping(), "the next call has a connection of its own"


@pytest.mark.incident("FR-22")
def test_fr22_an_option_that_nobody_knows_is_refused() -> None:
    with client({}, socket_keepaliv=True) as made, pytest.raises(TypeError, match="keepaliv"):
        made.ping()
    with client({}, socket_type=2) as made, pytest.raises(ValueError, match="socket_type"):
        made.ping()


@pytest.mark.skipif(not LINUX, reason="option numbers of Linux")
def test_keepalive_that_the_caller_has_set_stands(store: Site) -> None:
    options = {4: 60, 5: 10, 6: 9}
    arguments = {"socket_keepalive": True, "socket_keepalive_options": options}
    with client(alone(store), **arguments) as made:
        made.ping()
        (sock,) = sockets(made.connection_pool)
        assert keepalive(sock) == (1, 60, 10, 9)
        assert user_timeout(sock) == 150_000, "never shorter than the probes"
    with client(alone(store), socket_keepalive=False) as made:
        made.ping()
        assert keepalive(sockets(made.connection_pool)[0])[0] == 0
    with client(alone(store), policy=Policy(keepalive=None)) as made:
        made.ping()
        assert keepalive(sockets(made.connection_pool)[0])[0] == 0


def test_a_connection_to_an_endpoint_that_is_dead_is_not_used_again(store: Site) -> None:
    with serving(talk) as other:
        target = both(store.port, other.port)
        with client({"db.svc:6379": target}) as made:
            assert made.ping()
            declare_dead(target, (store if store.accepted else other).port)
            assert made.ping()
        assert [len(store.accepted), len(other.accepted)] == [1, 1]


def test_tls_verifies_the_name_that_was_written(
    served_as: ssl.SSLContext, authority: trustme.CA, tmp_path: Path
) -> None:
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    with serving(talk, served_as) as secure:
        port = f"static://127.0.0.1:{secure.port}"
        targets = {"orders.svc:6379": port, "others.svc:6379": port}
        made: dict[str, Any] = {"ssl_ca_certs": str(bundle), "ssl_check_hostname": True}
        with client(targets, host="orders.svc", **made) as named:
            assert named.echo("a") == b"a"
        with client(targets, host="others.svc", **made) as named:
            with pytest.raises(redis.ConnectionError, match=r"others.svc"):
                named.ping()


# --- async ------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_async_a_silent_endpoint_costs_a_moment(store: Site, silent: int) -> None:
    async with async_client({"db.svc:6379": both(silent, store.port)}) as made:
        for _ in range(3):
            assert await made.echo("a") == b"a"
        if LINUX:
            assert is_ours(sockets(made.connection_pool)[0])
    assert len(store.accepted) == 1


@pytest.mark.anyio
async def test_async_errors_are_redis_own(silent: int, refusing: int) -> None:
    targets = {"db.svc:6379": f"static://127.0.0.1:{silent}"}
    async with async_client(targets, policy=SOON) as made:
        with pytest.raises(redis.TimeoutError, match="Timeout connecting"):
            await made.ping()
    async with async_client(targets, socket_connect_timeout=0.1) as made:
        with pytest.raises(redis.TimeoutError, match="Timeout connecting"):
            await made.ping()
    async with async_client({"db.svc:6379": f"static://127.0.0.1:{refusing}"}) as made:
        with pytest.raises(redis.ConnectionError, match="refused"):
            await made.ping()


@pytest.mark.skipif(not LINUX, reason="option numbers of Linux")
@pytest.mark.anyio
async def test_async_keepalive_that_the_caller_has_set_stands(store: Site) -> None:
    arguments = {"socket_keepalive": True, "socket_keepalive_options": {4: 60, 5: 10, 6: 9}}
    async with async_client(alone(store), **arguments) as made:
        await made.ping()
        assert keepalive(sockets(made.connection_pool)[0]) == (1, 60, 10, 9)


@pytest.mark.anyio
async def test_async_dead_endpoints_are_left(store: Site) -> None:
    with serving(talk) as other:
        target = both(store.port, other.port)
        async with async_client({"db.svc:6379": target}) as made:
            assert await made.ping()
            declare_dead(target, (store if store.accepted else other).port)
            assert await made.ping()
        assert [len(store.accepted), len(other.accepted)] == [1, 1]


@pytest.mark.anyio
async def test_async_tls_verifies_the_name_that_was_written(
    served_as: ssl.SSLContext, authority: trustme.CA, tmp_path: Path
) -> None:
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    with serving(talk, served_as) as secure:
        port = f"static://127.0.0.1:{secure.port}"
        targets = {"orders.svc:6379": port, "others.svc:6379": port}
        made: dict[str, Any] = {"ssl_ca_certs": str(bundle), "ssl_check_hostname": True}
        async with async_client(targets, host="orders.svc", **made) as named:
            assert await named.echo("a") == b"a"
        async with async_client(targets, host="others.svc", **made) as named:
            with pytest.raises(redis.ConnectionError, match=r"others.svc"):
                await named.ping()


@pytest.mark.anyio
async def test_async_a_cancelled_connect_leaves_nothing_open(silent: int) -> None:
    """The guards look for sockets that outlive the test."""
    async with async_client({"db.svc:6379": f"static://127.0.0.1:{silent}"}) as made:
        task = asyncio.ensure_future(made.ping())
        done, _ = await asyncio.wait([task], timeout=0.1)
        assert not done
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.anyio
@pytest.mark.incident("FR-70")
async def test_fr70_no_reply_reaches_another_caller(store: Site) -> None:
    """A call that is cancelled between request and reply takes its connection with it."""
    async with async_client(alone(store), max_connections=1) as made:
        for number in range(20):
            task = asyncio.ensure_future(made.echo(f"lost {number}"))
            for _ in range(number):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, PATIENCE)
            assert await made.echo(f"kept {number}") == f"kept {number}".encode()


def test_a_socket_of_ours_is_a_plain_one(store: Site) -> None:
    with client(alone(store)) as made:
        made.ping()
        assert type(sockets(made.connection_pool)[0]) is socket.socket
