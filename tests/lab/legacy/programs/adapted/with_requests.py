"""requests with its adapter, without a timeout: a session each time, or one for all threads."""

from __future__ import annotations

import requests

from outlast.shims.adapters.requests import OutlastAdapter
from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_threads

url = f"http://{HOST}:{PORT}/"


def _session() -> requests.Session:
    session = requests.Session()
    session.mount("http://", OutlastAdapter())
    return session


shared = _session()


def new() -> None:
    """A new connection."""
    with _session() as own:
        own.get(url).raise_for_status()


def pooled() -> None:
    """The session's pool."""
    shared.get(url).raise_for_status()


in_threads(lambda: new if MODE == "new" else pooled)
