"""What a service manager hands over and is told."""

from __future__ import annotations

import os
import socket
import tempfile

import pytest

from outlast.net.systemd import handed_sockets, notify


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, []),
        ({"LISTEN_FDS": "", "LISTEN_PID": "7"}, []),
        ({"LISTEN_FDS": "0", "LISTEN_PID": "7"}, []),
        ({"LISTEN_FDS": "2", "LISTEN_PID": "7"}, [("unknown", 3), ("unknown", 4)]),
        (
            {"LISTEN_FDS": "2", "LISTEN_PID": "7", "LISTEN_FDNAMES": "db:db"},
            [("db", 3), ("db", 4)],
        ),
        (
            {"LISTEN_FDS": "1", "LISTEN_PID": "7", "LISTEN_FDNAMES": "a b.socket"},
            [("a b.socket", 3)],
        ),
    ],
)
def test_what_is_handed_over(environ: dict[str, str], found: list[tuple[str, int]]) -> None:
    assert handed_sockets(environ, 7) == found


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"LISTEN_FDS": "1"}, "LISTEN_PID='' is no number"),
        ({"LISTEN_FDS": "1", "LISTEN_PID": "8"}, "LISTEN_PID=8 is another process than this one"),
        ({"LISTEN_FDS": "x", "LISTEN_PID": "7"}, "LISTEN_FDS='x' is no number"),
        ({"LISTEN_FDS": "-1", "LISTEN_PID": "7"}, "LISTEN_FDS='-1' is no number"),
        (
            {"LISTEN_FDS": "2", "LISTEN_PID": "7", "LISTEN_FDNAMES": "a"},
            "LISTEN_FDNAMES='a' names 1 sockets of 2",
        ),
    ],
)
def test_what_makes_no_sense(environ: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        handed_sockets(environ, 7)


def test_it_is_told_on_a_path_and_on_an_abstract_name() -> None:
    with tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        for bound, told in (
            (f"{folder}/n", f"{folder}/n"),
            (f"\0outlast-{os.getpid()}", f"@outlast-{os.getpid()}"),
        ):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.bind(bound)
                manager.settimeout(10.0)
                assert notify({"NOTIFY_SOCKET": told}, "READY=1", "STATUS=x")
                assert manager.recv(100) == b"READY=1\nSTATUS=x"


@pytest.mark.parametrize("where", [None, "", "vsock:2:1234", "/no/such/socket"])
def test_nobody_to_tell_is_no_error(where: str | None) -> None:
    environ = {} if where is None else {"NOTIFY_SOCKET": where}
    assert not notify(environ, "READY=1")
