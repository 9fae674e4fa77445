"""Change the policy for one call or one block, and read what was done about a failure.

Every response and every error carries the time line of its attempts.

Run `python examples/override_and_report.py`.
"""

from __future__ import annotations

import httpx
from local_pods import two_pods

import outlast

URL = "http://orders.example:8080"


def code_that_knows_nothing_of_outlast(client: httpx.Client) -> httpx.Response:
    """Some function that you cannot change, or do not want to."""
    return client.get(URL)


def main() -> None:
    """One block, one call, one success with a story, one error with a story."""
    with two_pods() as (a, b):
        targets = {URL: f"static://{a.address},{b.address}"}
        policy = outlast.Policy(attempts=3, deadline=10.0)
        with httpx.Client(transport=outlast.Transport(targets=targets, policy=policy)) as client:
            with outlast.override(deadline="2s", attempts=1):  # for everything in this block
                print("in the block:", code_that_knows_nothing_of_outlast(client))
            settings = {"deadline": "500ms", "idempotent": True}  # for this call
            print("the call:    ", client.get(URL, extensions={"outlast": settings}))

            a.stop()
            response = client.get(URL)
            print(f"\na is gone: {response}\n{response.extensions['outlast']}")

            b.stop()
            try:
                client.get(URL)
            except httpx.ConnectError as error:  # the exceptions are httpx's own
                report: outlast.Report = error.report  # type: ignore[attr-defined]  # outlast adds it
                print(f"\nboth are gone: {error}", *report.events[:3], "...", sep="\n")


if __name__ == "__main__":
    main()
