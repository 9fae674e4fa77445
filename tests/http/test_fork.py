"""A transport after fork: locks and pool made anew, the parent's connections left alone (FR-72).

Each case runs in a process of its own, because a fork of the test process would carry its threads'
locks along. The program prints what it saw; the parent of it checks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

PROLOGUE = """
import os, socket, sys, threading
import httpx, outlast

def serve(listener):
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=talk, args=(sock,), daemon=True).start()

def talk(sock):
    count = 0
    with sock:
        while True:
            data = b""
            while b"\\r\\n\\r\\n" not in data:
                more = sock.recv(65536)
                if not more:
                    return
                data += more
            count += 1
            path = data.split(b" ")[1]
            body = path + b" request %d here" % count
            head = b"HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body)
            sock.sendall(head + body)

def child(work):
    # Run work in a forked child; its exit code tells.
    number = os.fork()
    if number == 0:
        try:
            work()
        except BaseException as error:
            print("child:", repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitpid(number, 0)[1]

listener = socket.create_server(("127.0.0.1", 0))
server = os.fork()
if server == 0:
    serve(listener)
listener.close()
"""

EPILOGUE = """
os.kill(server, 9)
os.waitpid(server, 0)
print("done")
"""


def run(body: str) -> None:
    """Run the program; it has to come to its end, within 30 s."""
    # The port is known only after the listener stands, before the fork of the server.
    prologue = PROLOGUE.replace(
        "server = os.fork()",
        'url = f"http://127.0.0.1:{listener.getsockname()[1]}"\nserver = os.fork()',
    )
    program = prologue + textwrap.dedent(body) + EPILOGUE
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n"), done.stderr


def test_fr72_replies_match_their_requests() -> None:
    """The parent opens a connection and forks twice; all three send, each on its own."""
    run(
        """
        client = httpx.Client(transport=outlast.Transport())
        assert client.get(url + "/first").text == "/first request 1 here"

        def work(name):
            for number in range(1, 20):
                text = client.get(f"{url}/{name}/{number}").text
                assert text == f"/{name}/{number} request {number} here", text

        assert child(lambda: work("one")) == 0
        assert child(lambda: work("two")) == 0
        # the parent's connection is as it was: its second request goes over it
        assert client.get(url + "/last").text == "/last request 2 here"
        client.close()
        """
    )


def test_the_parents_connections_are_no_news_of_the_childs() -> None:
    """Events: the child hears of its own connections alone."""
    run(
        """
        from outlast import events
        told = []
        events.subscribe(told.append, events.ConnectionOpened, events.ConnectionClosed)
        client = httpx.Client(transport=outlast.Transport())
        client.get(url)
        held = client.send(client.build_request("GET", url), stream=True)

        def work():
            told.clear()
            client.get(url)
            held.close()
            client.close()
            assert [type(event).__name__ for event in told] == [
                "ConnectionOpened", "ConnectionClosed"
            ], told
            assert told[0].local_port == told[1].local_port

        assert child(work) == 0
        held.read()
        client.close()
        ports = [event.local_port for event in told]
        assert len(ports) == 2 and len(set(ports)) == 1, told
        """
    )


def test_locks_that_another_thread_held() -> None:
    """Whatever was locked at the moment of the fork, the child can work."""
    run(
        """
        transport = outlast.Transport()
        client = httpx.Client(transport=transport)
        client.get(url)
        engine = transport._engine
        service = next(iter(engine._services.values()))
        locks = [engine.pool._lock, service._lock, service.memory._lock]
        for lock in locks:
            lock.acquire()
        outcome = child(lambda: client.get(url + "/child").raise_for_status())
        for lock in locks:
            lock.release()
        assert outcome == 0
        assert client.get(url + "/again").text == "/again request 2 here"
        client.close()
        """
    )


def test_a_fork_inside_a_running_loop() -> None:
    """The child drops the loop and calls from sync code, with a request of the parent's open."""
    run(
        """
        import asyncio
        sync = httpx.Client(transport=outlast.Transport())
        transport = outlast.AsyncTransport()

        async def main():
            async with httpx.AsyncClient(transport=transport) as client:
                async with client.stream("GET", url + "/open") as response:
                    assert child(lambda: sync.get(url + "/child").raise_for_status()) == 0
                    assert await response.aread() == b"/open request 1 here"
                assert (await client.get(url + "/next")).text == "/next request 2 here"

        asyncio.run(main())
        sync.close()
        """
    )


def test_a_child_that_only_ends_says_nothing_to_the_server() -> None:
    """The parent's connection survives the child's clean end, garbage collection included."""
    run(
        """
        import gc
        client = httpx.Client(transport=outlast.Transport())
        client.get(url)

        def work():
            global client
            client.close()
            del client
            gc.collect()

        assert child(work) == 0
        assert client.get(url + "/still").text == "/still request 2 here"
        client.close()
        """
    )
