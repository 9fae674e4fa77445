"""Whether our own link is up; the pulled cable itself is a test of the kernel lab."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from outlast.net import link
from outlast.net.link import own_link_is_up

LINUX = pytest.mark.skipif(not Path("/proc/self/net").exists(), reason="reads Linux's tables")


class Bound:
    """A socket that says it has this local address; the rest is a real socket's."""

    def __init__(self, host: str, real: socket.socket) -> None:
        self.host = host
        self.real = real

    def getsockname(self) -> tuple[str, int]:
        return self.host, 40_000

    def fileno(self) -> int:
        return self.real.fileno()


def is_up(host: str) -> bool:
    with socket.socket() as real:
        bound: Any = Bound(host, real)
        return own_link_is_up(bound)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "fe80::1%x"])
def test_loopback_needs_no_cable(host: str) -> None:
    assert is_up(host) is not host.startswith("fe80")


@LINUX
@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1"])
def test_an_address_that_no_interface_has_any_more(host: str) -> None:
    assert is_up(host) is False


@LINUX
@pytest.mark.parametrize("flags", [0x1 | 0x40, 0x1, 0x40, 0x0])
def test_the_interface_must_be_up_and_run(monkeypatch: pytest.MonkeyPatch, flags: int) -> None:
    """As on a machine whose one cable is that interface."""
    monkeypatch.setattr(link, "_four", lambda sock, host: iter([b"eth0:1".ljust(16, b"\0")]))
    asked = []

    def ioctl(number: int, request: int, name: bytes) -> bytes:
        asked.append((request, name.rstrip(b"\0")))
        return name[:16] + flags.to_bytes(2, "little") + name[18:]

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    assert is_up("192.0.2.1") is (flags == 0x41)
    assert asked == [(link.SIOCGIFFLAGS, b"eth0")]


@LINUX
def test_what_the_system_does_not_tell_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> bytes:
        raise OSError(25, "Inappropriate ioctl for device")

    monkeypatch.setattr("fcntl.ioctl", refuse)
    assert is_up("192.0.2.1")
    assert is_up("not an address")
    with socket.socket() as gone:
        pass
    assert own_link_is_up(gone)


def test_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert is_up("192.0.2.1")
