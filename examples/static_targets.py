"""Name the endpoints behind a URL yourself: when one is gone, another one answers.

The URL stays what it is, in the Host header and in the name that TLS verifies; only where its
connections go is told.

Run `python examples/static_targets.py`.
"""

from __future__ import annotations

import httpx
from local_pods import two_pods

import outlast

URL = "http://orders.example:8080"


def main() -> None:
    """Two endpoints, one of them dies."""
    with two_pods() as (a, b):
        targets = {URL: f"static://{a.address},{b.address}"}
        with httpx.Client(transport=outlast.Transport(targets=targets)) as client:
            print("both are there:", client.get(f"{URL}/orders/17").json())
            a.stop()
            for _ in range(3):
                print("a is gone:     ", client.get(f"{URL}/orders/17").json())


if __name__ == "__main__":
    main()
