"""Listening sockets: opened, taken over, accepted from; never blocking.

A Unix socket's file is made with its permissions before anybody can connect, and a file that a dead
process has left behind is replaced; one that somebody listens on is not. Errors name the address
and what to do.

Sources: accept(2) for what of its errors belongs to a connection and not to the listener; unix(7);
sd_listen_fds(3). Refuses to open an address that was not asked for.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from collections.abc import Sequence

from outlast.net.address import UNIX, Address, literal, unix_address

__all__ = ["BACKLOG", "EXHAUSTED", "Listener", "NoRoom", "listen_tcp", "listen_unix", "take_over"]

BACKLOG = 1024  # connections that wait to be accepted; the kernel caps it at somaxconn
# The machine or the process is out of something; trying again at once would spin.
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# Of the connection that was about to be accepted, or no connection at all.
_PASSING = frozenset(
    getattr(errno, name)
    for name in (
        *("EAGAIN", "EWOULDBLOCK", "ECONNABORTED", "EPROTO", "ENETDOWN", "ENOPROTOOPT"),
        *("EHOSTDOWN", "ENONET", "EHOSTUNREACH", "EOPNOTSUPP", "ENETUNREACH", "EPERM"),
    )
    if hasattr(errno, name)
)
_ACCEPTS = getattr(socket, "SO_ACCEPTCONN", None)


class NoRoom(OSError):
    """There are no descriptors or no memory for another connection just now."""


class Listener:
    """A listening socket. One owner. `ours`: we have opened it, and not whoever started us."""

    __slots__ = ("_file", "_sock", "address", "ours")

    def __init__(self, sock: socket.socket, *, ours: bool = True) -> None:
        sock.setblocking(False)
        self._sock = sock
        self.ours = ours
        name = sock.getsockname()
        self.address = Address(sock.family, name)
        self._file: tuple[str, int, int] | None = None
        if ours and sock.family == UNIX:
            found = os.stat(name)
            self._file = (name, found.st_dev, found.st_ino)

    def fileno(self) -> int:
        """The descriptor, for waiting."""
        return self._sock.fileno()

    def accept(self) -> tuple[socket.socket, str] | None:
        """A connection, non-blocking, and its peer in words; None if there is none now.

        Raises NoRoom if it had to be left waiting, OSError if the listener is broken.
        """
        try:
            sock, peer = self._sock.accept()
        except OSError as error:
            if error.errno in EXHAUSTED:
                raise NoRoom(error.errno, os.strerror(error.errno)) from error
            if error.errno in _PASSING:
                return None
            raise
        sock.setblocking(False)
        return sock, _words(sock.family, peer)

    def place(self) -> int | None:
        """Keep a descriptor for what has to be opened for whoever is accepted next; to be closed
        (`os.close`) just before. None where sockets are no descriptors. Raises NoRoom."""
        if sys.platform == "win32":
            return None
        try:
            return os.dup(self._sock.fileno())
        except OSError as error:
            raise NoRoom(error.errno, os.strerror(error.errno or 0)) from error

    def close(self) -> None:
        """Take no more. A Unix socket's file goes too, if it is still ours."""
        self._sock.close()
        if self._file is not None:
            path, device, inode = self._file
            self._file = None
            try:
                found = os.stat(path)
                if (found.st_dev, found.st_ino) == (device, inode):
                    os.unlink(path)
            except FileNotFoundError:
                return


def _words(family: int, peer: object) -> str:
    if isinstance(peer, tuple):
        return str(Address(family, peer))
    return "a local client"


# -- TCP -----------------------------------------------------------------------------------


def listen_tcp(hosts: Sequence[str], port: int, *, what: str) -> list[Listener]:
    """Listen on each of these addresses, all on one port; 0 is any that is free on all.

    Of several, those whose family this machine lacks are left out. Raises OSError beginning with
    `what`.
    """
    for attempt in range(8):
        found: list[Listener] = []
        try:
            for host in hosts:
                _add(found, host, port or (found[0].address.port if found else 0), len(hosts))
        except OSError as error:
            for listener in found:
                listener.close()
            if port == 0 and found and error.errno == errno.EADDRINUSE and attempt < 7:
                continue  # free on one family, taken on the other
            raise _refused(error, hosts, port, what) from error
        if found:
            return found
    raise OSError(errno.EADDRNOTAVAIL, f"{what}: this machine has none of {', '.join(hosts)}")


def _add(found: list[Listener], host: str, port: int, many: int) -> None:
    address = literal(host, port)
    assert address is not None
    try:
        found.append(_opened(address))
    except OSError as error:
        if many == 1 or error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            raise


def _opened(address: Address) -> Listener:
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":  # where SO_REUSEADDR would let another process in
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address.sockaddr)
        sock.listen(BACKLOG)
        return Listener(sock)
    except BaseException:
        sock.close()
        raise


_ADVICE = {
    errno.EADDRINUSE: "another program listens there; choose another port, or end that program",
    errno.EADDRNOTAVAIL: "this machine has no such address; write one that `ip address` shows",
    errno.EACCES: "ports below 1024 need a privilege; choose one above, or have systemd open it",
}


def _refused(error: OSError, hosts: Sequence[str], port: int, what: str) -> OSError:
    where = ", ".join(str(literal(host, port)) for host in hosts)
    advice = _ADVICE.get(error.errno or 0, "")
    text = f"{what}: cannot listen on {where}: {error.strerror}"
    return OSError(error.errno, f"{text}; {advice}" if advice else text)


# -- Unix ----------------------------------------------------------------------------------


def listen_unix(path: str, mode: int, *, what: str) -> Listener:
    """Listen on a Unix socket whose file has the permissions `mode`. Raises OSError beginning with
    `what`, ValueError where the platform has no Unix sockets."""
    address = unix_address(path)
    try:
        _clear(address)
        sock = socket.socket(address.family, socket.SOCK_STREAM)
        try:
            sock.bind(path)
            os.chmod(path, mode)  # nobody can connect before it listens
            sock.listen(BACKLOG)
            return Listener(sock)
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        text = f"{what}: cannot listen on {path}: {error.strerror or error}"
        raise OSError(error.errno, text) from error


def _clear(address: Address) -> None:
    """Remove what a dead process has left; what is alive, or no socket, is an error."""
    path = address.host
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise FileExistsError(errno.EEXIST, "there is a file that is no socket; remove it yourself")
    with socket.socket(address.family, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        if probe.connect_ex(path) != errno.ECONNREFUSED:
            raise OSError(errno.EADDRINUSE, "another program listens there")
    os.unlink(path)


# -- from whoever started us -----------------------------------------------------------------


def take_over(number: int, *, what: str) -> Listener:
    """Listen on a descriptor that was inherited. Raises ValueError beginning with `what` if it is
    no listening stream socket."""
    try:
        sock = socket.socket(fileno=number)
    except OSError as error:
        raise ValueError(f"{what}: descriptor {number} is no socket ({error.strerror})") from error
    listens = _ACCEPTS is None or sock.getsockopt(socket.SOL_SOCKET, _ACCEPTS)
    if sock.type != socket.SOCK_STREAM or not listens:
        sock.detach()  # not ours to close
        raise ValueError(
            f"{what}: descriptor {number} is a socket that does not listen for connections; "
            "in the .socket unit write ListenStream= and Accept=no"
        )
    os.set_inheritable(number, False)
    return Listener(sock, ours=False)
