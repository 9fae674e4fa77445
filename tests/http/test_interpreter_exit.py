"""The end of a process: with connections idle, responses unread and calls under way it comes at
once, and says nothing on stderr."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time

import pytest

from tests.http.h2_server import serve_h2
from tests.http.servers import Peer, Server

PROMPT = 8.0  # seconds for a process to begin, do its work and end; it takes a half

PROLOGUE = """
import asyncio, atexit, gc, sys, threading
import anyio, httpx, trio
import outlast

url, kind = sys.argv[1], eval(sys.argv[2])
name = url.replace("127.0.0.1", "localhost")

def begun(transport, count=1):
    # Wait until so many requests are in flight.
    for _ in range(1000):
        if sum(each.leases for each in transport._engine.pool.in_use.busy) >= count:
            return
        threading.Event().wait(0.01)
    raise AssertionError(transport)

def stream(client):
    return client.send(client.build_request("GET", url + "/half"), stream=True)
"""

PROGRAMS = {
    "idle connections": """
        client = httpx.Client(transport=outlast.Transport(**kind))
        for _ in range(3):
            client.get(url)
    """,
    "a response unread, in a global": """
        client = httpx.Client(transport=outlast.Transport(**kind))
        response = stream(client)
    """,
    "a response half read, in a cycle": """
        client = httpx.Client(transport=outlast.Transport(**kind))
        response = stream(client)
        pieces = response.iter_raw(1)
        next(pieces)
        response.itself = (response, pieces, client)
        del response, pieces, client
    """,
    "a response dropped, and collected by another thread": """
        transport = outlast.Transport(limits=httpx.Limits(max_connections=1), **kind)
        client = httpx.Client(transport=transport)
        gc.disable()
        response = stream(client)
        response.itself = response
        del response
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
        assert client.get(url).status_code == 200
    """,
    "daemon threads in calls": """
        transport = outlast.Transport(**kind)
        client = httpx.Client(transport=transport, timeout=60)
        for _ in range(8):
            threading.Thread(target=client.get, args=(url + "/mute",), daemon=True).start()
        begun(transport, 8)
    """,
    "daemon threads in line, and at a name": """
        transport = outlast.Transport(limits=httpx.Limits(max_connections=1), **kind)
        client = httpx.Client(transport=transport, timeout=60)
        for where in (url, url, name):
            threading.Thread(target=client.get, args=(where + "/mute",), daemon=True).start()
        begun(transport)
    """,
    "a daemon thread at a name that is never answered": """
        from outlast.net.kernel import KernelNetwork
        asked = threading.Event()
        def resolve(host, port):
            asked.set()
            threading.Event().wait(60)
        transport = outlast.Transport(network=KernelNetwork(resolve), **kind)
        client = httpx.Client(transport=transport, timeout=60)
        threading.Thread(target=client.get, args=(name,), daemon=True).start()
        assert asked.wait(10)
    """,
    "a daemon thread with a loop": """
        transport = outlast.AsyncTransport(**kind)
        async def calls():
            client = httpx.AsyncClient(transport=transport, timeout=60)
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(client.get, url + "/mute")
        threading.Thread(target=asyncio.run, args=(calls(),), daemon=True).start()
        threading.Thread(target=trio.run, args=(calls,), daemon=True).start()
        begun(transport, 6)
    """,
    "background work": """
        from outlast.net.kernel import kernel
        from outlast.net.run import sleep_until
        async def work():
            while True:
                await sleep_until(kernel().now() + 0.001)
        kernel().spawn(work)
        sock = outlast.create_connection(("localhost", int(url.rpartition(":")[2])))
    """,
    "loops that are over": """
        transport = outlast.AsyncTransport(**kind)
        kept = []
        async def calls():
            client = httpx.AsyncClient(transport=transport)
            await client.get(url)
            kept.append(await client.send(client.build_request("GET", url + "/half"), stream=True))
            await client.send(client.build_request("GET", url + "/half"), stream=True)
        asyncio.run(calls())
        trio.run(calls)
    """,
    "sys.exit in the middle of a body": """
        client = httpx.Client(transport=outlast.Transport(**kind))
        with client.stream("GET", url + "/half") as response:
            for _ in response.iter_raw(1):
                sys.exit(0)
    """,
    "calls in atexit": """
        client = httpx.Client(transport=outlast.Transport(**kind))
        client.get(url)
        atexit.register(client.close)
        atexit.register(lambda: client.get(url).raise_for_status())
    """,
}


def answer(peer: Peer) -> None:
    """HTTP/1.1: /mute is not answered, of /half the second half never comes."""
    while (seen := peer.request()) is not None:
        if seen.target == "/mute":
            peer.until_closed()
        elif seen.target == "/half":
            peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n", b"x" * 100_000)
            peer.until_closed()
        else:
            peer.answer()


SHARED = (  # what an HTTP/2 connection may have to do with
    "a response half read, in a cycle",
    "a response dropped, and collected by another thread",
    "daemon threads in calls",
    "a daemon thread with a loop",
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, "HTTP/1.1") for name in PROGRAMS), *((name, "HTTP/2") for name in SHARED)],
)
def test_it_ends_at_once_and_in_silence(name: str, kind: str) -> None:
    program = PROLOGUE + textwrap.dedent(PROGRAMS[name])
    given = {"HTTP/1.1": "{}", "HTTP/2": "{'http1': False, 'http2': True}"}[kind]
    handler = answer if kind == "HTTP/1.1" else serve_h2
    with Server(handler) as server:
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", program, server.url, given],
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
        took = time.monotonic() - begun
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    assert took < PROMPT
