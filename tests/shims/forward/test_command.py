"""`outlast forward`: what it refuses, what it prints, and how it ends."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from outlast.cli.app import app
from outlast.net.moving import abort
from tests.shims.forward.ends import PATIENCE, accepted, is_reset, read, target_of, upstream


@contextlib.contextmanager
def command(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[tuple[str, int]]]]:
    """The command in a process of its own, and where it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "outlast.cli", "forward", *arguments],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "forwarding" in line, line + process.stderr.read()
        places = re.findall(r"(?:([\d.]+)|\[([\d:a-f]+)\]):(\d+)", line.partition(" -> ")[0])
        yield process, [(four or six, int(port)) for four, six, port in places]
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    """What it has printed up to its end."""
    process.wait(PATIENCE)
    assert process.stderr is not None
    return process.stderr.read()


def test_it_forwards_explains_and_drains() -> None:
    with (
        upstream() as server,
        command("127.0.0.1:0", target_of(server), "--explain") as (
            process,
            places,
        ),
    ):
        client = socket.create_connection(places[0], PATIENCE)
        with client, accepted(server) as far:
            process.send_signal(signal.SIGTERM)
            refused(places[0])
            client.sendall(b"still here")
            assert read(far, 10) == b"still here"
        text = said(process)
        assert process.returncode == 0
        assert "connected in" in text
        assert "closed by both sides after" in text
        assert "INFO: draining" in text
        assert "10 bytes up, 0 down" in text


def refused(place: tuple[str, int]) -> None:
    """Until nobody listens there."""
    for _ in range(10_000):
        try:
            abort(socket.create_connection(place, PATIENCE))
        except ConnectionRefusedError:
            return
        except ConnectionResetError:  # it was in the queue when that was closed
            continue
    pytest.fail("it takes connections for ever")


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(first: signal.Signals) -> None:
    with upstream() as server, command("127.0.0.1:0", target_of(server)) as (process, places):
        client = socket.create_connection(places[0], PATIENCE)
        with client, accepted(server):
            process.send_signal(first)
            refused(places[0])
            process.send_signal(signal.SIGTERM)
            assert is_reset(client)
            assert re.search(r"\d cut", said(process))  # who was in the queue, too
        assert process.returncode == 0


def test_the_drain_has_a_bound() -> None:
    with (
        upstream() as server,
        command("127.0.0.1:0", target_of(server), "--drain", "100ms") as (process, places),
    ):
        with socket.create_connection(places[0], PATIENCE) as client, accepted(server):
            process.send_signal(signal.SIGTERM)
            assert is_reset(client)
            assert "1 cut" in said(process)


def test_a_port_alone_is_this_machine_by_both_families_and_an_open_one_is_said() -> None:
    with (
        upstream() as server,
        command(":0", target_of(server), "0.0.0.0:0", target_of(server)) as (process, places),
    ):
        assert places[0][0] == "127.0.0.1"
        assert all(host in ("127.0.0.1", "::1") for host, _ in places)
        process.terminate()
        assert "note: 0.0.0.0:0 is open to whoever can reach this machine" in said(process)


def test_targets_of_the_configuration(tmp_path: Path) -> None:
    """The same table as for the other shims."""
    with upstream() as server:
        config = tmp_path / "outlast.toml"
        config.write_text(
            f'[targets]\n"db.shop.svc:5432" = "{target_of(server)}"\n[policy]\nwatch = false\n'
        )
        arguments = ("127.0.0.1:0", "db.shop.svc:5432", "--config", str(config))
        with command(*arguments, "--connect-timeout", "3s") as (_, places):
            with socket.create_connection(places[0], PATIENCE) as client, accepted(server) as far:
                client.sendall(b"x")
                assert read(far, 1) == b"x"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], 2, "nothing to forward"),
        ([":0"], 2, "':0' has no target; LISTEN and TARGET come in pairs"),
        (["5432", "a:1"], 2, "write ':5432' for this machine only"),
        ([":0", "a"], 2, "target 'a': 'a' has no port"),
        ([":0", "k8s://shop/db:5432"], 2, "k8s:// is not available yet"),
        ([":0", "a:1", "--idle-timeout", "0"], 2, "idle_timeout: 0 would cut every connection"),
        ([":0", "a:1", "--idle-timeout", "soon"], 2, "'--idle-timeout': 'soon' is no duration"),
        ([":0", "a:1", "--drain", "-1"], 2, "'--drain': -1.0 is no duration"),
        ([":0", "a:1", "--max-connections", "0"], 2, "'--max-connections': 0 is not in the range"),
        ([":0", "a:1", "--max-connections", "1000000"], 2, "no whole number from 1 to 100000"),
        ([":0", "a:1", "--connect-timeout", "0"], 2, "connect_timeout"),
        ([":0", "a:1", "--config", "/no/such.toml"], 2, "'/no/such.toml' does not exist"),
        (["fd:db", "a:1"], 2, "no socket of that name was handed over"),
        (["unix:/no/such/folder/s", "a:1"], 1, "No such file or directory"),
    ],
)
def test_what_is_refused(arguments: list[str], code: int, told: str) -> None:
    done = CliRunner().invoke(app, ["forward", *arguments])
    assert told in " ".join(done.output.split())
    assert done.exit_code == code


def test_a_port_in_use_is_an_error_and_no_misuse() -> None:
    with upstream() as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        done = CliRunner().invoke(app, ["forward", place, "a:1"])
    assert done.exit_code == 1
    assert f"cannot listen on {place}: Address already in use; another program" in done.output


def test_the_help_names_every_form() -> None:
    text = CliRunner().invoke(app, ["forward", "--help"], terminal_width=80).output
    for word in ("127.0.0.1:5432", "unix:", "fd:name", "0.0.0.0:5432", "static://", "--drain"):
        assert word in text
