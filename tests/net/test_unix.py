"""Unix sockets behind the seam: what a dial says at once, and what is never set on them."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.net import address as addresses
from outlast.net.address import Address, unix_address
from outlast.net.kernel import KernelNetwork, KernelStream
from outlast.net.options import Keepalive, LocalRefusal, SocketPlan
from outlast.net.run import run_sync
from outlast.net.seam import READ, WRITE, Wait
from outlast.net.unix import UnixStream
from tests.net.far_side import PATIENCE

EVERYTHING = SocketPlan(keepalive=Keepalive(), user_timeout=11.0, rto_max=2.0, nodelay=True)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Somebody listens, with room for one."""
    with tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"{folder}/s")
            made.listen(0)
            made.settimeout(PATIENCE)
            yield made


def dialled(listener: socket.socket, plan: SocketPlan = EVERYTHING) -> KernelStream:
    return KernelNetwork().dial(unix_address(listener.getsockname()), plan)


def test_bytes_go_both_ways(listener: socket.socket) -> None:
    network = KernelNetwork()
    stream = network.dial(unix_address(listener.getsockname()), EVERYTHING)

    async def ready(mask: int) -> bool:
        return bool(await Wait(((stream, mask),), network.now() + PATIENCE))

    with listener.accept()[0] as far, contextlib.closing(stream):
        assert run_sync(network, ready(WRITE))
        stream.connected()
        assert stream.send(b"hello") == 5
        assert (far.recv(100), stream.written) == (b"hello", 5)
        assert stream.quiet()
        far.sendall(b"world")
        assert run_sync(network, ready(READ))
        assert not stream.quiet()
        assert stream.recv(100) == b"world"
        assert stream.recv(100) is None
        far.shutdown(socket.SHUT_WR)
        assert stream.recv(100) == b""


def test_what_it_is(listener: socket.socket) -> None:
    with contextlib.closing(dialled(listener)) as stream:
        path = listener.getsockname()
        assert isinstance(stream, UnixStream)
        assert stream.address == Address(socket.AF_UNIX, path)
        assert (stream.address.host, stream.address.port, stream.local_port) == (path, 0, 0)
        assert str(stream.address) == f"unix:{path}"


def test_no_option_of_tcp_is_tried(listener: socket.socket) -> None:
    """Nothing is noted as refused, because nothing was asked for."""
    with contextlib.closing(dialled(listener)) as stream:
        stream.connected()
        assert list(stream.notes) == []
        assert stream.state() is None
        assert stream.linked()
        assert stream.keepalive is None
        stream.set_user_timeout(1.0)
        stream.set_keepalive(Keepalive())
        assert not stream.detach().getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_the_callers_own_options_are_set(listener: socket.socket) -> None:
    option = (socket.SOL_SOCKET, socket.SO_PASSCRED)
    with contextlib.closing(dialled(listener, SocketPlan(extra=((*option, 1),)))) as stream:
        assert stream.detach().getsockopt(*option) == 1
    with pytest.raises(LocalRefusal, match="socket option"):
        dialled(listener, SocketPlan(extra=((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)))


def test_a_local_address_is_refused(listener: socket.socket) -> None:
    with pytest.raises(LocalRefusal, match="no local address"):
        dialled(listener, SocketPlan(source=("127.0.0.1", 0)))


def test_why_not(listener: socket.socket) -> None:
    """The kernel says it at once, and which socket it was about is told."""
    folder = Path(listener.getsockname()).parent
    with contextlib.closing(dialled(listener)):
        with pytest.raises(BlockingIOError) as failure:
            dialled(listener)
    assert failure.value.errno == errno.EAGAIN
    for name, code in (("none", errno.ENOENT), (".", errno.ECONNREFUSED)):
        path = str(folder / name)
        with pytest.raises(OSError, match=f"unix:{path}") as other:
            KernelNetwork().dial(unix_address(path), SocketPlan())
        assert other.value.errno == code
    with pytest.raises(OSError, match="path too long"):
        KernelNetwork().dial(unix_address("x" * 200), SocketPlan())


def test_an_abort_and_a_shut(listener: socket.socket) -> None:
    with contextlib.closing(dialled(listener)) as stream, listener.accept()[0] as far:
        far.settimeout(PATIENCE)
        stream.shut()
        assert far.recv(1) == b""
        stream.abort()
        stream.abort()


def test_who_is_on_the_other_side(listener: socket.socket) -> None:
    """The socket that is handed out is a plain one: its peer's credentials can be asked for."""
    with contextlib.closing(dialled(listener)) as stream:
        size = struct.calcsize("3i")
        raw = stream.detach().getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        assert len(raw) == size


def test_abstract_names_are_written_with_an_at() -> None:
    assert str(unix_address("\0orders")) == "unix:@orders"


def test_a_platform_without_unix_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "UNIX", None)
    with pytest.raises(ValueError, match="this platform has no Unix sockets"):
        unix_address("/run/x.sock")
