"""http.client's adapter, without a timeout: a connection each time, or one that a thread keeps."""

from __future__ import annotations

import http.client
from collections.abc import Callable

from outlast.shims.adapters.http_client import OutlastHTTPConnection
from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_threads


def _ask(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/")
    connection.getresponse().read()


def new() -> None:
    """A new connection."""
    connection = OutlastHTTPConnection(HOST, PORT)
    try:
        _ask(connection)
    finally:
        connection.close()


def kept() -> Callable[[], None]:
    """One connection, reopened by http.client itself after it was closed."""
    connection = OutlastHTTPConnection(HOST, PORT)

    def call() -> None:
        try:
            _ask(connection)
        except (OSError, http.client.HTTPException):
            connection.close()
            raise

    return call


in_threads(lambda: new if MODE == "new" else kept())
