"""Listening sockets: opened, accepted from, taken over; Unix sockets and who may connect."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.net import listening
from outlast.net.address import Address
from outlast.net.listening import Listener, NoRoom, listen_tcp, listen_unix, take_over
from tests.net.pairs import PATIENCE

HERE = ("127.0.0.1", "::1")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: that of a Unix socket has little room."""
    with tempfile.TemporaryDirectory(prefix="outlast-") as name:
        yield Path(name)


def closed(*listeners: Listener) -> None:
    for each in listeners:
        each.close()


def test_both_families_on_one_port() -> None:
    found = listen_tcp(HERE, 0, what="listen ':0'")
    try:
        assert [each.address.host for each in found] == list(HERE)
        assert len({each.address.port for each in found}) == 1
        for each in found:
            assert each.accept() is None
            with socket.create_connection(each.address.pair, PATIENCE) as client:
                accepted = each.accept()
                assert accepted is not None
                sock, peer = accepted
                with sock:
                    assert peer.endswith(f":{client.getsockname()[1]}")
                    assert sock.getblocking() is False
                    assert not os.get_inheritable(sock.fileno())
    finally:
        closed(*found)


def test_a_family_that_this_machine_lacks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = listening._opened

    def no_v6(address: Address) -> Listener:
        if ":" in address.host:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return opened(address)

    monkeypatch.setattr(listening, "_opened", no_v6)
    found = listen_tcp(HERE, 0, what="listen ':0'")
    assert [each.address.host for each in found] == ["127.0.0.1"]
    closed(*found)
    with pytest.raises(OSError, match=r"listen 'x': cannot listen on \[::1\]:9: .*no such address"):
        listen_tcp(["::1"], 9, what="listen 'x'")
    with pytest.raises(OSError, match=r"this machine has none of ::1, ::2"):
        listen_tcp(["::1", "::2"], 9, what="listen 'x'")


def test_a_free_port_that_is_taken_on_the_other_family_is_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = listening._opened
    times: list[Address] = []

    def taken_at_first(address: Address) -> Listener:
        if ":" in address.host and len(times) < 2:
            times.append(address)
            raise OSError(errno.EADDRINUSE, "Address already in use")
        return opened(address)

    monkeypatch.setattr(listening, "_opened", taken_at_first)
    closed(*listen_tcp(HERE, 0, what="listen ':0'"))
    assert len(times) == 2


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = rf"^\[Errno \d+\] listen ':1': cannot listen on 127.0.0.1:{port}, .*another program"
        with pytest.raises(OSError, match=said):
            listen_tcp(HERE, port, what="listen ':1'")


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS])
def test_no_room_is_told_apart(code: int) -> None:
    with contextlib.closing(Listener(_Failing(code))) as listener, pytest.raises(NoRoom) as caught:
        listener.accept()
    assert caught.value.errno == code


def test_a_connection_that_is_gone_is_none_and_a_broken_listener_is_an_error() -> None:
    with contextlib.closing(Listener(_Failing(errno.ECONNABORTED))) as listener:
        assert listener.accept() is None
    with contextlib.closing(Listener(_Failing(errno.EBADF))) as listener:
        with pytest.raises(OSError, match="bad"):
            listener.accept()


class _Failing(socket.socket):
    """Accepts nobody, for this reason."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code

    def accept(self) -> tuple[socket.socket, object]:
        raise OSError(self.code, "bad")


# -- Unix ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_the_file_has_its_permissions_whatever_the_umask(folder: Path, mode: int) -> None:
    path = folder / "s"
    before = os.umask(0o777)
    try:
        listener = listen_unix(str(path), mode, what="listen")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        accepted = listener.accept()
        assert accepted is not None
        accepted[0].close()
        assert accepted[1] == "a local client"
    listener.close()
    assert not path.exists()
    listener.close()


def test_what_a_dead_process_left_is_replaced(folder: Path) -> None:
    path = folder / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    listen_unix(str(path), 0o600, what="listen").close()
    assert not path.exists()


def test_what_is_alive_or_no_socket_is_left_alone(folder: Path) -> None:
    path = folder / "s"
    with contextlib.closing(listen_unix(str(path), 0o600, what="listen")):
        with pytest.raises(OSError, match=r"listen 'x': cannot listen on .*another program"):
            listen_unix(str(path), 0o600, what="listen 'x'")
    path.write_text("mine")
    with pytest.raises(OSError, match="a file that is no socket; remove it yourself"):
        listen_unix(str(path), 0o600, what="listen")
    assert path.read_text() == "mine"
    with pytest.raises(OSError, match="No such file or directory"):
        listen_unix(str(folder / "no" / "s"), 0o600, what="listen")


def test_a_file_that_is_somebody_elses_by_now_stays(folder: Path) -> None:
    path = folder / "s"
    listener = listen_unix(str(path), 0o600, what="listen")
    path.unlink()
    path.write_text("new")
    listener.close()
    assert path.exists()
    gone = listen_unix(str(folder / "t"), 0o600, what="listen")
    (folder / "t").unlink()
    gone.close()


# -- taken over ------------------------------------------------------------------------------------


def test_an_inherited_socket_is_listened_on_and_not_inherited_further(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as handed:
        number = os.dup(handed.fileno())
        os.set_inheritable(number, True)
        with contextlib.closing(take_over(number, what="listen")) as listener:
            assert listener.address.port == handed.getsockname()[1]
            assert not listener.ours
            assert not os.get_inheritable(number)


def test_an_inherited_unix_socket_keeps_its_file(folder: Path) -> None:
    path = folder / "s"
    with socket.socket(socket.AF_UNIX) as handed:
        handed.bind(str(path))
        handed.listen()
        take_over(os.dup(handed.fileno()), what="listen").close()
    assert path.exists()


def test_what_is_no_listening_socket_is_refused_and_not_closed(folder: Path) -> None:
    read, write = os.pipe()
    with pytest.raises(ValueError, match=f"listen 'fd:x': descriptor {read} is no socket"):
        take_over(read, what="listen 'fd:x'")
    os.close(write)
    os.close(read)
    with socket.socket() as silent, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        for sock in (silent, datagrams):
            with pytest.raises(ValueError, match="does not listen for connections"):
                take_over(sock.fileno(), what="listen")
            sock.getsockname()
