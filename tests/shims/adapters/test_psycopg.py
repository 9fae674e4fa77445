"""psycopg 3 over our sockets, sync and async: what it takes and raises is its own."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trustme

from outlast import Policy, report_of
from outlast.shims.adapters.libpq import hosts_of
from outlast.shims.adapters.psycopg import OutlastAsyncConnection, OutlastConnection
from tests.net.pairs import PATIENCE, keepalive, user_timeout
from tests.shims.adapters.conftest import SOON
from tests.shims.adapters.looks import LINUX, both, is_ours, opened
from tests.shims.adapters.postgres_site import database
from tests.shims.adapters.site import Site, go_dead, serving, wait_for_end

BASE = "host=db.svc user=u dbname=d sslmode=disable"
pytestmark = pytest.mark.skipif(not LINUX, reason="needs socket filters and option numbers")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """psycopg knows asyncio only."""
    return "asyncio", {"debug": True}


@pytest.fixture
def db() -> Iterator[Site]:
    """A PostgreSQL server."""
    with database() as made:
        yield made


def alone(port: int) -> dict[str, str]:
    return {"db.svc:5432": f"static://127.0.0.1:{port}"}


def connect(conninfo: str = BASE, **kwargs: Any) -> OutlastConnection[Any]:
    return OutlastConnection.connect(conninfo, autocommit=True, **kwargs)


def seven(connection: psycopg.Connection[Any]) -> Any:
    return connection.execute("select 7").fetchone()


def test_a_silent_endpoint_costs_a_moment(db: Site, silent: int) -> None:
    for _ in range(3):
        with connect(targets={"db.svc:5432": both(silent, db.port)}) as made:
            assert seven(made) == (7,)
            told = made.info
            assert (told.host, told.hostaddr, told.port) == ("db.svc", "127.0.0.1", db.port)
            assert is_ours(made)


def test_where_sockets_are_no_descriptors_libpq_dials_what_has_answered(
    db: Site, silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.shims.adapters.psycopg.DESCRIPTORS", False)
    with connect(targets={"db.svc:5432": both(silent, db.port)}) as made:
        assert seven(made) == (7,)
        assert made.info.port == db.port
        assert is_ours(made), "keepalive of the system's gives way"


def test_a_connection_class_of_the_callers(db: Site) -> None:
    class Mine(OutlastConnection[Any]):
        pass

    with Mine.connect(BASE, targets=alone(db.port), row_factory=psycopg.rows.dict_row) as made:
        assert type(made) is Mine
        assert made.execute("select 7").fetchone() == {"n": 7}


def test_every_way_to_name_a_host(db: Site) -> None:
    for conninfo in (
        f"postgresql://u@127.0.0.1:{db.port}/d?sslmode=disable",
        f"host=127.0.0.1 port={db.port} user=u sslmode=disable",
        f"hostaddr=127.0.0.1 port={db.port} user=u sslmode=disable",
        f"host=db.svc hostaddr=127.0.0.1 port={db.port} user=u sslmode=disable",
    ):
        with connect(conninfo) as made:
            assert seven(made) == (7,)


def test_errors_are_psycopgs_and_carry_the_report(silent: int, refusing: int) -> None:
    with pytest.raises(psycopg.errors.ConnectionTimeout) as late:
        connect(targets=alone(silent), policy=SOON)
    with pytest.raises(psycopg.OperationalError, match="refused") as refused:
        connect(targets=alone(refusing), policy=SOON)
    for caught in (late, refused):
        report = report_of(caught.value)
        assert report is not None
        assert report.of_phase("connect")
    with pytest.raises(psycopg.OperationalError, match="no-such-name"):
        connect("host=no-such-name.invalid user=u")
    with pytest.raises(psycopg.ProgrammingError, match="no_such_option"):
        connect("host=db.svc no_such_option=1")


def test_the_servers_own_error_is_told_once() -> None:
    with database(refuses="password authentication failed") as db:
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            connect(targets=alone(db.port))
        assert len(db.accepted) <= 2, "libpq's own dial, which ends at once, and ours"


def test_a_server_that_hangs_up_is_left_for_another(db: Site) -> None:
    with serving(lambda sock: None) as gone:
        for _ in range(4):
            with connect(targets={"db.svc:5432": both(gone.port, db.port)}) as made:
                assert seven(made) == (7,)
    with serving(lambda sock: None) as gone:
        with pytest.raises(psycopg.OperationalError, match="closed the connection"):
            connect(targets=alone(gone.port))


def test_several_hosts_take_turns(db: Site, refusing: int) -> None:
    conninfo = f"host=127.0.0.1,127.0.0.1 port={refusing},{db.port} user=u sslmode=disable"
    with connect(conninfo) as made:
        assert seven(made) == (7,)
    with database(standby=True) as standby:
        ports = f"{db.port},{standby.port}"
        conninfo = f"host=127.0.0.1,127.0.0.1 port={ports} user=u sslmode=disable"
        for attribute, port in (("prefer-standby", standby.port), ("primary", db.port)):
            with connect(f"{conninfo} target_session_attrs={attribute}") as made:
                assert made.info.port == port


def test_what_the_caller_sets_of_the_socket_stands(db: Site) -> None:
    words = "keepalives_idle=60 keepalives_interval=10 keepalives_count=9 tcp_user_timeout=7000"
    with connect(f"{BASE} {words}", targets=alone(db.port)) as made, opened(made) as sock:
        assert keepalive(sock) == (1, 60, 10, 9)
        assert user_timeout(sock) == 7000
    with connect(f"{BASE} keepalives=0", targets=alone(db.port)) as made, opened(made) as sock:
        assert keepalive(sock)[0] == 0
    policy = Policy(keepalive=(9, 2, 3), watch=False)
    with connect(targets=alone(db.port), policy=policy) as made, opened(made) as sock:
        assert keepalive(sock) == (1, 9, 2, 3)
        assert user_timeout(sock) == 0


@pytest.mark.incident("FR-23")
def test_fr23_a_query_whose_server_is_lost_ends(db: Site) -> None:
    """No timeout is set anywhere; the kernel's verdict is psycopg's error, and the next works."""
    policy = Policy(user_timeout=1, keepalive=None)
    with connect(targets=alone(db.port), policy=policy) as made:
        for sock in db.accepted:
            go_dead(sock)
        with pytest.raises(psycopg.OperationalError):
            made.execute("select 'mute'")
        assert made.broken
    with connect(targets=alone(db.port), policy=policy) as made:
        assert seven(made) == (7,)


def test_tls_verifies_the_name_that_was_written(
    served_as: ssl.SSLContext, authority: trustme.CA, tmp_path: Path
) -> None:
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    with database(served_as) as db:
        port = f"static://127.0.0.1:{db.port}"
        targets = {"orders.svc:5432": port, "others.svc:5432": port}
        tail = f"user=u sslmode=verify-full sslrootcert={bundle}"
        with connect(f"host=orders.svc {tail}", targets=targets) as made:
            assert made.pgconn.ssl_in_use
            assert seven(made) == (7,)
        with pytest.raises(psycopg.OperationalError, match=r"others.svc"):
            connect(f"host=others.svc {tail}", targets=targets)
        with connect(f"host=orders.svc {tail} sslmode=prefer", targets=targets) as made:
            assert is_ours(made)


def test_a_unix_socket_is_left_to_psycopg(tmp_path: Path) -> None:
    with pytest.raises(psycopg.OperationalError, match="No such file"):
        connect(f"host={tmp_path} user=u")


@pytest.mark.parametrize(
    ("params", "hosts"),
    [
        ({"host": "a,b"}, [("a", 5432), ("b", 5432)]),
        ({"host": "a,b", "port": "1,"}, [("a", 1), ("b", 5432)]),
        ({"hostaddr": "10.0.0.1"}, [("10.0.0.1", 5432)]),
        ({"host": "a", "hostaddr": "10.0.0.1", "port": 7}, [("10.0.0.1", 7)]),
        ({"host": "a,b", "port": "1,2,3"}, []),
        ({"host": "/tmp"}, []),
        ({"host": "a", "service": "s"}, []),
        ({"host": "a", "port": "x"}, []),
        ({}, []),
    ],
)
def test_hosts_of_a_connection_string(params: dict[str, Any], hosts: list[tuple[str, int]]) -> None:
    assert [(host.dialled, host.port) for host in hosts_of(params)] == hosts


def test_the_environment_names_hosts_as_for_libpq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "a")
    monkeypatch.setenv("PGPORT", "7")
    assert [(host.dialled, host.port) for host in hosts_of({})] == [("a", 7)]
    monkeypatch.setenv("PGSERVICE", "s")
    assert hosts_of({}) == []


# --- async ------------------------------------------------------------------------------------


async def connect_async(conninfo: str = BASE, **kwargs: Any) -> OutlastAsyncConnection[Any]:
    return await OutlastAsyncConnection.connect(conninfo, autocommit=True, **kwargs)


@pytest.mark.anyio
async def test_async_a_silent_endpoint_costs_a_moment(db: Site, silent: int) -> None:
    for _ in range(3):
        made = await connect_async(targets={"db.svc:5432": both(silent, db.port)})
        async with made:
            cursor = await made.execute("select 7")
            assert await cursor.fetchone() == (7,)
            assert is_ours(made)


@pytest.mark.anyio
async def test_async_errors_are_psycopgs(silent: int, refusing: int) -> None:
    with pytest.raises(psycopg.errors.ConnectionTimeout) as caught:
        await connect_async(targets=alone(silent), policy=SOON)
    assert report_of(caught.value) is not None
    with pytest.raises(psycopg.OperationalError, match="refused"):
        await connect_async(targets=alone(refusing), policy=SOON)


@pytest.mark.anyio
async def test_async_a_server_that_hangs_up_is_left_for_another(db: Site) -> None:
    with serving(lambda sock: None) as gone:
        for _ in range(4):
            made = await connect_async(targets={"db.svc:5432": both(gone.port, db.port)})
            await made.close()


@pytest.mark.anyio
async def test_async_side_by_side(db: Site) -> None:
    """What is offered is offered to one task alone."""
    with database() as other:
        made = await asyncio.gather(
            *(connect_async(targets=alone(site.port)) for site in (db, other) * 5)
        )
        ports = [each.info.port for each in made]
        assert ports == [db.port, other.port] * 5
        for each in made:
            await each.close()


@pytest.mark.anyio
@pytest.mark.parametrize("step", ["dial", "startup"])
async def test_async_a_cancelled_connect_leaves_nothing_open(silent: int, step: str) -> None:
    """The guards look for sockets that outlive the test."""
    with serving(wait_for_end) as mute:
        task = asyncio.ensure_future(
            connect_async(targets=alone(silent if step == "dial" else mute.port))
        )
        done, _ = await asyncio.wait([task], timeout=0.1)
        assert not done
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


# --- the server that these tests talk to is no dream ------------------------------------------


def test_plain_psycopg_is_content_with_the_site(db: Site) -> None:
    plain: Callable[..., Any] = functools.partial(psycopg.connect, connect_timeout=int(PATIENCE))
    with plain(f"host=127.0.0.1 port={db.port} user=u", autocommit=True) as made:
        assert seven(made) == (7,)
