"""A program that knows nothing of this library: it connects, over and over, in one way of many.

`python client.py WAY HOST PORT COUNT` prints, as JSON, the seconds that each connect and question
took, and the errors. The server answers any line with a line.
"""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable

PATIENCE = 8.0


def ask(sock: socket.socket) -> None:
    """The connection is of use."""
    sock.setblocking(True)
    sock.settimeout(PATIENCE)
    sock.sendall(b"GET / HTTP/1.0\r\nConnection: close\r\n\r\n")
    if not sock.recv(4096).startswith(b"HTTP/1."):
        raise OSError("no answer")


def blocking(address: tuple[str, int]) -> None:
    with socket.socket() as sock:
        sock.connect(address)
        ask(sock)


def begun(address: tuple[str, int]) -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    code = sock.connect_ex(address)
    if code not in (0, errno.EINPROGRESS):
        raise OSError(code, os.strerror(code))
    return sock


def ended(sock: socket.socket) -> None:
    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
    ask(sock)


def by_poll(address: tuple[str, int]) -> None:
    with begun(address) as sock:
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        if not poll.poll(PATIENCE * 1000):
            raise TimeoutError("poll")
        ended(sock)


def by_select(address: tuple[str, int]) -> None:
    with begun(address) as sock:
        if not select.select([], [sock], [], PATIENCE)[1]:
            raise TimeoutError("select")
        ended(sock)


def by_connecting_again(address: tuple[str, int]) -> None:
    with begun(address) as sock:
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        if not poll.poll(PATIENCE * 1000):
            raise TimeoutError("poll")
        code = sock.connect_ex(address)
        if code not in (0, errno.EISCONN):
            raise OSError(code, os.strerror(code))
        ask(sock)


def epolled(address: tuple[str, int], flags: int) -> None:
    """Registered before the connect; read from, and modified, through the same registration."""
    with socket.socket() as sock, select.epoll() as polled:
        sock.setblocking(False)
        polled.register(sock, flags | select.EPOLLIN | select.EPOLLOUT)
        polled.poll(0)  # an unconnected socket is hung up: an edge, or a level to be looked past
        code = sock.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
        if not polled.poll(PATIENCE):
            raise TimeoutError("epoll")
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        sock.sendall(b"GET / HTTP/1.0\r\nConnection: close\r\n\r\n")
        end = time.monotonic() + PATIENCE
        while True:
            events = polled.poll(max(0.0, end - time.monotonic()))
            if not events:
                raise TimeoutError("no event for the answer")
            if any(number != sock.fileno() for number, _ in events):
                raise OSError(f"events of another number: {events}")
            try:
                if sock.recv(4096).startswith(b"HTTP/1."):
                    break
            except BlockingIOError:
                continue
        polled.modify(sock, select.EPOLLIN)
        polled.unregister(sock)


def level(address: tuple[str, int]) -> None:
    epolled(address, 0)


def edge(address: tuple[str, int]) -> None:
    epolled(address, select.EPOLLET)


def early(address: tuple[str, int]) -> None:
    """An event loop's program that asks before there is an answer, and never again (psycopg)."""
    with select.epoll(), begun(address) as sock:
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        if not poll.poll(PATIENCE * 1000):
            raise TimeoutError("poll")
        ask(sock)


def forked(address: tuple[str, int]) -> None:
    child = os.fork()
    if not child:
        try:
            blocking(address)
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        raise OSError("the child has failed")


WAYS: dict[str, Callable[[tuple[str, int]], None]] = {
    "blocking": blocking,
    "poll": by_poll,
    "select": by_select,
    "again": by_connecting_again,
    "level": level,
    "edge": edge,
    "early": early,
    "forked": forked,
}


def main(way: str, host: str, port: str, count: str, threads: str = "1") -> None:
    """Go, and print what was met."""
    took: list[float] = []
    errors: list[str] = []

    def go() -> None:
        for _ in range(int(count)):
            begin = time.monotonic()
            try:
                WAYS[way]((host, int(port)))
            except OSError as error:
                errors.append(repr(error))
            took.append(time.monotonic() - begin)

    workers = [threading.Thread(target=go) for _ in range(int(threads))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.stdout.write(json.dumps({"took": took, "errors": errors}))


if __name__ == "__main__":
    main(*sys.argv[1:])
