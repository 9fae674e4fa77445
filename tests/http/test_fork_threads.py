"""Forks while other threads are at work: with every lock held in turn, and in the middle of calls.

Each case runs in a process of its own. The child must come to its end whatever was held, and the
parent's connections must be as they were.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

PROLOGUE = """
import faulthandler, gc, os, signal, sys, threading
import httpx, outlast
from tests.stress.chaos import Chaos

LOCK = type(threading.Lock())

def child(work):
    # Run work in a forked child that ends in time; its exit code.
    number = os.fork()
    if number:
        return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    faulthandler.register(signal.SIGALRM, chain=True)  # should it hang, it says where, and ends
    signal.alarm(10)
    try:
        work()
    except BaseException as error:
        print("child:", repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)

def locks():
    # Every lock that an object or a module of this library has, by its owner's name.
    found = {}
    for thing in gc.get_objects():
        home = type(thing)
        if not str(getattr(home, "__module__", "")).startswith("outlast."):
            continue
        names = {name for base in home.__mro__ for name in getattr(base, "__slots__", ())}
        for name in names | set(getattr(thing, "__dict__", ())):
            if type(getattr(thing, name, None)) is LOCK:
                found[f"{home.__name__}.{name} of {id(thing)}"] = (thing, name)
    for name, module in list(sys.modules.items()):
        if name.startswith("outlast."):
            for key, value in vars(module).items():
                if type(value) is LOCK:
                    found[f"{name}.{key}"] = (module, key)
    return found

def hold(lock):
    # Have another thread hold it until the function that is returned is called.
    held, let_go = threading.Event(), threading.Event()
    def work():
        with lock:
            held.set()
            let_go.wait(30)
    thread = threading.Thread(target=work)
    thread.start()
    assert held.wait(10)
    def end():
        let_go.set()
        thread.join()
    return end

chaos = Chaos(1)
url = chaos.urls[0]
"""

KINDS = {"HTTP/1.1": "{}", "HTTP/2": '{"http1": False, "http2": True}'}

EPILOGUE = """
chaos.__exit__()
print("done")
"""


def run(body: str) -> None:
    """Run the program; it has to come to its end, within 50 s."""
    program = PROLOGUE + textwrap.dedent(body) + EPILOGUE
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_what_the_parent_has_open_is_the_parents() -> None:
    """A child that reads on takes nothing away from it, and an upgraded connection is left alone,
    closed or not, with its lock held or not."""
    run(
        """
        import socket, contextlib
        from tests.http.servers import Server
        from tests.http.streams import UPGRADE, switching
        client = httpx.Client(transport=outlast.Transport(), timeout=10)
        with Server(switching()) as server, client.stream("GET", url + "/x?3000000") as response:
            pieces = response.iter_raw(1000)
            assert len(next(pieces)) == 1000
            with client.stream("GET", server.url, headers=UPGRADE) as upgraded:
                raw = upgraded.extensions["network_stream"]
                raw.write(b"hello")
                assert raw.read(100, 10) == b"hello"

                def work():
                    for use in (lambda: raw.write(b"child"), lambda: raw.read(1, 1)):
                        try:
                            use()
                        except httpx.TransportError as error:
                            assert "another process" in str(error), error
                        except Exception as error:
                            assert type(error).__module__.startswith("httpcore"), error
                            assert "another process" in str(error), error
                        else:
                            raise AssertionError("it was used")
                    raw.close()
                    try:
                        print(sum(map(len, pieces)))
                    except httpx.ReadError as error:
                        assert "another process" in str(error), error
                    else:
                        raise AssertionError("it was read")
                    assert client.get(url + "/child").text == "/child 0;"
                    client.close()

                assert child(work) == 0
                found = [(o, k) for n, (o, k) in locks().items() if "RawConnection" in n]
                assert found
                for owner, key in found:
                    end = hold(getattr(owner, key))
                    assert child(work) == 0
                    end()
                raw.write(b"again")
                assert raw.read(100, 10) == b"again"
            assert sum(map(len, pieces)) == 2_999_000
        client.close()
        """
    )


WHILE_HELD = """
transport = outlast.Transport(**KIND)
client = httpx.Client(transport=transport, timeout=10)
client.get(url + "/first")
network = transport._network
async def job():
    pass
network.spawn(job)
outlast.create_connection(("localhost", chaos.ports[0]), timeout=10).close()
held_open = client.stream("GET", url + "/open?3000000")
response = held_open.__enter__()
pieces = response.iter_raw(1000)
assert len(next(pieces)) == 1000
# Another transport, with one place, which a response holds; a thread stands in line.
narrow = outlast.Transport(limits=httpx.Limits(max_connections=1))
other = httpx.Client(transport=narrow, timeout=30)
holder = other.stream("GET", url + "/holder?200000")
holder.__enter__()
answers = []
line = threading.Thread(target=lambda: answers.append(other.get(url + "/line").text))
line.start()
while not narrow._engine.pool.counts()["waiting"]:
    threading.Event().wait(0.01)

def work():
    global response, held_open, pieces, holder
    del holder
    del pieces
    response.close()
    del response, held_open
    gc.collect()
    assert other.get(url + "/other").text == "/other 0;"
    for number in range(3):
        assert client.get(f"{url}/child{number}").text == f"/child{number} 0;"
    outlast.create_connection(("localhost", chaos.ports[0]), timeout=10).close()
    done = network.waiter()
    async def job():
        done.wake()
    network.spawn(job)
    from outlast.net.run import run_sync
    from outlast.net.seam import WAKE, Wait
    async def wait():
        return await Wait(((done, WAKE),), network.now() + 5)
    assert run_sync(network, wait())
    client.close()

