"""The supervisor dials nothing for a program that the program could not dial itself.

What each case would see if it did: a connection, where the kernel gives the program an error. A
program with Landlock is in `test_run`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import threading

import pytest

from outlast.shims.run import alike
from outlast.shims.run.alike import Likeness
from outlast.shims.run.processes import Processes, Task
from tests.shims.run.command import LOOPBACK, run

pytestmark = [pytest.mark.usefixtures("supervised"), pytest.mark.timeout(90)]

ELSEWHERE = """
import ctypes, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000 | 0x40000000) and libc.unshare(0x40000000):  # user and network, or that
    sys.exit("no namespaces")
with socket.socket() as sock:
    print(sock.connect_ex(("127.0.0.1", int(sys.argv[1]))))
"""

ANOTHER_USER = """
import os, socket, sys
with socket.socket() as before:
    print(before.connect_ex(("127.0.0.1", int(sys.argv[1]))))
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
with socket.socket() as sock:
    print(sock.connect_ex(("127.0.0.1", int(sys.argv[1]))))
"""


def test_a_network_of_the_programs_own_is_the_only_one_it_reaches(port: int) -> None:
    done = run("--explain", *LOOPBACK, program=["-c", ELSEWHERE, str(port)])
    if "no namespaces" in done.stderr:
        pytest.skip("this system lets nobody make namespaces")
    assert int(done.stdout) == errno.ENETUNREACH  # its loopback is down
    assert "left alone: another network namespace" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_another_users_socket_is_left_to_the_kernel(port: int) -> None:
    done = run("--explain", *LOOPBACK, program=["-c", ANOTHER_USER, str(port)])
    assert done.stdout.split() == ["0", "0"], done.stderr
    assert "left alone: another user's socket" in done.stderr
    assert done.stderr.count("on its own socket") == 1


@pytest.fixture
def task() -> Task:
    """This process, as if it were supervised."""
    return Processes().task(threading.get_native_id())


def test_what_is_like_this_process_may_have_further_dials(task: Task) -> None:
    likeness = Likeness()
    with socket.socket() as sock:
        assert likeness.unlike(task, sock) == ""
        assert likeness.apart(task, sock) == ""


def test_a_packet_filter_on_the_socket_would_not_be_on_another(task: Task) -> None:
    code = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0xFFFF))  # BPF_RET, all
    with socket.socket() as sock:
        program = struct.pack("HL", 1, ctypes.addressof(code))
        sock.setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER
        assert Likeness().apart(task, sock) == "a packet filter on the socket"


@pytest.mark.parametrize(
    ("path", "why", "method"),
    [
        ("cgroup", "another control group", "apart"),
        ("attr/current", "another security label", "unlike"),
    ],
)
def test_packet_filters_go_by_more_than_addresses(
    task: Task, monkeypatch: pytest.MonkeyPatch, path: str, why: str, method: str
) -> None:
    """A control group or a security label decides what may be dialled, too."""
    monkeypatch.setattr(alike, "_text", lambda of: b"ours" if "/self/" in of else b"theirs")
    likeness = Likeness()
    with socket.socket() as sock:
        monkeypatch.setattr(
            alike, "_text", lambda of: b"theirs" if of == f"/proc/{task.pid}/{path}" else b"ours"
        )
        assert getattr(likeness, method)(task, sock) == why
