"""TCP_INFO by its offsets, and what is said where it is short or missing."""

from __future__ import annotations

import errno
import struct
from typing import Any

import pytest

from outlast.core.watch import SendState
from outlast.net import tcpinfo
from outlast.net.tcpinfo import LENGTH, read_send_state


class Fake:
    """A socket that gives this buffer, or fails."""

    def __init__(self, raw: bytes | OSError) -> None:
        self.raw = raw

    def getsockopt(self, level: int, number: int, length: int) -> bytes:
        if isinstance(self.raw, OSError):
            raise self.raw
        return self.raw[:length]


@pytest.fixture(autouse=True)
def on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this were Linux."""
    monkeypatch.setattr(tcpinfo, "TCP_INFO", 11)


def buffer() -> bytearray:
    """A struct tcp_info of 280 bytes in which every field of interest differs."""
    raw = bytearray(280)
    raw[4] = 3  # backoff
    struct.pack_into("=I", raw, 24, 7)  # unacked
    struct.pack_into("=I", raw, 56, 1500)  # last_ack_recv, ms
    struct.pack_into("=I", raw, 68, 2500)  # rtt, microseconds
    struct.pack_into("=Q", raw, 120, 1001)  # bytes_acked, the SYN among them
    struct.pack_into("=I", raw, 228, 65_535)  # snd_wnd
    return raw


def read(raw: bytes | OSError) -> SendState | None:
    sock: Any = Fake(raw)
    return read_send_state(sock)


def test_the_fields() -> None:
    assert read(bytes(buffer())) == SendState(
        unacked=7, acked=1000, window=65_535, rtt=0.0025, backoff=3, heard=1.5
    )


def test_nothing_acknowledged_yet() -> None:
    raw = buffer()
    for acked in (0, 1):  # before and after the handshake
        struct.pack_into("=Q", raw, 120, acked)
        state = read(bytes(raw))
        assert state is not None
        assert state.acked == 0


def test_an_older_kernel_gives_less_and_nothing_is_guessed() -> None:
    assert read(bytes(buffer()[: LENGTH - 1])) is None


def test_a_socket_that_is_gone() -> None:
    assert read(OSError(errno.EBADF, "gone")) is None


def test_a_system_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcpinfo, "TCP_INFO", None)
    assert read(bytes(buffer())) is None
