"""Give httpx a transport; nothing else of your code changes.

Run `python examples/drop_in.py`, or with a URL of your own as argument.
"""

from __future__ import annotations

import asyncio
import sys

import httpx
from local_pods import two_pods

import outlast


def with_a_client(url: str) -> None:
    """Was: httpx.Client()."""
    with httpx.Client(transport=outlast.Transport()) as client:
        print("Client:     ", client.get(url))


async def with_an_async_client(url: str) -> None:
    """Was: httpx.AsyncClient()."""
    async with httpx.AsyncClient(transport=outlast.AsyncTransport()) as client:
        print("AsyncClient:", await client.get(url))


def main(url: str) -> None:
    """Both ways to use httpx."""
    with_a_client(url)
    asyncio.run(with_an_async_client(url))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with two_pods() as (pod, _):
            main(pod.url)
