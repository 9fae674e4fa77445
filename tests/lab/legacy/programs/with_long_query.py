"""psycopg 3 with queries of two seconds; the server ends any that takes longer than five.

Neither helps against a machine that dies: that limit dies with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from tests.lab.legacy.programs.loop import HOST, PORT, in_threads, right


def kept() -> Callable[[], None]:
    """One connection, made anew after an error."""
    held: list[psycopg.Connection[tuple[Any, ...]]] = []

    def call() -> None:
        if not held:
            held.append(psycopg.connect(f"host={HOST} port={PORT} user=postgres", autocommit=True))
            held[0].execute("SET statement_timeout = '5s'")
        try:
            row = held[0].execute("SELECT count FROM stock, pg_sleep(2)").fetchone()
            right(row and row[0])
        except psycopg.Error:
            held.clear()
            raise

    return call


in_threads(kept)
