"""Where it listens: Unix sockets, inherited ones, and what happens when descriptors run out."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.shims.forward import Forwarder
from tests.shims.forward.ends import (
    PATIENCE,
    accepted,
    connect,
    deaf_server,
    ends,
    pause,
    read,
    rest,
    target_of,
    until,
    upstream,
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: that of a Unix socket has little room."""
    with tempfile.TemporaryDirectory(prefix="outlast-") as name:
        yield Path(name)


def test_a_unix_socket_for_its_owner_only(folder: Path) -> None:
    path = folder / "db"
    with upstream() as server, Forwarder(f"unix:{path}", target_of(server)) as forwarder:
        assert forwarder.address == str(path)
        assert path.stat().st_mode & 0o777 == 0o600
        with connect(forwarder) as client, accepted(server) as far:
            client.sendall(b"select 1")
            assert read(far, 8) == b"select 1"
            far.sendall(b"1" * 500_000)
            far.shutdown(socket.SHUT_WR)
            assert rest(client) == b"1" * 500_000
            client.shutdown(socket.SHUT_WR)
            until(lambda: forwarder.counts.closed == 1)
    assert not path.exists()


def test_a_unix_socket_for_the_group(folder: Path) -> None:
    path = folder / "db"
    with upstream() as server, Forwarder(f"unix:{path}?mode=660", target_of(server)):
        assert path.stat().st_mode & 0o777 == 0o660


def test_a_local_client_that_is_gone_before_upstream_stands_is_heard_to_the_end(
    folder: Path,
) -> None:
    """Its socket says that it has ended for as long as it is asked; the loop is not kept busy."""
    with deaf_server() as target, Forwarder(f"unix:{folder}/s", target) as forwarder:
        with connect(forwarder) as client:
            client.sendall(b"all I have to say")
        until(lambda: forwarder.counts.accepted == 1)
        pause(0.1)
        spent = time.process_time()
        pause(0.3)
        assert time.process_time() - spent < 0.15
        assert forwarder.counts.open == 1


def test_all_places_or_none(folder: Path) -> None:
    """The second is in use: the first is not left open."""
    path = folder / "db"
    with upstream() as server:
        taken = f"127.0.0.1:{server.getsockname()[1]}"
        forwarder = Forwarder(f"unix:{path}", "a:1", taken, "b:2")
        with pytest.raises(OSError, match=f"listen '{taken}': .*another program listens there"):
            forwarder.start()
    assert not path.exists()


# -- inherited ------------------------------------------------------------------------------------

# What a service manager does between fork and exec.
HAND_OVER = """
import json, os, sys
given = json.loads(sys.argv[1])
for number, inherited in enumerate(given["descriptors"]):
    os.dup2(inherited, 3 + number, inheritable=True)
os.environ.update(given["environ"], LISTEN_PID=str(os.getpid()))
os.execv(sys.executable, [sys.executable, "-m", "outlast.cli", "forward", *given["arguments"]])
"""


def handed(arguments: list[str], descriptors: list[int], **environ: str) -> subprocess.Popen[str]:
    """The command, with these sockets as a service manager hands them over."""
    given = {"descriptors": descriptors, "arguments": arguments, "environ": environ}
    return subprocess.Popen(
        [sys.executable, "-c", HAND_OVER, json.dumps(given)],
        pass_fds=descriptors,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_sockets_of_a_service_manager_by_name_and_number(folder: Path) -> None:
    """They are listened on before it runs and after it has ended: nobody is refused meanwhile."""
    with (
        upstream() as server,
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
    ):
        manager.bind(str(folder / "n"))
        manager.settimeout(PATIENCE)
        early = socket.create_connection(one.getsockname(), PATIENCE)
        process = handed(
            ["fd:db", target_of(server), "fd:4", target_of(server)],
            [one.fileno(), two.fileno()],
            LISTEN_FDS="2",
            LISTEN_FDNAMES="db:cache",
            NOTIFY_SOCKET=str(folder / "n"),
        )
        try:
            assert manager.recv(100).startswith(b"READY=1")
            late = socket.create_connection(two.getsockname(), PATIENCE)
            for client in (early, late):
                with client, accepted(server) as far:
                    client.sendall(b"x")
                    assert read(far, 1) == b"x"
            process.terminate()
            assert manager.recv(100).startswith(b"STOPPING=1")
            process.communicate(timeout=PATIENCE)
            assert process.returncode == 0
            socket.create_connection(one.getsockname(), PATIENCE).close()
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize(
    ("listen", "environ", "said"),
    [
        ("fd:db", {}, "no socket of that name was handed over; there are: none (LISTEN_FDS"),
        (
            "fd:db",
            {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "cache"},
            "there are: cache",
        ),
        ("fd:9", {"LISTEN_FDS": "1"}, "descriptor 9 was not handed over; 3 were"),
        ("fd:987", {}, "descriptor 987 is no socket"),
    ],
)
def test_what_was_not_handed_over(listen: str, environ: dict[str, str], said: str) -> None:
    environ = {**environ, "LISTEN_PID": str(os.getpid())}
    forwarder = Forwarder(listen, "a:1", environ=environ)
    with pytest.raises(ValueError, match="listen 'fd:") as caught:
        forwarder.open()
    assert said in str(caught.value)


# -- descriptors run out ------------------------------------------------------------------------

SHORT_OF_DESCRIPTORS = """
import logging, os, resource, sys
from outlast.shims.forward import Forwarder
logging.basicConfig(format="%(message)s")
forwarder = Forwarder("127.0.0.1:0", sys.argv[1], max_connections=100)
forwarder.open()
print(forwarder.address[1], flush=True)
highest = max(map(int, os.listdir("/proc/self/fd")))
resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 8, highest + 8))
forwarder.run()
"""


def test_without_descriptors_others_wait_and_nothing_spins() -> None:
    """A process that has room for four: the others are served when those have gone."""
    with upstream() as server:
        process = subprocess.Popen(
            [sys.executable, "-c", SHORT_OF_DESCRIPTORS, target_of(server)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            port = int(process.stdout.readline())
            clients = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(12)]
            assert "cannot accept another connection: Too many open files" in (
                process.stderr.readline()
            )
            spent = cpu_seconds(process.pid)
            pause(0.6)
            assert cpu_seconds(process.pid) - spent < 0.2
            for client in clients:
                with client, accepted(server) as far:
                    client.sendall(b"x")
                    assert read(far, 1) == b"x"
        finally:
            process.kill()
            process.communicate()


def cpu_seconds(process: int) -> float:
    """What a process has used."""
    stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def test_a_pipe_that_cannot_be_had_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bulk is copied where no pipe is to be had."""

    def refuses(_flags: int) -> tuple[int, int]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pipe2", refuses)
    with ends() as both:
        both.client.sendall(bytes(1_000_000))
        assert read(both.far, 1_000_000) == bytes(1_000_000)
