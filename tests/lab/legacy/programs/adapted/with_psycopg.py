"""psycopg 3 with its adapter: a connection each time, or one that a thread keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from outlast.shims.adapters.psycopg import OutlastConnection
from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_threads, right


def _connect() -> psycopg.Connection[tuple[Any, ...]]:
    return OutlastConnection.connect(f"host={HOST} port={PORT} user=postgres", autocommit=True)


def _ask(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    row = connection.execute("SELECT count FROM stock WHERE id = 1").fetchone()
    right(row and row[0])


def new() -> None:
    """A new connection."""
    with _connect() as connection:
        _ask(connection)


def kept() -> Callable[[], None]:
    """One connection, made anew after an error."""
    held: list[psycopg.Connection[tuple[Any, ...]]] = []

    def call() -> None:
        if not held:
            held.append(_connect())
        try:
            _ask(held[0])
        except psycopg.Error:
            held.clear()
            raise

    return call


in_threads(lambda: new if MODE == "new" else kept())
