"""`outlast run` on loopback: what a program sees of it, which is nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from outlast.cli.app import app
from tests.shims.run.command import HERE, LOOPBACK, PATIENCE, RUN, children, line, run, started

HEARD = ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGWINCH", "SIGTERM")  # the last one ends it
pytestmark = [pytest.mark.usefixtures("supervised"), pytest.mark.timeout(90)]


def outcomes(text: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(text)
    return found


def test_wrong_connects_are_told_what_the_kernel_tells(port: int) -> None:
    program = [str(HERE / "hostile.py"), str(port)]
    plain = subprocess.run(
        [sys.executable, *program], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    under = run("--explain", *LOOPBACK, program=program)
    assert outcomes(under.stdout) == outcomes(plain.stdout), under.stderr
    assert "on its own socket" in under.stderr  # it was not left alone altogether


def test_threads_that_change_all_under_a_connect_hold_nobody_up(port: int) -> None:
    done = run(*LOOPBACK, program=[str(HERE / "racing.py"), str(port), "0.8"])
    assert done.returncode == 0, done.stderr
    assert "unprotected" not in done.stderr
    found = json.loads(done.stdout)
    assert found["errors"] == []
    assert found["longest"] < 3.0  # a call that is made to block is cut short after a second


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(3)", 3),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_it_ends_as_the_program_ends(code: str, expected: int) -> None:
    assert run(program=["-c", code]).returncode == expected


def test_a_program_that_is_not_there() -> None:
    done = run(program=["no-such-program"], python=False)
    assert done.returncode == 127
    assert "no-such-program: No such file" in done.stderr
    done = run(program=["/"], python=False)
    assert done.returncode == 126


def test_signals_reach_the_program_and_it_is_as_it_would_be_alone() -> None:
    with started(program=[str(HERE / "signals.py")]) as process:
        state, files = line(process), line(process)
        # What Python itself ignores in the program, and whoever started us; nothing of ours.
        gone = [s.name for s in sorted(signal.Signals) if signal.getsignal(s) is signal.SIG_IGN]
        ignored = [name for name in gone if name not in HEARD]
        assert state == f"blocked [] ignored {ignored} nnp 1"
        assert (files, line(process)) == ("files [0, 1, 2]", "ready")
        for name in HEARD:
            process.send_signal(getattr(signal, name))
            assert line(process) == name
        assert process.wait(PATIENCE) == 7


def test_a_stopped_program_stops_the_command_and_goes_on_with_it() -> None:
    with started(program=[str(HERE / "signals.py")]) as process:
        while line(process) != "ready":
            pass
        (supervisor,) = children(process.pid)
        program = children(supervisor)[-1]
        os.kill(program, signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        assert line(process) == "SIGTERM"
        assert process.wait(PATIENCE) == 7


def test_files_that_were_left_open_for_the_program_are_its_own() -> None:
    """Nobody else keeps them open: a reader hears of the end as soon as the program closes."""
    reader, writer = os.pipe()
    waits = "import os, sys; os.write(9, os.environb[b'LISTEN_PID']); os.close(9); os.close(1)\n"
    waits += "sys.stdin.read(); sys.stderr.write(str(os.getpid()))"
    keep = f"import os; os.dup2({writer}, 9); os.closerange(3, 9); os.closerange(10, 64)\n"
    keep += "os.environ['LISTEN_PID'] = str(os.getpid())\n"
    keep += f"os.execv({sys.executable!r}, {[*RUN, '--', sys.executable, '-c', waits]!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", keep],
        pass_fds=[writer],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    with process, open(reader, "rb") as told:
        assert process.stdout is not None
        assert process.stdout.read() == b""  # while the program still runs
        listens = int(told.read())
        _, program = process.communicate(b"go", PATIENCE)
        assert listens == int(program)


def test_closed_standard_files_stay_closed() -> None:
    shell = '"$@" <&- >&-'
    command = ["sh", "-c", shell, "sh", *RUN, "--", "sh", "-c"]
    there = "test -e /proc/$$/fd/0 || test -e /proc/$$/fd/1 || exit 7"
    done = subprocess.run([*command, there], timeout=PATIENCE, check=False)
    assert done.returncode == 7


WAITS = """
import os, socket, sys
print("ready", flush=True)
sys.stdin.readline()
for _ in range(3):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5) as sock:
        sock.sendall(b"x")
        print(sock.recv(12).decode(), flush=True)