assert child(work) == 0
names = locks()
assert len(names) > 7, names
failed = []
for name, (owner, key) in names.items():
    end = hold(getattr(owner, key))
    if child(work):
        failed.append(name)
    end()
assert not failed, failed
rest = sum(map(len, pieces))
assert rest == 2_999_000, rest
held_open.__exit__(None, None, None)
holder.__exit__(None, None, None)
line.join(10)
assert answers == ["/line 0;"], answers
other.close()
assert client.get(url + "/last").text == "/last 0;"
client.close()
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_while_another_thread_holds_a_lock(kind: str) -> None:
    """Every one there is: of the pool, the connections, the table, the resolver, the background."""
    run(WHILE_HELD.replace("KIND", KINDS[kind]))


AT_WORK = """
transport = outlast.Transport(limits=httpx.Limits(max_connections=6), **KIND)
stop, wrong, answered = threading.Event(), [], [0] * 8

def calls(who, count):
    # By a client of its own: a fork may copy the lock of the other's cookie jar as it is held.
    client = httpx.Client(transport=transport, timeout=15)
    for number in range(count):
        name = f"/{who}-{number}"
        if number % 3:
            assert client.get(url + name).text == f"{name} 0;"
        else:
            assert client.post(url + name, content=b"x" * 9).text == f"{name} 9;"

def load(who):
    try:
        while not stop.is_set():
            calls(f"parent{who}-{answered[who]}", 3)
            answered[who] += 1
    except BaseException as error:
        wrong.append(error)
        raise

def work(who):
    calls(f"child{who}", 6)
    if who % 3 == 0:
        transport.close()
    elif who % 3 == 1:
        assert child(lambda: calls(f"grandchild{who}", 3)) == 0

threads = [threading.Thread(target=load, args=(who,)) for who in range(8)]
for thread in threads:
    thread.start()
outcomes = [child(lambda: work(who)) for who in range(12)]
stop.set()
for thread in threads:
    thread.join()
assert outcomes == [0] * 12, outcomes
assert not wrong, wrong
assert min(answered) > 0, answered
counts = transport._engine.pool.counts()
assert counts["busy"] == counts["waiting"] == 0, counts
assert not [name for name in chaos.tell("counts") if name.startswith("twice")]
transport.close()
"""


@pytest.mark.parametrize("kind", KINDS)
def test_forks_in_the_middle_of_calls(kind: str) -> None:
    """Eight threads call all the time, on shared connections even, while children come, call, and
    end in one way or another: every answer is that of its own request."""
    run(AT_WORK.replace("KIND", KINDS[kind]))


def test_multiprocessing_by_fork() -> None:
    """A transport that was used before, in processes and in pools, beside the parent's own use."""
    run(
        """
        import multiprocessing
        context = multiprocessing.get_context("fork")
        client = httpx.Client(transport=outlast.Transport(), timeout=10)
        client.get(url)

        def text(number):
            return client.get(f"{url}/{number}").text

        with context.Pool(3) as pool:
            asked = pool.map_async(text, range(30))
            mine = [text(1000 + number) for number in range(10)]
            assert asked.get(20) == [f"/{number} 0;" for number in range(30)]
        assert mine == [f"/{1000 + number} 0;" for number in range(10)]
        queue = context.SimpleQueue()
        process = context.Process(target=lambda: queue.put(text("process")))
        process.start()
        assert queue.get() == "/process 0;"
        process.join(10)
        assert process.exitcode == 0
        assert text("last") == "/last 0;"
        client.close()
        """
    )


def test_a_fork_with_look_ups_and_background_work_under_way() -> None:
    """The child's threads are its own: what the parent's do goes on in the parent alone."""
    run(
        """
        from outlast.net.address import literal
        from outlast.net.kernel import KernelNetwork
        from outlast.net.run import run_sync, sleep_until
        parent, gate, ran = os.getpid(), threading.Event(), []

        def resolve(host, port):
            if os.getpid() == parent:
                gate.wait(30)
            return [literal("127.0.0.1", port)]

        network = KernelNetwork(resolve)
        transport = outlast.Transport(network=network)
        client = httpx.Client(transport=transport, timeout=20)
        name = f"http://orders.test:{chaos.ports[0]}"
        hung = threading.Thread(target=lambda: ran.append(client.get(name + "/hung").text))
        hung.start()  # its look-up waits for the gate

        async def ticks():
            while not gate.is_set():
                ran.append(os.getpid())
                await sleep_until(network.now() + 0.01)

        network.spawn(ticks)
        while not ran:
            threading.Event().wait(0.01)

        def work():
            seen = len(ran)
            assert client.get(name + "/child").text == "/child 0;"
            done = network.waiter()
            async def job():
                done.wake()
            network.spawn(job)
            from outlast.net.seam import WAKE, Wait
            async def wait():
                return await Wait(((done, WAKE),), network.now() + 5)
            assert run_sync(network, wait())
            assert len(ran) == seen, "the parent's job runs in the child"

        for _ in range(3):
            assert child(work) == 0
        gate.set()
        hung.join(20)
        assert ran[-1] == "/hung 0;" or "/hung 0;" in ran
        client.close()
        """
    )
