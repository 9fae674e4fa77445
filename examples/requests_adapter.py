"""requests, unchanged but for one line: when an endpoint is gone, another one answers.

Run `python examples/requests_adapter.py`; it needs requests (`pip install outlast[requests]`).
"""

from __future__ import annotations

import requests
from local_pods import two_pods

from outlast.shims.adapters.requests import OutlastAdapter


def main() -> None:
    """Two endpoints, one of them dies."""
    with two_pods() as (a, b), requests.Session() as session:
        targets = {"orders.example:8080": f"static://{a.address},{b.address}"}
        session.mount("http://", OutlastAdapter(targets=targets))  # the line
        for _ in range(2):
            print("both are there:", session.get("http://orders.example:8080/").json())
        a.stop()
        session.close()  # no connection is kept: each call dials
        for _ in range(3):
            print("a is gone:     ", session.get("http://orders.example:8080/").json())


if __name__ == "__main__":
    main()
