"""`outlast run` against a node that is dead behind its VIP: programs of every way to connect."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys

import pytest

from outlast.testing import KernelLab
from outlast.testing.service import Service
from tests.shims.run.command import HERE, RUN

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

SLOWEST = 1.5  # seconds for one connect: thirty dials that all meet the dead node, of two
DELAY = {"OUTLAST_ATTEMPT_DELAY": "50ms"}  # else the first connect waits 250 ms from dial to dial
COUNT = 8  # connects; half of them meet the dead node
LONG = pytest.mark.skipif(
    not os.environ.get("OUTLAST_FULL"),
    reason="more of the same, or 12 s and longer: OUTLAST_FULL=1",
)
NODE = """
const http = require("http"), [url, count] = process.argv.slice(1);
const took = [], errors = [];
function one() {
  if (took.length == +count) { console.log(JSON.stringify({took, errors})); return; }
  const begin = Date.now();
  const end = () => { took.push((Date.now() - begin) / 1000); one(); };
  http.get(url, {agent: false}, r => { r.resume(); r.on("end", end); })
    .on("error", e => { errors.push(String(e)); end(); });
}
one();
"""
CURL = """
import json, subprocess, sys, time
took, errors = [], []
for _ in range(int(sys.argv[2])):
    begin = time.monotonic()
    done = subprocess.run(["curl", "-sS", sys.argv[1]], capture_output=True, text=True)
    took.append(time.monotonic() - begin)
    if done.returncode:
        errors.append(done.stderr)
print(json.dumps({"took": took, "errors": errors}))
"""


def half_dead(lab: KernelLab) -> Service:
    a, b = lab.node("a"), lab.node("b")
    service = lab.service("orders.shop.svc:8080", pods=[a.pod(), b.pod()])
    a.black_hole()
    return service


def told(*program: str) -> tuple[list[float], list[str], str]:
    """What a program says of its connects: seconds, errors; and what was explained."""
    command = [*RUN, "--explain", "--", *program]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, **DELAY},
    )
    if "Nothing was started" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return found["took"], found["errors"], done.stderr


@pytest.mark.parametrize(
    ("way", "threads"),
    [
        ("blocking", 1),
        pytest.param("poll", 1, marks=LONG),
        pytest.param("select", 1, marks=LONG),
        ("again", 1),
        ("level", 1),
        ("edge", 1),
        ("early", 1),
        pytest.param("forked", 1, marks=LONG),
        ("blocking", 8),
    ],
)
def test_every_way_to_connect_outlives_a_dead_node(lab: KernelLab, way: str, threads: int) -> None:
    service = half_dead(lab)
    client = (sys.executable, str(HERE / "client.py"), way)
    with lab.running():
        took, errors, why = told(*client, service.host, str(service.port), str(COUNT), str(threads))
    assert errors == [], why
    assert max(took) < SLOWEST, why
    if way in ("level", "edge") and "replaced" in why:
        assert "1 of 1 epoll registrations made anew" in why


@pytest.mark.parametrize("program", ["curl", "node"])
def test_programs_that_others_wrote(lab: KernelLab, program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    service = half_dead(lab)
    url = f"http://{service.host}:{service.port}/"
    words = ["node", "-e", NODE] if program == "node" else [sys.executable, "-c", CURL]
    with lab.running():
        took, errors, why = told(*words, url, str(2 * COUNT))
    assert errors == [], why
    assert max(took) < SLOWEST, why


MANY = """
import json, socket, sys, threading, time
silent, good = (sys.argv[1], int(sys.argv[2])), (sys.argv[3], int(sys.argv[4]))
begun = threading.Semaphore(0)
def wait_for_ever():
    with socket.socket() as sock:
        begun.release()
        sock.connect_ex(silent)
for _ in range(100):
    threading.Thread(target=wait_for_ever, daemon=True).start()
for _ in range(100):
    begun.acquire()
took = []
for _ in range(50):
    begin = time.monotonic()
    with socket.create_connection(good, 5):
        took.append(time.monotonic() - begin)
print(json.dumps({"took": took, "errors": []}), flush=True)
"""


def test_a_hundred_slow_dials_block_nobody(lab: KernelLab) -> None:
    service = lab.service("orders.shop.svc:8080", pods=[lab.node("a").pod()])
    host, port = lab.silent_address().rsplit(":", 1)
    with lab.running():
        words = (sys.executable, "-c", MANY, host, port, service.host, str(service.port))
        took, _, why = told(*words)
    assert sorted(took)[len(took) // 2] < 0.1, why
    assert max(took) < SLOWEST, why


POOLED = """
import socket, sys, time
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 30) as sock:
    sock.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    sock.recv(65536)
    print("ready", flush=True)
    sys.stdin.readline()
    begin = time.monotonic()
    if sys.argv[3] == "used":
        sock.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    try:
        found = len(sock.recv(1))
    except OSError as error:
        found = error.errno
    print(found, time.monotonic() - begin, flush=True)
"""


@LONG
@pytest.mark.parametrize("use", ["used", "idle"])
def test_a_dead_pooled_connection_is_ended_within_12_s(lab: KernelLab, use: str) -> None:
    node = lab.node("a")
    service = lab.service("orders.shop.svc:8080", pods=[node.pod()])
    words = [sys.executable, "-c", POOLED, service.host, str(service.port), use]
    with lab.running():
        process = subprocess.Popen(
            [*RUN, "--", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            node.black_hole()
            process.stdin.write("go\n")
            process.stdin.flush()
            code, took = process.stdout.readline().split()
    assert int(code) in (104, 110, 113)  # ECONNRESET, ETIMEDOUT, EHOSTUNREACH
    assert float(took) < 12.0


@LONG
def test_a_reader_that_pauses_keeps_its_connection(lab: KernelLab) -> None:
    """The window is closed for longer than anything stands for death: nobody ends it."""
    code = (
        "import socket, sys, threading, time\n"
        "sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "sock.settimeout(16.0)\n"
        "sent = 0\n"
        "try:\n"
        "    while True: sent += sock.send(bytes(65536))\n"
        "except TimeoutError: pass\n"
        "print(sent, sock.getpeername()[1], flush=True)\n"
        "sys.stdin.readline()\n"
        "sock.settimeout(5.0)\n"
        "print(sock.send(b'x'), flush=True)\n"
    )
    with lab.running(), socket.create_server(("0.0.0.0", 0)) as server:
        server.settimeout(10.0)
        host = lab.client.host
        port = server.getsockname()[1]
        process = subprocess.Popen(
            [*RUN, "--only", host, "--", sys.executable, "-c", code, host, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process, server.accept()[0] as sock:
            assert process.stdin is not None
            assert process.stdout is not None
            sent = int(process.stdout.readline().split()[0])
            sock.settimeout(10.0)
            while sent > 0:
                sent -= len(sock.recv(1 << 20))
            process.stdin.write("go\n")
            process.stdin.flush()
            assert process.stdout.readline() == "1\n"
