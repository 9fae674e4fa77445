"""PyMySQL with its adapter, without a read timeout: a connection each time, or one that a thread
keeps. TLS is switched off, as in the plain program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from outlast.shims.adapters.pymysql import OutlastConnection
from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_threads, right


def _connect() -> Any:
    return OutlastConnection(host=HOST, port=PORT, user="root", ssl_disabled=True)


def _ask(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 3 + 4")
        right(cursor.fetchone()[0])


def new() -> None:
    """A new connection."""
    with _connect() as connection:
        _ask(connection)


def kept() -> Callable[[], None]:
    """One connection, made anew after an error."""
    held: list[Any] = []

    def call() -> None:
        if not held:
            held.append(_connect())
        try:
            _ask(held[0])
        except Exception:
            held.clear()
            raise

    return call


in_threads(lambda: new if MODE == "new" else kept())