"""


@pytest.mark.parametrize("victim", ["supervisor", "front"])
def test_a_killed_supervisor_leaves_a_program_that_goes_on(port: int, victim: str) -> None:
    process = subprocess.Popen(
        [*RUN, *LOOPBACK, "--", sys.executable, "-c", WAITS, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert line(process) == "ready"
        (supervisor,) = children(process.pid)
        os.kill(supervisor if victim == "supervisor" else process.pid, signal.SIGKILL)
        process.stdin.write("go\n")
        process.stdin.flush()
        assert [line(process) for _ in range(3)] == ["HTTP/1.0 200"] * 3
        assert process.wait(PATIENCE) == (0 if victim == "supervisor" else -signal.SIGKILL)


IN_A_CONNECT = """
import ctypes, json, socket, struct, sys
server = socket.create_server(("127.0.0.1", 0), backlog=0)
fillers = [socket.socket() for _ in range(4)]
for each in fillers:
    each.setblocking(False)
    each.connect_ex(server.getsockname())
with socket.socket() as sock:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 2, 0))
    print("connecting", flush=True)
    print(sock.connect_ex(server.getsockname()), flush=True)
"""


def test_a_connect_that_a_killed_supervisor_leaves_behind_ends(port: int) -> None:
    """It is the kernel's from then on, and ends when the kernel ends it: here by SO_SNDTIMEO."""
    with started(*LOOPBACK, program=["-c", IN_A_CONNECT]) as process:
        assert line(process) == "connecting"
        (supervisor,) = children(process.pid)
        program = children(supervisor)[-1]
        call = Path(f"/proc/{program}/syscall")
        while call.read_text().split()[0] not in ("42", "203"):  # connect, x86-64 and aarch64
            os.sched_yield()
        os.kill(supervisor, signal.SIGKILL)
        assert line(process) in ("11", "114", "115")  # EAGAIN, EALREADY, EINPROGRESS
        assert process.wait(PATIENCE) == 0


def test_what_outlives_the_program_is_supervised_still(port: int) -> None:
    code = (
        "import os, socket\n"
        "reader, writer = os.pipe()\n"
        "if os.fork(): os._exit(5)\n"
        "os.close(writer)\n"
        "os.read(reader, 1)\n"  # until the parent has ended
        f"with socket.create_connection(('127.0.0.1', {port}), 5) as sock:\n"
        "    sock.sendall(b'x'); print(sock.recv(12).decode())\n"
    )
    done = run("--explain", *LOOPBACK, program=["-c", code])
    assert done.returncode == 5
    assert done.stdout == "HTTP/1.0 200\n"
    assert "on its own socket" in done.stderr


# -- what is done to connections ---------------------------------------------------------------

OPTIONS = """
import json, socket, sys
names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_NODELAY", "TCP_USER_TIMEOUT")
def told(sock):
    on = sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    return [on, *(sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names)]
found = {}
for label in ("silent", "tuned", "switched on"):
    with socket.socket() as sock:
        if label == "tuned":
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
        if label == "switched on":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.connect(("127.0.0.1", int(sys.argv[1])))
        found[label] = told(sock)
        found["peer"] = sock.getpeername()[1] == int(sys.argv[1])
print(json.dumps(found))
"""


def test_keepalive_stands_where_the_program_says_nothing_of_it(port: int) -> None:
    done = run(*LOOPBACK, program=["-c", OPTIONS, str(port)])
    found = json.loads(done.stdout)
    assert found["silent"] == [1, 5, 1, 6, 0, 0]
    assert found["switched on"] == [1, 5, 1, 6, 0, 0]
    assert found["tuned"][:2] == [0, 77]
    assert found["peer"]


GO = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 5) as sock:
    sock.sendall(b"x")
    print(sock.recv(12).decode(), sock.getpeername()[1], flush=True)
"""


def test_a_mapped_destination_leads_to_the_target(port: int) -> None:
    target = f"10.255.255.1:9=static://127.0.0.1:{port}"
    done = run("--explain", "--target", target, program=["-c", GO, "10.255.255.1", "9"])
    assert done.stdout == f"HTTP/1.0 200 {port}\n"
    assert f"10.255.255.1:9 -> 127.0.0.1:{port}" in done.stderr


def test_a_mapped_name_is_looked_up_by_the_supervisor_too(port: int) -> None:
    target = f"localhost:9=static://127.0.0.1:{port}"
    done = run("--explain", "--target", target, program=["-c", GO, "127.0.0.1", "9"])
    assert done.stdout == f"HTTP/1.0 200 {port}\n", done.stderr


def test_a_target_by_name_is_dialled_before_the_program_goes_on(port: int) -> None:
    target = f"10.255.255.1:9=dns://localhost:{port}"
    done = run("--explain", "--target", target, program=["-c", GO, "10.255.255.1", "9"])
    assert done.stdout == f"HTTP/1.0 200 {port}\n", done.stderr
    assert "socket replaced" in done.stderr


def test_by_default_loopback_is_left_alone(port: int) -> None:
    done = run("--explain", program=["-c", GO, "127.0.0.1", str(port)])
    assert done.stdout.startswith("HTTP/1.0 200")
    assert f"127.0.0.1:{port}: left alone: out of scope" in done.stderr


RESTRICTS_ITSELF = """
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def connect():
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", int(sys.argv[1])))
print(connect())
rules = libc.syscall(444, struct.pack("=QQ", 0, 2), 16, 0)  # no TCP connect to any port
if rules < 0:
    sys.exit("no Landlock for networks here")
