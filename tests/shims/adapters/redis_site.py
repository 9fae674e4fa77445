"""A Redis server that knows a handful of commands, on loopback."""

from __future__ import annotations

import socket
from typing import BinaryIO


def command(source: BinaryIO) -> list[bytes]:
    """The next command; nothing at the end."""
    line = source.readline()
    if not line:
        return []
    words = []
    for _ in range(int(line[1:])):
        length = int(source.readline()[1:])
        words.append(source.read(length))
        source.read(2)
    return words


def redis(sock: socket.socket) -> None:
    """PING, ECHO, GET (the key itself); QUIT hangs up, BLPOP says nothing. Says OK to the rest."""
    with sock.makefile("rb") as source:
        while words := command(source):
            name = words[0].upper()
            if name == b"QUIT":
                return
            if name == b"HELLO":
                answer = b"-ERR unknown command 'HELLO'\r\n"
            elif name == b"PING":
                answer = b"+PONG\r\n"
            elif name in (b"ECHO", b"GET"):
                answer = b"$%d\r\n%s\r\n" % (len(words[1]), words[1])
            elif name == b"BLPOP":
                continue
            else:
                answer = b"+OK\r\n"
            sock.sendall(answer)
