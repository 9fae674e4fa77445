"""The fault on loopback really bites, and only new connections to the one pod."""

from __future__ import annotations

import socket
import sys

import pytest

from outlast.cli.loopback import LoopbackStage

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")

ANSWERED = 2.0  # a bound for what comes at once
SILENT = 0.1  # a SYN that is not answered by then was dropped; loopback takes microseconds


def ask(url: str, limit: float) -> bytes | None:
    """The pod's answer over a new connection; None when the connection is not answered."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    try:
        sock = socket.create_connection((host, int(port)), limit)
    except TimeoutError:
        return None
    with sock:
        sock.settimeout(ANSWERED)
        sock.sendall(b"GET / HTTP/1.1\r\nhost: pod\r\nconnection: close\r\n\r\n")
        return b"".join(iter(lambda: sock.recv(4096), b""))


def test_a_lost_pod_leaves_new_connections_unanswered_until_it_leaves() -> None:
    with LoopbackStage(0) as stage:
        answers = [ask(stage.url, ANSWERED) or b"" for _ in range(40)]
        # Both pods get a share: that one gets none of 40 has a chance of 2 in 10^12.
        assert {b'"a"' in answer for answer in answers} == {True, False}
        stage.lose()
        answers_now = [ask(stage.url, SILENT) for _ in range(40)]
        assert None in answers_now
        assert all(b'"a"' in answer for answer in answers_now if answer is not None)
        assert len(set(answers_now)) > 1
        stage.leave()
        assert all(b'"a"' in (ask(stage.url, ANSWERED) or b"") for _ in range(40))
        assert [one.what for one in stage.happenings] == [
            "pod b stops accepting",
            "endpoint leaves",
        ]


def test_an_accepted_connection_is_served_to_its_end() -> None:
    with LoopbackStage(0) as stage:
        host, _, port = stage.url.removeprefix("http://").rpartition(":")
        open_ = [socket.create_connection((host, int(port)), ANSWERED) for _ in range(10)]
        for sock in open_:  # an answer shows that the pod has accepted it
            sock.sendall(b"GET / HTTP/1.1\r\nhost: pod\r\n\r\n")
            assert sock.recv(4096)
        stage.lose()
        for sock in open_:
            with sock:
                sock.sendall(b"GET / HTTP/1.1\r\nhost: pod\r\n\r\n")
                assert sock.recv(4096)
