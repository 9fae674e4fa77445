"""requests, without a timeout: `requests.get` each time, or one Session for all threads."""

from __future__ import annotations

import requests

from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_threads

url = f"http://{HOST}:{PORT}/"
session = requests.Session()


def new() -> None:
    """A new connection."""
    requests.get(url).raise_for_status()


def pooled() -> None:
    """The session's pool."""
    session.get(url).raise_for_status()


in_threads(lambda: new if MODE == "new" else pooled)
