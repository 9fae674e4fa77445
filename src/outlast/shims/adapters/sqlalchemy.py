"""SQLAlchemy: an engine whose connections are dialled and watched by this library.

Hooks: the dialect's `do_connect` event, where the driver has an adapter here (psycopg, asyncpg,
PyMySQL) or takes a socket (pg8000); the pool's `connect` event for all others, whose sockets are
found by their descriptor and watched; and its `checkout` event, where a connection under suspicion
is refused, so that the pool replaces it unasked. Drivers, URLs, pools and exceptions are
SQLAlchemy's own. A `creator` or `async_creator_fn` of the caller's stands: its connections are
watched.

Refuses nothing, and cannot help a driver that dials in C and hides its socket; docs/adapters.md
lists them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import event, exc

from outlast.policy import Policy
from outlast.shims.adapters.dialler import KEEPALIVE_ON, Dialler
from outlast.target import Target

__all__ = ["protect"]

PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
WHERE = "outlast"  # in a connection record's `info`: the host and port that it was opened for


def protect(
    engine: Any,
    *,
    targets: Mapping[str, str | Target] | None = None,
    policy: Policy | None = None,
) -> Any:
    """Have an engine's new connections dialled and watched; returns the engine, sync or async.

    targets: "host:port" to the target that stands behind it; see `outlast.Target`.
    policy: an `outlast.Policy`; its socket fields are used.

    Raises ValueError for what is malformed. Thread-safe, as the engine is.
    """
    guard = _Guard(targets, policy)
    sync = getattr(engine, "sync_engine", engine)
    event.listen(sync, "do_connect", guard.do_connect)
    event.listen(sync, "connect", guard.connected)
    event.listen(sync, "checkout", guard.checkout)
    return engine


class _Guard:
    """The listeners of one engine."""

    def __init__(self, targets: Mapping[str, str | Target] | None, policy: Policy | None) -> None:
        self._dialler = Dialler(targets, policy)
        self._ours: dict[str, Any] = {"targets": targets, "policy": policy}

    def do_connect(self, dialect: Any, record: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Connect in place of the driver; None leaves it to the driver, over what is in kwargs."""
        host = kwargs.get("host")
        if isinstance(host, str) and host:
            port = kwargs.get("port") or PORTS.get(dialect.name, 0)
            record.info[WHERE] = host, int(port)
        open_ = _OPENERS.get((dialect.driver, bool(dialect.is_async)))
        if open_ is None or (dialect.is_async and "async_creator_fn" in kwargs):
            return None
        return open_(self, dialect, args, kwargs)

    def connected(self, connection: Any, record: Any) -> None:
        """A connection stands: have it watched. One that was dialled here is already."""
        sock = socket_of(record.driver_connection or connection)
        if sock is not None:
            self._dialler.adopt(sock)

    def checkout(self, connection: Any, record: Any, proxy: Any) -> None:  # noqa: ARG002  theirs
        """A connection is about to be used. Raises DisconnectionError, which SQLAlchemy answers
        by a new one, if its peer or endpoint is under suspicion."""
        sock = socket_of(record.driver_connection or connection)
        where = record.info.get(WHERE)
        if sock is not None and where is not None and not self._dialler.trusts(sock, *where):
            raise exc.DisconnectionError(f"{where[0]}:{where[1]} is under suspicion")

    # -- drivers -------------------------------------------------------------------------------

    def psycopg(self, dialect: Any, args: Any, kwargs: dict[str, Any]) -> Any:  # noqa: ARG002
        """psycopg 3."""
        from outlast.shims.adapters.psycopg import OutlastConnection

        connect: Callable[..., Any] = OutlastConnection.connect
        return connect(*args, **self._ours, **kwargs)

    def psycopg_async(self, dialect: Any, args: Any, kwargs: dict[str, Any]) -> None:  # noqa: ARG002
        """psycopg 3, async."""
        from outlast.shims.adapters.psycopg import OutlastAsyncConnection

        made = functools.partial(OutlastAsyncConnection.connect, **self._ours)
        kwargs["async_creator_fn"] = made

    def asyncpg(self, dialect: Any, args: Any, kwargs: dict[str, Any]) -> None:  # noqa: ARG002
        """asyncpg."""
        from outlast.shims.adapters.asyncpg import connect

        kwargs["async_creator_fn"] = functools.partial(connect, **self._ours)

    def pymysql(self, dialect: Any, args: Any, kwargs: dict[str, Any]) -> Any:  # noqa: ARG002
        """PyMySQL."""
        from outlast.shims.adapters.pymysql import OutlastConnection

        return OutlastConnection(*args, **self._ours, **kwargs)

    def pg8000(self, dialect: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """pg8000, whose connection class takes a socket though its `connect` does not."""
        if kwargs.get("unix_sock"):
            return None
        host, port = kwargs.get("host") or "localhost", int(kwargs.get("port") or 5432)
        source, timeout = kwargs.get("source_address"), kwargs.get("timeout")
        off = () if kwargs.get("tcp_keepalive", True) else ((*KEEPALIVE_ON, 0),)
        try:
            sock = self._dialler.create_connection((host, port), timeout, source, options=off)
        except OSError as error:
            text = f"Can't create a connection to host {host} and port {port}: {error}"
            raise dialect.loaded_dbapi.InterfaceError(text) from error
        try:
            return dialect.loaded_dbapi.Connection(*args, sock=sock, **kwargs)
        except BaseException:
            sock.close()
            raise


_Opener = Callable[[_Guard, Any, Any, dict[str, Any]], Any]
_OPENERS: dict[tuple[str, bool], _Opener] = {
    ("psycopg", False): _Guard.psycopg,
    ("psycopg", True): _Guard.psycopg_async,
    ("psycopg_async", True): _Guard.psycopg_async,
    ("asyncpg", True): _Guard.asyncpg,
    ("pymysql", False): _Guard.pymysql,
    ("pg8000", False): _Guard.pg8000,
}


def socket_of(connection: Any) -> Any:
    """What has the descriptor of a driver's connection; None if it shows none.

    psycopg and psycopg2 have a `fileno`; PyMySQL has `_sock`, pg8000 `_usock`, asyncpg a transport.
    """
    for name in ("_usock", "_sock"):
        found = getattr(connection, name, None)
        if callable(getattr(found, "fileno", None)):
            return found
    transport = getattr(connection, "_transport", None)
    if transport is not None:
        return transport.get_extra_info("socket")
    ask = getattr(connection, "fileno", None)
    try:
        return connection if callable(ask) and ask() >= 0 else None
    except (OSError, exc.DBAPIError, TypeError):  # closed
        return None
