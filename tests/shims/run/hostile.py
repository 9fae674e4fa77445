"""A program that connects in every wrong way there is, and says what it was told.

`python hostile.py PORT` prints, as JSON, one outcome for each way: an errno's name, or "ok". It is
run twice, as it is and under `outlast run`: both have to say the same. 127.0.0.1:PORT listens; so
does a listener of its own whose queue is full, so that it never answers.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable

libc = ctypes.CDLL(None, use_errno=True)
libc.connect.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32)
libc.getsockopt.argtypes = (
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,
)
PORT = int(sys.argv[1])
GOOD = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", PORT, b"\x7f\0\0\1")
GOOD_SIX = struct.pack("=H", socket.AF_INET6) + struct.pack(
    "!HI16sI", PORT, 0, bytes(15) + b"\1", 0
)
MAPPED = bytes(10) + b"\xff\xff\x7f\0\0\1"
PAGE = mmap.PAGESIZE


def name(result: int) -> str:
    code = ctypes.get_errno()
    return "ok" if result == 0 else errno.errorcode.get(code, str(code))


def connect(number: int, pointer: object, length: int) -> str:
    ctypes.set_errno(0)
    return name(libc.connect(number, pointer, length & 0xFFFFFFFF))


def fresh(
    family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, proto: int = 0
) -> socket.socket:
    return socket.socket(family, kind, proto)


def pointers() -> dict[str, str]:
    found = {}
    for label, pointer in (("null", 0), ("low", 1), ("high", 2**63), ("kernel", 2**64 - 4096)):
        with fresh() as sock:
            found[label] = connect(sock.fileno(), pointer, 16)
    return found


def lengths() -> dict[str, str]:
    found = {}
    room = ctypes.create_string_buffer(GOOD + bytes(400))
    for length in (0, 1, 2, 15, -1, 129, 2**31 - 1, -(2**31)):
        with fresh() as sock:
            found[str(length)] = connect(sock.fileno(), room, length)
    for length in (16, 17, 28, 128):
        with fresh() as sock:
            found[str(length)] = connect(sock.fileno(), room, length)
    return found


def edge_of_a_page() -> dict[str, str]:
    """The last bytes before memory that is not there."""
    area = mmap.mmap(-1, 2 * PAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc.mprotect(ctypes.c_void_p(base + PAGE), PAGE, 0)
    ctypes.memmove(base + PAGE - 16, GOOD, 16)
    found = {}
    for length in (16, 17, 28):
        with fresh() as sock:
            found[str(length)] = connect(sock.fileno(), base + PAGE - 16, length)
    return found


def descriptors() -> dict[str, str]:
    reader, writer = os.pipe()
    found = {str(number): connect(number, GOOD, 16) for number in (-1, 999, 2**31 - 1)}
    found["pipe"] = connect(reader, GOOD, 16)
    os.close(writer)
    return found


def families() -> dict[str, str]:
    found = {}
    with fresh() as sock:
        found["six on four"] = connect(sock.fileno(), GOOD_SIX, 28)
    with fresh(socket.AF_INET6) as sock:
        found["four on six"] = connect(sock.fileno(), GOOD, 16)
    with fresh(socket.AF_INET6) as sock:
        found["six"] = connect(sock.fileno(), GOOD_SIX, 28)
    with fresh(socket.AF_INET6) as sock:
        found["six, old length"] = connect(sock.fileno(), GOOD_SIX, 24)
    with fresh(socket.AF_INET6) as sock:
        mapped = GOOD_SIX[:8] + MAPPED + bytes(4)
        found["mapped"] = connect(sock.fileno(), mapped, 28)
        found["mapped peer"] = str(sock.getpeername()[:2])
    with fresh() as sock:
        found["unspecified"] = connect(sock.fileno(), bytes(16), 16)
    with fresh() as sock:
        found["unknown"] = connect(sock.fileno(), b"\xff\xff" + GOOD[2:], 16)
    with fresh() as sock:
        found["no port"] = connect(sock.fileno(), GOOD[:2] + bytes(2) + GOOD[4:], 16)
    return found


def kinds() -> dict[str, str]:
    found = {}
    with fresh(kind=socket.SOCK_DGRAM) as sock:
        found["udp"] = connect(sock.fileno(), GOOD, 16)
        found["udp peer"] = str(sock.getpeername())
    with fresh(proto=262) as sock:
        found["mptcp"] = connect(sock.fileno(), GOOD, 16)
    with tempfile.TemporaryDirectory() as folder, fresh(socket.AF_UNIX) as server:
        with fresh(socket.AF_UNIX) as sock:
            found["unix, nobody"] = errno.errorcode[sock.connect_ex(f"{folder}/no")]
        server.bind(f"{folder}/yes")
        server.listen()
        with fresh(socket.AF_UNIX) as sock:
            found["unix"] = str(sock.connect_ex(f"{folder}/yes"))
    return found


def states() -> dict[str, str]:
    found = {}
    with fresh() as sock:
        found["first"] = connect(sock.fileno(), GOOD, 16)
        found["second"] = connect(sock.fileno(), GOOD, 16)
        found["taken back"] = connect(sock.fileno(), bytes(16), 16)
        found["again"] = connect(sock.fileno(), GOOD, 16)
    with fresh() as sock:
        sock.listen()
        found["listening"] = connect(sock.fileno(), GOOD, 16)
    with fresh() as sock:
        sock.setblocking(False)
        connect(sock.fileno(), GOOD, 16)
        select.select([], [sock], [], 5.0)
        found["error"] = str(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        found["ended"] = str(connect(sock.fileno(), GOOD, 16) in ("ok", "EISCONN"))
    return found


def nobody() -> dict[str, str]:
    """A port that nobody listens on."""
    with fresh() as sock:
        sock.bind(("127.0.0.1", 0))
        there = sock.getsockname()
    found = {}
    with fresh() as sock:
        found["blocking"] = errno.errorcode[sock.connect_ex(there)]
        found["and again"] = connect(sock.fileno(), GOOD, 16)
    with fresh() as sock:
        sock.setblocking(False)
        code = sock.connect_ex(there)
        if code == errno.EINPROGRESS:
            select.select([], [sock], [], 5.0)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        found["not blocking"] = errno.errorcode[code]
    return found


def questions() -> dict[str, str]:
    """SO_ERROR with pointers that are none."""
    found = {}
    with fresh() as sock:
        for label, value, size in (("null", 0, 0), ("low", 1, 1)):
            ctypes.set_errno(0)
            result = libc.getsockopt(sock.fileno(), socket.SOL_SOCKET, socket.SO_ERROR, value, size)
            found[label] = name(result)
        ctypes.set_errno(0)
        found["closed"] = name(libc.getsockopt(999, socket.SOL_SOCKET, socket.SO_ERROR, 0, 0))
    return found


def full() -> tuple[socket.socket, list[socket.socket]]:
    """A listener that answers nobody: its queue is full."""
    server = socket.create_server(("127.0.0.1", 0), backlog=0)
    fillers = [fresh() for _ in range(4)]
    for each in fillers:
        each.setblocking(False)
        each.connect_ex(server.getsockname())
    return server, fillers


def silence() -> dict[str, str]:
    found = {}
    server, _fillers = full()
    there = struct.pack("=H", socket.AF_INET)
    there += struct.pack("!H4s8x", server.getsockname()[1], b"\x7f\0\0\1")
    with fresh() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 0, 300_000))
        begin = time.monotonic()
        found["SO_SNDTIMEO"] = connect(sock.fileno(), there, 16)
        found["in time"] = str(0.25 < time.monotonic() - begin < 0.6)
        found["blocks as before"] = str(os.get_blocking(sock.fileno()))
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, True)
    with fresh() as sock:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        found["a signal"] = connect(sock.fileno(), there, 16)
        sock.setblocking(False)
        found["after it"] = connect(sock.fileno(), there, 16)
    return found


def main() -> None:
    ways: tuple[Callable[[], dict[str, str]], ...] = (
        *(pointers, lengths, edge_of_a_page, descriptors, families, kinds, states, nobody),
        *(questions, silence),
    )
    json.dump({way.__name__: way() for way in ways}, sys.stdout)


main()
