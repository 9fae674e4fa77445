"""urllib3 with its adapter, without a timeout and without its own retries."""

from __future__ import annotations

from outlast.shims.adapters.urllib3 import OutlastPools
from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_threads

url = f"http://{HOST}:{PORT}/"
pools = OutlastPools(maxsize=10, retries=False)


def new() -> None:
    """A new connection."""
    with OutlastPools(retries=False) as own:
        assert own.request("GET", url).status == 200


def pooled() -> None:
    """The pool of all."""
    assert pools.request("GET", url).status == 200


in_threads(lambda: new if MODE == "new" else pooled)
