"""asyncpg over our sockets, also on uvloop: what it takes and raises is its own."""

from __future__ import annotations

import asyncio
import importlib.util
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import trustme

from outlast import Policy, report_of
from outlast.shims.adapters import asyncpg as adapter
from tests.net.pairs import PATIENCE
from tests.shims.adapters.conftest import SOON
from tests.shims.adapters.looks import LINUX, both, is_ours
from tests.shims.adapters.postgres_site import database
from tests.shims.adapters.site import Site, go_dead, serving, wait_for_end

LOOPS = [pytest.param({"debug": True}, id="asyncio")]
if importlib.util.find_spec("uvloop") is not None:
    LOOPS.append(pytest.param({"use_uvloop": True}, id="uvloop"))

pytestmark = pytest.mark.anyio
WHO: dict[str, Any] = {"user": "u", "database": "d", "ssl": False}


@pytest.fixture(params=LOOPS)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """asyncpg knows asyncio only."""
    return "asyncio", request.param


@pytest.fixture
def db() -> Iterator[Site]:
    """A PostgreSQL server."""
    with database() as made:
        yield made


def alone(port: int) -> dict[str, str]:
    return {"db.svc:5432": f"static://127.0.0.1:{port}"}


async def connect(targets: dict[str, str], **kwargs: Any) -> Any:
    return await adapter.connect(**{"host": "db.svc", **WHO, "targets": targets, **kwargs})


def transport_of(connection: Any) -> Any:
    return connection._transport.get_extra_info("socket")


async def test_a_silent_endpoint_costs_a_moment(db: Site, silent: int) -> None:
    for _ in range(3):
        made = await connect({"db.svc:5432": both(silent, db.port)})
        assert await made.execute("select 7") == "SELECT 1"
        if LINUX:
            assert is_ours(transport_of(made))
        await made.close()
    assert len(db.accepted) == 3


async def test_a_dsn_names_the_host(db: Site) -> None:
    made = await adapter.connect(f"postgresql://u@127.0.0.1:{db.port}/d?sslmode=disable")
    assert await made.execute("select 7") == "SELECT 1"
    await made.close()


async def test_errors_are_asyncpgs_and_the_systems(silent: int, refusing: int) -> None:
    with pytest.raises(TimeoutError) as late:
        await connect(alone(silent), policy=SOON)
    with pytest.raises(ConnectionRefusedError) as refused:
        await connect(alone(refusing), policy=SOON)
    for caught in (late, refused):
        assert report_of(caught.value) is not None
    with pytest.raises((TimeoutError, asyncio.TimeoutError)):
        await connect(alone(silent), timeout=0.1)
    with database(refuses="password authentication failed") as db:
        with pytest.raises(asyncpg.InvalidPasswordError):
            await connect(alone(db.port))
        assert len(db.accepted) == 1, "nobody asks twice"


async def test_a_server_that_hangs_up_is_left_for_another(db: Site) -> None:
    with serving(lambda sock: None) as gone:
        for _ in range(4):
            made = await connect({"db.svc:5432": both(gone.port, db.port)})
            await made.close()
        with pytest.raises((asyncpg.ConnectionDoesNotExistError, ConnectionError)):
            await connect(alone(gone.port))


async def test_several_hosts_take_turns(db: Site, refusing: int) -> None:
    made = await connect({}, host=["127.0.0.1"] * 2, port=[refusing, db.port])
    await made.close()


async def test_a_pool(db: Site, silent: int) -> None:
    targets = {"db.svc:5432": both(silent, db.port)}
    async with adapter.create_pool(
        host="db.svc", **WHO, targets=targets, min_size=2, max_size=2
    ) as pool:
        async with pool.acquire() as made:
            assert await made.execute("select 7") == "SELECT 1"
    with pytest.raises(ValueError, match="connect"):
        adapter.create_pool(connect=adapter.connect)


@pytest.mark.skipif(not LINUX, reason="needs a socket filter")
@pytest.mark.incident("FR-23")
async def test_fr23_a_query_whose_server_is_lost_ends(db: Site) -> None:
    made = await connect(alone(db.port), policy=Policy(user_timeout=1, keepalive=None))
    go_dead(db.accepted[0])
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await made.execute("select 'mute'")
    assert made.is_closed()
    made = await connect(alone(db.port))
    assert await made.execute("select 7") == "SELECT 1"
    await made.close()


async def test_a_cancel_goes_to_the_server_that_runs_the_query() -> None:
    here, there = threading.Event(), threading.Event()
    with database(cancelled=here) as one, database(cancelled=there) as two:
        events = {one.port: here, two.port: there}
        for _ in range(4):
            made = await connect({"db.svc:5432": both(one.port, two.port)})
            with pytest.raises((TimeoutError, asyncio.TimeoutError)):
                await made.execute("select 'mute'", timeout=0.05)
            port = transport_of(made).getpeername()[1]
            assert await asyncio.to_thread(events[port].wait, PATIENCE)
            events[port].clear()
            assert not any(event.is_set() for event in events.values())
            made.terminate()


async def test_tls_verifies_the_name_that_was_written(
    served_as: ssl.SSLContext, trusting: ssl.SSLContext, authority: trustme.CA, tmp_path: Path
) -> None:
    with database(served_as) as db:
        port = f"static://127.0.0.1:{db.port}"
        targets = {"orders.svc:5432": port, "others.svc:5432": port}
        made = await connect(targets, host="orders.svc", ssl=trusting)
        assert await made.execute("select 7") == "SELECT 1"
        await made.close()
        with pytest.raises(ssl.SSLCertVerificationError, match=r"others.svc"):
            await connect(targets, host="others.svc", ssl=trusting)


@pytest.mark.parametrize("step", ["dial", "startup"])
async def test_a_cancelled_connect_leaves_nothing_open(silent: int, step: str) -> None:
    """The guards look for sockets that outlive the test."""
    with serving(wait_for_end) as mute:
        port = silent if step == "dial" else mute.port
        task = asyncio.ensure_future(connect(alone(port)))
        done, _ = await asyncio.wait([task], timeout=0.1)
        assert not done
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
