"""SQLAlchemy over our sockets: by adapter, by socket, or watched only, as its driver allows."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import socket
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from outlast import Policy
from outlast.shims.adapters.sqlalchemy import protect, socket_of
from tests.net.pairs import PATIENCE
from tests.shims.adapters import mysql_site, postgres_site
from tests.shims.adapters.conftest import SOON
from tests.shims.adapters.looks import LINUX, both, declare_dead, is_ours
from tests.shims.adapters.site import Site, go_dead

pytestmark = pytest.mark.skipif(not LINUX, reason="needs socket filters and option numbers")
DRIVERS = {
    "postgresql+psycopg": (postgres_site, 5432),
    "postgresql+pg8000": (postgres_site, 5432),
    "mysql+pymysql": (mysql_site, 3306),
}
if importlib.util.find_spec("pg8000") is None:
    del DRIVERS["postgresql+pg8000"]


@contextlib.contextmanager
def engine(driver: str, targets: dict[str, str], **kwargs: Any) -> Iterator[sqlalchemy.Engine]:
    """An engine of db.svc, protected. Servers here know no catalogue: it is not looked at."""
    policy = kwargs.pop("policy", None)
    tail = "?sslmode=disable" if driver.endswith("psycopg") else ""
    made = sqlalchemy.create_engine(f"{driver}://u@db.svc/d{tail}", _initialize=False, **kwargs)
    try:
        yield protect(made, targets=targets, policy=policy)
    finally:
        made.dispose()


def seven(made: sqlalchemy.Engine) -> Any:
    with made.connect() as connection:
        return connection.exec_driver_sql("select 7").scalar()


def pooled(made: sqlalchemy.Engine) -> Any:
    """What has the socket of the connection that comes out of the pool next."""
    with contextlib.closing(made.raw_connection()) as connection:
        return socket_of(connection.driver_connection)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_silent_endpoint_costs_a_moment(driver: str, silent: int) -> None:
    kind, port = DRIVERS[driver]
    with kind.database() as db:
        targets = {f"db.svc:{port}": both(silent, db.port)}
        with engine(driver, targets) as made:
            for _ in range(3):
                assert seven(made) == 7
            assert is_ours(pooled(made))


@pytest.mark.parametrize("driver", DRIVERS)
def test_errors_are_those_of_sqlalchemy(driver: str, refusing: int) -> None:
    targets = {f"db.svc:{DRIVERS[driver][1]}": f"static://127.0.0.1:{refusing}"}
    with engine(driver, targets, policy=SOON) as made:
        with pytest.raises(sqlalchemy.exc.DBAPIError, match="refused"):
            seven(made)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_connection_to_an_endpoint_that_is_dead_is_replaced_unasked(driver: str) -> None:
    kind, port = DRIVERS[driver]
    with kind.database() as one, kind.database() as two:
        target = both(one.port, two.port)
        with engine(driver, {f"db.svc:{port}": target}) as made:
            assert seven(made) == 7
            (old,) = (each for each in (one, two) if each.accepted)
            declare_dead(target, old.port)
            before = len(old.accepted)
            assert seven(made) == 7
            assert len(old.accepted) == before, "it went elsewhere"


@pytest.mark.incident("FR-23")
def test_fr23_a_query_whose_server_is_lost_ends() -> None:
    with postgres_site.database() as db:
        targets = {"db.svc:5432": f"static://127.0.0.1:{db.port}"}
        policy = Policy(user_timeout=1, keepalive=None)
        with engine("postgresql+psycopg", targets, policy=policy) as made:
            assert seven(made) == 7
            for sock in [*db.accepted]:
                go_dead(sock)
            with made.connect() as connection:
                with pytest.raises(sqlalchemy.exc.OperationalError) as caught:
                    connection.exec_driver_sql("select 'mute'")
                assert caught.value.connection_invalidated
            assert seven(made) == 7


def test_a_creator_of_the_callers_stands_and_is_watched() -> None:
    with postgres_site.database() as db:

        def create() -> Any:
            return psycopg.connect(f"host=127.0.0.1 port={db.port} user=u sslmode=disable")

        with engine("postgresql+psycopg", {}, creator=create) as made:
            assert seven(made) == 7
            assert is_ours(pooled(made)), "libpq's own keepalive is the system's: two hours"


def test_an_async_engine(silent: int) -> None:
    async def main(db: Site) -> None:
        made = create_async_engine(
            "postgresql+psycopg_async://u@db.svc/d?sslmode=disable", _initialize=False
        )
        protect(made, targets={"db.svc:5432": both(silent, db.port)})
        async with made.connect() as connection:
            result = await connection.exec_driver_sql("select 7")
            assert result.scalar() == 7
            raw = await connection.get_raw_connection()
            assert is_ours(socket_of(raw.driver_connection))
        await made.dispose()

    with postgres_site.database() as db:
        asyncio.run(asyncio.wait_for(main(db), PATIENCE))


def test_an_async_creator_of_the_callers_stands() -> None:
    called = []

    async def create(*args: Any, **kwargs: Any) -> Any:
        called.append(kwargs["host"])
        raise psycopg.OperationalError("not today")

    async def main() -> None:
        made = create_async_engine(
            "postgresql+psycopg_async://u@db.svc/d",
            connect_args={"async_creator_fn": create},
        )
        protect(made)
        with pytest.raises(sqlalchemy.exc.OperationalError, match="not today"):
            async with made.connect():
                pass

    asyncio.run(main())
    assert called == ["db.svc"]


def test_sockets_are_found_where_drivers_keep_them() -> None:
    class Bare:
        pass

    assert socket_of(Bare()) is None
    with socket.socket() as sock:
        assert socket_of(sock) is sock
    assert socket_of(sock) is None, "it is closed"


def test_what_is_malformed_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown scheme"):
        protect(sqlalchemy.create_engine("sqlite://"), targets={"db.svc:1": "ftp://x"})
    made = protect(sqlalchemy.create_engine("sqlite://"))
    with made.connect() as connection:
        assert connection.exec_driver_sql("select 7").scalar() == 7, "no socket, no harm"
    made.dispose()
