"""urllib3, without a timeout and without its own retries, for which requests switches them off."""

from __future__ import annotations

import urllib3

from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_threads

url = f"http://{HOST}:{PORT}/"
pools = urllib3.PoolManager(maxsize=10, retries=False)


def new() -> None:
    """A new connection."""
    with urllib3.PoolManager(retries=False) as own:
        assert own.request("GET", url).status == 200


def pooled() -> None:
    """The pool of all."""
    assert pools.request("GET", url).status == 200


in_threads(lambda: new if MODE == "new" else pooled)
