"""pg8000, without a timeout: a connection each time, or one that a thread keeps.

TLS is switched off: reading the certificates of the system takes longer than all else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pg8000.native

from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_threads, right


def _connect() -> Any:
    return pg8000.native.Connection("postgres", host=HOST, port=PORT, ssl_context=False)


def _ask(connection: Any) -> None:
    right(connection.run("SELECT count FROM stock WHERE id = 1")[0][0])


def new() -> None:
    """A new connection."""
    connection = _connect()
    try:
        _ask(connection)
    finally:
        connection.close()


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
