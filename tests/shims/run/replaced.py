"""A program that looks closely at its socket before and after it was replaced.

`python replaced.py HOST PORT HOW` (blocking, waiting or loop) prints, as JSON, what has changed:
nothing should have, but the file below the number.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import socket
import struct
import sys

HOST, PORT, HOW = sys.argv[1], int(sys.argv[2]), sys.argv[3]
TCP, SOL = socket.IPPROTO_TCP, socket.SOL_SOCKET
OPTIONS = {
    "idle": (TCP, socket.TCP_KEEPIDLE, 77),
    "nodelay": (TCP, socket.TCP_NODELAY, 1),
    "received": (SOL, socket.SO_RCVBUF, 8192),
    "service": (socket.IPPROTO_IP, socket.IP_TOS, 16),
}

polled = select.epoll()  # whoever has one is not kept waiting in connect
if HOW != "loop":
    polled.close()
    polled = None  # type: ignore[assignment]  # said by what follows
sock = socket.socket()
for level, number, value in OPTIONS.values():
    sock.setsockopt(level, number, value)
sock.setsockopt(SOL, socket.SO_LINGER, struct.pack("ii", 1, 3))
sock.bind(("127.0.0.1", 0))
sock.setblocking(HOW == "blocking")
copy = os.dup(sock.fileno())
os.set_inheritable(copy, True)
before = os.fstat(sock.fileno()).st_ino
flags = [fcntl.fcntl(each, fcntl.F_GETFL) for each in (sock.fileno(), copy)]
told = [fcntl.fcntl(each, fcntl.F_GETFD) for each in (sock.fileno(), copy)]
values = {name: sock.getsockopt(*each[:2]) for name, each in OPTIONS.items()}
if HOW == "loop":
    polled.register(sock, select.EPOLLOUT | select.EPOLLET)
    polled.register(copy, select.EPOLLIN)
    polled.poll(0)
code = sock.connect_ex((HOST, PORT))
found: dict[str, object] = {"code": errno.errorcode.get(code, code)}
if HOW == "loop":
    end = polled.poll(5)
    found["event"] = any(number == sock.fileno() and bits & select.EPOLLOUT for number, bits in end)
else:
    found["event"] = bool(select.select([], [sock], [], 5)[1])
found["error"] = sock.getsockopt(SOL, socket.SO_ERROR)
after = os.fstat(sock.fileno()).st_ino
found["replaced"] = before != after
found["copy too"] = os.fstat(copy).st_ino == after
found["flags"] = flags == [fcntl.fcntl(each, fcntl.F_GETFL) for each in (sock.fileno(), copy)]
found["on exec"] = told == [fcntl.fcntl(each, fcntl.F_GETFD) for each in (sock.fileno(), copy)]
found["options"] = values == {name: sock.getsockopt(*each[:2]) for name, each in OPTIONS.items()}
found["linger"] = struct.unpack("ii", sock.getsockopt(SOL, socket.SO_LINGER, 8)) == (1, 3)
found["source"] = sock.getsockname()[0]
sock.setblocking(True)
sock.sendall(b"x")
if HOW == "loop":
    number, bits = next(each for each in polled.poll(5) if each[1] & select.EPOLLIN)
    found["the copy's event"] = number == copy
    polled.modify(copy, select.EPOLLIN | select.EPOLLOUT)
    polled.unregister(copy)
    polled.unregister(sock)
found["answer"] = sock.recv(12).decode()
sys.stdout.write(json.dumps(found))
