"""A lab leaves nothing behind, whichever way it ends, and says why where it cannot be."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.testing import KernelLab, privileges
from outlast.testing.kernel_lab import main
from tests.guards import working_threads
from tests.lab.wire import ask, children

LIMIT = 30.0
USER_NAMESPACE = ["unshare", "--user", "--map-root-user", "--net", "--mount"]


def spaces_in_use() -> set[int]:
    """The network namespaces that any process is in or holds open."""
    found = set()
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has just ended
            for link in (Path(f"/proc/{pid}/ns/net"), *Path(f"/proc/{pid}/fd").iterdir()):
                with contextlib.suppress(OSError):
                    found.add(link.stat().st_ino)
    return found


def run(*command: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=LIMIT, check=False
    )


CRASH = """
import os, sys
from outlast.testing import KernelLab
net = KernelLab()
a, b = net.node("a"), net.node("b")
orders = net.service("orders.shop.svc:8080", pods=[a.pod(), b.pod()])
a.pods[0].freeze()
b.black_hole()
b.delay(0.1)
spaces = [os.fstat(s.fd).st_ino for s in (net.fabric, net.client.space, a.space, b.space)]
with net.running():
    print(*spaces, flush=True)
    sys.stdin.read()
"""


def test_a_killed_owner_leaves_nothing(lab: KernelLab) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CRASH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        spaces = {int(inode) for inode in owner.stdout.readline().split()}
        processes = children(owner.pid)
        watched = [os.pidfd_open(process) for process in processes]
        try:
            assert (len(spaces), len(processes)) == (4, 3)
            assert spaces <= spaces_in_use()
            owner.send_signal(signal.SIGKILL)
            for process in watched:
                assert select.select([process], [], [], LIMIT)[0], "a process outlived its lab"
        finally:
            for process in watched:
                os.close(process)
    assert not spaces & spaces_in_use()


def test_close_leaves_nothing_and_may_be_repeated(lab: KernelLab) -> None:
    files, threads = len(os.listdir("/proc/self/fd")), working_threads()
    net = KernelLab()
    a = net.node("a")
    net.service("orders.shop.svc:8080", pods=[a.pod(), a.pod()])
    a.pods[0].freeze()
    a.power_off()
    spaces = {os.fstat(s.fd).st_ino for s in (net.fabric, net.client.space, a.space)}
    pods = children(os.getpid())
    assert spaces <= spaces_in_use()
    net.close()
    net.close()
    assert not spaces & spaces_in_use()
    assert not pods & children(os.getpid())
    assert len(os.listdir("/proc/self/fd")) == files
    assert working_threads() == threads
    assert a.pods[0].counts()["requests"] == 0


def test_close_while_pods_are_starting(lab: KernelLab) -> None:
    with KernelLab() as net:
        pods = [net.node(name).pod() for name in "abc"]
    assert not any(pod.running for pod in pods)


FORK = """
import os, sys
from outlast.testing import KernelLab
with KernelLab() as net:
    net.node("a")
    child = os.fork()
    if child == 0:
        links = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                 if os.path.lexists(f"/proc/self/fd/{fd}")]
        os._exit(len([link for link in links if link.startswith("net:")]))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), net.node("b").on)
"""


def test_a_fork_holds_no_namespace(lab: KernelLab) -> None:
    done = run(sys.executable, "-W", "ignore", "-c", FORK)
    assert (done.stdout, done.stderr) == ("0 True\n", "")


INSIDE = """
from outlast.testing import KernelLab
from tests.lab.wire import ask
with KernelLab() as net:
    orders = net.service("orders.shop.svc:8080", pods=[net.node("a").pod()])
    with net.running():
        print(ask(orders.address)["pod"])
"""


def test_in_a_user_namespace(lab: KernelLab) -> None:
    probe = run(*USER_NAMESPACE, "true")
    if probe.returncode != 0:
        pytest.skip(f"no user namespaces here: {probe.stderr}")
    done = run(*USER_NAMESPACE, sys.executable, "-c", INSIDE)
    assert (done.stdout, done.stderr) == ("a-1\n", "")


def test_root_without_the_right_is_told(lab: KernelLab) -> None:
    script = "from outlast.testing import KernelLab; print(KernelLab.missing()); KernelLab()"
    powerless = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]
    done = run(*powerless, sys.executable, "-c", script)
    assert "root, but without the right" in done.stdout
    assert "RuntimeError: no kernel lab here: root" in done.stderr


def test_the_command_runs_where_labs_are_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["pytest", "tests/lab"]
    assert privileges.wrapped(command) == command
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    possible = run(*USER_NAMESPACE, "true").returncode == 0
    assert privileges.wrapped(command) == [*USER_NAMESPACE, *command] if possible else command
    monkeypatch.setattr(subprocess, "run", raising)
    assert privileges.wrapped(command) == command


def raising(*args: object, **kwargs: object) -> None:
    raise FileNotFoundError("unshare")


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    program = [sys.executable, "-m", "outlast.testing.kernel_lab"]
    done = run(*program, "--", sys.executable, "-c", "print('there'); raise SystemExit(7)")
    assert (done.returncode, done.stdout, done.stderr) == (7, "there\n", "")
    for wrong in ([], ["--"], ["pytest"]):
        assert main(wrong) == 2
    assert "usage: python -m outlast.testing.kernel_lab -- COMMAND" in capsys.readouterr().err
    assert main(["--", "/no/such/program"]) == 127


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privileges, "missing", privileges.missing.__wrapped__)
    monkeypatch.setattr(shutil, "which", lambda tool, path: None)
    assert "'nft' is missing" in str(KernelLab.missing())
    monkeypatch.setattr(sys, "platform", "darwin")
    assert KernelLab.missing() == "the kernel lab needs Linux"


def test_names_are_checked(lab: KernelLab) -> None:
    lab.node("a")
    for name in ("", "a", "client"):
        with pytest.raises(ValueError, match=r"right: net\.node"):
            lab.node(name)
    for name in ("orders", ":80", "orders:0", "orders:65536", "orders:http"):
        with pytest.raises(ValueError, match=r"right: 'orders\.shop\.svc:8080'"):
            lab.service(name)
    lab.service("orders:80")
    with pytest.raises(ValueError, match="exists already"):
        lab.service("orders:80")


def test_the_lab_is_there_quickly(lab: KernelLab) -> None:
    start = os.times().elapsed
    with KernelLab() as net:
        a, b = net.node("a"), net.node("b")
        orders = net.service("orders.shop.svc:8080", pods=[a.pod(), b.pod()])
        with net.running():
            ask(orders.address)
    assert os.times().elapsed - start < 5.0  # 0.15 s on an idle machine