libc.prctl(38, 1, 0, 0, 0)
libc.syscall(446, rules, 0)
print(connect(), flush=True)
if not os.fork():
    print(connect(), flush=True)
    os._exit(0)
os.wait()
"""


def test_the_supervisor_dials_nothing_that_a_restricted_program_may_not(port: int) -> None:
    done = run("--explain", *LOOPBACK, program=["-c", RESTRICTS_ITSELF, str(port)])
    if "no Landlock" in done.stderr:
        pytest.skip("this kernel has no Landlock for networks")
    assert done.stdout.split() == ["0", "13", "13"]  # EACCES, the child's too
    assert done.stderr.count("left alone: the program has restricted itself") == 2


RING = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
ring = libc.syscall(425, 1, ctypes.create_string_buffer(256))
print("none" if ring < 0 and ctypes.get_errno() == 38 else "not refused")
"""


def test_io_uring_is_told_of_or_refused() -> None:
    done = run("--explain", program=["-c", RING])
    assert "uses io_uring" in done.stderr
    assert run("--io-uring", "refuse", program=["-c", RING]).stdout == "none\n"


# -- where it is not possible ------------------------------------------------------------------


def test_a_second_supervisor_is_refused_by_name() -> None:
    inner = [*RUN, "--", "true"]
    done = run(program=inner[1:])
    assert done.returncode == 125
    assert "EBUSY" in done.stderr
    assert "Nothing was started" in done.stderr


REFUSED = {"pidfd_getfd": 438, "pidfd_open": 434, "seccomp": 0, "process_vm_readv": 0}


@pytest.mark.parametrize("call", sorted(REFUSED))
def test_what_a_profile_refuses_is_named(call: str) -> None:
    x86 = os.uname().machine == "x86_64"
    number = {"seccomp": 317 if x86 else 277, "process_vm_readv": 310 if x86 else 270}.get(
        call, REFUSED[call]
    )
    command = [sys.executable, str(HERE / "profile.py"), str(number), *RUN]
    done = subprocess.run(
        [*command, "--unprotected", "--", "echo", "runs"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "runs\n")
    assert call in done.stderr
    assert "Operation not permitted" in done.stderr
    assert "profile" in done.stderr or "pidfd_open" in done.stderr


def test_unprotected_runs_the_program_all_the_same() -> None:
    inner = [*RUN, "--unprotected", "--", sys.executable, "-c", "print('runs')"]
    done = run(program=inner[1:])
    assert (done.returncode, done.stdout) == (0, "runs\n")
    assert "unprotected" in done.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--only", "host:99999"], "99999"),
        (["--target", "10.0.0.1:80"], "--target"),
        (["--target", "10.0.0.1:80=ftp://x"], "ftp"),
        (["--config", "/no/such/file.toml"], "/no/such/file.toml"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_started(options: list[str], told: str) -> None:
    done = CliRunner().invoke(app, ["run", *options, "--", "true"])
    assert done.exit_code == 2
    assert told in done.output


def test_other_systems_are_told_what_works_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    done = CliRunner().invoke(app, ["run", "--", "true"])
    assert done.exit_code == 125
    assert "needs Linux; this is darwin" in done.output
    assert "outlast forward" in done.output
    begun: list[list[str]] = []

    def become(_: str, words: list[str]) -> None:
        begun.append(words)
        raise SystemExit(0)

    monkeypatch.setattr("os.execvp", become)
    CliRunner().invoke(app, ["run", "--unprotected", "--", "true", "x"])
    assert begun == [["true", "x"]]


# -- other programs ----------------------------------------------------------------------------


def test_curl(port: int) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    program = ["curl", "-sS", f"http://127.0.0.1:{port}/", f"http://[::1]:{port}/"]
    done = run("--explain", *LOOPBACK, program=program, python=False)
    assert done.stdout == "okok"
    assert done.stderr.count("on its own socket") == 2


def test_node(port: int) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    code = f"require('http').get('http://127.0.0.1:{port}/', r => r.pipe(process.stdout))"
    done = run("--explain", *LOOPBACK, program=["node", "-e", code], python=False)
    assert done.stdout == "ok"
    assert "on its own socket" in done.stderr
