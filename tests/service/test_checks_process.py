"""Active checks and the life of a process: they never hold its end up, and a fork begins anew."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

PROMPT = 8.0  # seconds for a process to begin, do its work and end; it takes a half

PROLOGUE = """
import os, socket, sys, threading
import outlast
from outlast.net.address import literal
from outlast.net.kernel import kernel
from outlast.service.check_kinds import CallCheck, TcpCheck
from outlast.service.checks import ActiveChecks
from outlast.http.check_http import HttpCheck

listener = socket.create_server(("127.0.0.1", 0))
address = literal("127.0.0.1", listener.getsockname()[1])
told = threading.Event()
verdicts = []

def hear(address, up, why, now, evidence):
    verdicts.append((os.getpid(), up))
    told.set()

def begin(kind):
    checks = ActiveChecks(kernel(), "target", kind, lambda: (address,), hear)
    checks.touch(kernel().now())
    return checks

def heard():
    assert told.wait(5)
"""

ENDS = {
    "checks that pass": "checks = begin(TcpCheck(interval=0.05, fast_interval=0.05)); heard()",
    "a check that waits": """
        checks = begin(HttpCheck(timeout=60))
        sock, _ = listener.accept()
        sock.settimeout(5)
        assert sock.recv(1)
    """,
    "a call that hangs": """
        entered = threading.Event()
        def call(address):
            entered.set()
            threading.Event().wait(60)
            return True
        checks = begin(CallCheck(call, timeout=60))
        assert entered.wait(5)
    """,
    "many targets": """
        kept = [begin(TcpCheck(interval=0.05, fast_interval=0.05)) for _ in range(50)]
        heard()
    """,
    "checks that are nobody's any more": "checks = begin(TcpCheck()); heard(); del checks",
    "an exit in the middle": "checks = begin(TcpCheck()); heard(); sys.exit(0)",
    "an atexit that uses it": """
        import atexit
        checks = begin(TcpCheck())
        heard()
        atexit.register(lambda: checks.touch(kernel().now()))
        atexit.register(checks.stop)
    """,
}


def run(body: str, *options: str) -> str:
    """Run a program; it has to end by itself, promptly, and to say nothing on stderr."""
    done = subprocess.run(
        [sys.executable, *options, "-c", PROLOGUE + textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=PROMPT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_a_process_comes_at_once(name: str) -> None:
    run(ENDS[name], "-X", "dev", "-W", "error", "-W", "ignore::ResourceWarning")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("kind", ["TcpCheck(", "CallCheck(lambda address: True, "])
def test_the_child_of_a_fork_begins_anew_and_the_parent_goes_on(kind: str) -> None:
    out = run(
        f"""
        checks = begin({kind}interval=0.02, fast_interval=0.02))
        heard()
        number = os.fork()
        told.clear()
        verdicts.clear()
        if number == 0:
            assert not checks.running
            checks.touch(kernel().now())
            heard()
            assert checks.running
            assert {{pid for pid, _ in verdicts}} == {{os.getpid()}}
            os._exit(0)
        heard()
        _, code = os.waitpid(number, 0)
        told.clear()
        heard()
        print(code, {{up for _, up in verdicts}})
        """,
        *("-W", "ignore::DeprecationWarning"),
    )
    assert out == "0 {True}\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_while_a_check_waits_leaves_the_parents_connection_alone() -> None:
    out = run(
        """
        checks = begin(HttpCheck(timeout=5))
        sock, _ = listener.accept()
        sock.settimeout(5)
        assert sock.recv(65536)
        number = os.fork()
        if number == 0:
            checks.stop()
            del checks
            os._exit(0)
        assert os.waitpid(number, 0)[1] == 0
        sock.sendall(b"HTTP/1.1 204 Yes\\r\\n\\r\\n")
        heard()
        print(*verdicts[0][1:])
        """,
        *("-W", "ignore::DeprecationWarning"),
    )
    assert out == "True\n"
