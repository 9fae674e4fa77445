"""After a fork the child has its own threads, locks and look-ups.

In a process of its own, since a test run has threads that a fork would cut off.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork(2) is missing here")

PROGRAM = """
import os, signal, socket, threading
import outlast
from outlast.net.address import literal
from outlast.net.kernel import KernelNetwork, kernel
from outlast.net.run import run_sync
from outlast.net.seam import WAKE, Wait
from outlast.service.table import service_of
from outlast.target import target_of
import outlast.service.table as table

PARENT = os.getpid()
server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
gate = threading.Event()

def resolve(host, port):
    if os.getpid() == PARENT:
        gate.wait(30)
    return [literal("127.0.0.1", port)]

def reach(network, host):
    sock = outlast.create_connection((host, port), timeout=10, network=network)
    sock.close()

def spawned(network):
    done = network.waiter()
    async def job():
        done.wake()
    async def wait():
        return await Wait(((done, WAKE),), network.now() + 10)
    network.spawn(job)
    return run_sync(network, wait())

def forever(network):
    never = network.waiter()
    async def job():
        await Wait(((never, WAKE),))
    network.spawn(job)

def child(check):
    pid = os.fork()
    if not pid:
        signal.alarm(15)  # should it hang, it ends
        code = 1
        try:
            check()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

CHECKS = {
    "a fresh dial": """
reach(kernel(), "localhost")
assert child(lambda: reach(kernel(), "localhost")) == 0
reach(kernel(), "localhost")
""",
    "a dial in the child of a child": """
reach(kernel(), "localhost")
assert child(lambda: child(lambda: reach(kernel(), "localhost")) and 1 / 0) == 0
""",
    "a look-up that hung in the parent": """
network = KernelNetwork(resolve)
waiter = network.waiter()
network.lookup("db.test", port, waiter)
assert child(lambda: reach(network, "db.test")) == 0
gate.set()
""",
    "background work": """
network = KernelNetwork(resolve)
forever(network)
assert child(lambda: spawned(network) or 1 / 0) == 0
assert spawned(network)
""",
    "locks that other threads held": """
network = kernel()
reach(network, "localhost")
service = service_of(target_of("localhost", port), network)
held = [service._lock, service.memory._lock, table._tables_lock]
held += [network._resolver._lock, network._background._lock]
ready, go = threading.Event(), threading.Event()
def hold():
    for lock in held: lock.acquire()
    ready.set()
    go.wait(30)
    for lock in held: lock.release()
holder = threading.Thread(target=hold)
holder.start()
ready.wait(30)
def check():
    reach(network, "localhost")
    assert spawned(network)
status = child(check)
go.set()
holder.join()
assert status == 0
""",
    "sockets that were handed out": """
import threading, time
sock = outlast.create_connection(("127.0.0.1", port), timeout=10)
far = server.accept()[0]
watched = outlast.watch(sock)
def limit():
    return sock.getsockopt(socket.IPPROTO_TCP, 18)
def check():
    assert any(t.name == "outlast-background" for t in threading.enumerate())
    assert outlast.watch(sock) is watched
    sock.setblocking(False)
    try:
        while sock.send(bytes(1 << 16)): pass
    except BlockingIOError: pass
    for _ in range(500):
        if not limit(): break
        time.sleep(0.01)
    assert limit() == 0, "nobody has lifted it"
assert limit() == 11000
assert child(check) == 0
far.close()
sock.close()
""",
    "a lock of a target that many others have pushed out of the table": """
network = kernel()
reach(network, "localhost")
service = service_of(target_of("localhost", port), network)
for number in range(table.MAX_TARGETS + 1):
    service_of(target_of(f"{number}.test", port), network)
ready, go = threading.Event(), threading.Event()
def hold():
    with service._lock, service.memory._lock:
        ready.set()
        go.wait(30)
holder = threading.Thread(target=hold)
holder.start()
ready.wait(30)
def check():
    service.request(0.0)
    assert service_of(target_of("localhost", port), network) is service
    reach(network, "localhost")
status = child(check)
go.set()
holder.join()
assert status == 0
""",
    "what was learnt": """
network = kernel()
reach(network, "localhost")
service = service_of(target_of("localhost", port), network)
learnt = service.memory.figures()
def check():
    assert service_of(target_of("localhost", port), network) is service
    assert service.memory.figures() == learnt and service.memory.known
assert child(check) == 0
""",
}


@pytest.mark.parametrize("check", CHECKS)
def test_in_the_child(check: str) -> None:
    program = PROGRAM + CHECKS[check]
    arguments = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=40, check=False)
    assert (done.returncode, done.stderr) == (0, "")
