"""A program whose threads change everything under a connect while it is made.

`python racing.py PORT SECONDS`: the address is rewritten, the socket is taken back, its flags are
flipped, its number is closed and used again. Meanwhile a child connects in the plain way; what is
printed is the longest of its connects, in seconds, and its errors.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from random import Random

libc = ctypes.CDLL(None, use_errno=True)
PORT, SECONDS = int(sys.argv[1]), float(sys.argv[2])
GOOD = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", PORT, b"\x7f\0\0\1")
END = time.monotonic() + SECONDS
room = ctypes.create_string_buffer(GOOD, 128)
number = socket.socket().detach()
rng = Random(7)


def connect() -> None:
    libc.connect(number, room, rng.choice([16, 16, 16, 28, 128, 3]))


def take_back() -> None:
    libc.connect(number, bytes(16), 16)


def rewrite() -> None:
    what = rng.choice([GOOD, GOOD, rng.randbytes(28), b"\x01\x00/nowhere", b"\x0a\x00" + GOOD[2:]])
    ctypes.memmove(room, what, len(what))


def flip() -> None:
    with contextlib.suppress(OSError):
        os.set_blocking(number, rng.random() < 0.5)


def renew() -> None:
    kind = rng.choice([socket.SOCK_STREAM, socket.SOCK_STREAM, socket.SOCK_DGRAM])
    with socket.socket(socket.AF_INET, kind) as sock:
        os.dup2(sock.fileno(), number)


def over_and_over(act: Callable[[], None]) -> None:
    while time.monotonic() < END:
        act()


def plain() -> None:
    """The child's life: nothing that its parent does may hold it up."""
    took: list[float] = []
    errors: list[str] = []
    while time.monotonic() < END:
        begin = time.monotonic()
        try:
            socket.create_connection(("127.0.0.1", PORT), 5).close()
        except OSError as error:
            errors.append(repr(error))
        took.append(time.monotonic() - begin)
    sys.stdout.write(json.dumps({"longest": max(took), "errors": errors}))
    sys.stdout.flush()


child = os.fork()
if not child:
    plain()
    os._exit(0)
for each in (connect, connect, take_back, rewrite, flip, renew):
    threading.Thread(target=over_and_over, args=(each,), daemon=True).start()
os.waitpid(child, 0)
os._exit(0)
