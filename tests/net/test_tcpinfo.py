"""TCP_INFO by its offsets, and what is said where it is short or missing."""

from __future__ import annotations

import errno
import struct
from typing import Any

import pytest

from outlast.core.liveness import Sample
from outlast.net import tcpinfo
from outlast.net.tcpinfo import LENGTH, read_sample


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
    raw[0] = 8  # state
    raw[3] = 2  # probes
    raw[4] = 3  # backoff
    struct.pack_into("=I", raw, 24, 7)  # unacked
    struct.pack_into("=I", raw, 44, 2200)  # last_data_sent, ms
    struct.pack_into("=I", raw, 52, 1700)  # last_data_recv, ms
    struct.pack_into("=I", raw, 56, 1500)  # last_ack_recv, ms
    struct.pack_into("=I", raw, 68, 2500)  # rtt, microseconds
    struct.pack_into("=I", raw, 100, 5)  # total_retrans
    struct.pack_into("=Q", raw, 120, 1001)  # bytes_acked, the SYN among them
    struct.pack_into("=I", raw, 136, 77)  # segs_out
    struct.pack_into("=I", raw, 140, 66)  # segs_in
    struct.pack_into("=I", raw, 144, 333)  # notsent_bytes
    struct.pack_into("=I", raw, 228, 65_535)  # snd_wnd
    return raw


def read(raw: bytes | OSError) -> Sample | None:
    sock: Any = Fake(raw)
    return read_sample(sock)


def test_the_fields() -> None:
    assert read(bytes(buffer())) == Sample(
        unacked=7,
        acked=1000,
        window=65_535,
        rtt=0.0025,
        backoff=3,
        heard=1.5,
        state=8,
        unsent=333,
        probes=2,
        received=1.7,
        sent=2.2,
        resent=5,
        segments_out=77,
        segments_in=66,
    )


def test_silence_ends_with_an_acknowledgement_or_with_data() -> None:
    state = read(bytes(buffer()))
    assert state is not None
    assert state.silence == 1.5
    raw = buffer()
    struct.pack_into("=I", raw, 52, 3)
    state = read(bytes(raw))
    assert state is not None
    assert state.silence == 0.003


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
