"""What the forwarder costs: throughput of one stream, memory of idle connections, latency.

Client, forwarder and server are a process each, on loopback: nothing but them takes time, so that
the ratios are the worst there are. Direct and forwarded runs alternate, and a ratio is of one pair
of runs; medians and both ends are shown. On two cores three processes share what two have alone
when they are direct. The exit status says whether the limits hold.

A run moves a gigabyte: 128 MB take 30 ms, in which a moment of other work is a third of the time.

Run: python -m benchmarks.forward [--rounds 11] [--megabytes 1024] [--idle 5000] [--smoke]
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.machine import commit, machine

LEAST_RATIO = 0.50  # of the direct throughput
MOST_MEMORY = 100.0  # MiB of resident memory with all idle connections open
CHUNK = 1 << 18
TURNS = 2000  # of one byte there and back, for the latency
CONNECTS = 500
Place = tuple[str, int]

FORWARDER = """
import resource, sys
from outlast.net import moving
from outlast.shims.forward import Forwarder
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
moving.CAN_SPLICE = moving.CAN_SPLICE and sys.argv[2] == "splice"
forwarder = Forwarder("127.0.0.1:0", sys.argv[1])
forwarder.open()
print(forwarder.address[1], flush=True)
forwarder.run()
"""


# -- the server ----------------------------------------------------------------------------


def serve(server: socket.socket) -> None:
    """Holds connections; one that says U is read to its end, D<megabytes> is sent so many, and of
    E every byte goes back."""
    _descriptors()
    waiting = selectors.DefaultSelector()
    waiting.register(server, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            sock: Any = key.fileobj
            if sock is server:
                waiting.register(server.accept()[0], selectors.EVENT_READ)
                continue
            waiting.unregister(sock)
            threading.Thread(target=_serve, args=(sock,), daemon=True).start()


def _serve(sock: socket.socket) -> None:
    with sock, contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kind = sock.recv(1)
        if kind == b"U":
            buffer = bytearray(1 << 20)
            while sock.recv_into(buffer):
                pass
            sock.sendall(b"k")
        elif kind == b"D":
            size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big") << 20
            for _ in range(size // CHUNK):
                sock.sendall(bytes(CHUNK))
        elif kind == b"E":
            while data := sock.recv(1):
                sock.sendall(data)


# -- what is measured ----------------------------------------------------------------------


def upload(place: Place, megabytes: int) -> float:
    """MB per second."""
    data = bytes(CHUNK)
    with socket.create_connection(place) as sock:
        began = time.perf_counter()
        sock.sendall(b"U")
        for _ in range((megabytes << 20) // CHUNK):
            sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b"k"
        return megabytes / (time.perf_counter() - began) * 1.048576


def download(place: Place, megabytes: int) -> float:
    """MB per second."""
    buffer, left = bytearray(1 << 20), megabytes << 20
    with socket.create_connection(place) as sock:
        began = time.perf_counter()
        sock.sendall(b"D" + megabytes.to_bytes(4, "big"))
        while left:
            count = sock.recv_into(buffer)
            assert count, "cut short"
            left -= count
        return megabytes / (time.perf_counter() - began) * 1.048576


def round_trip(place: Place) -> float:
    """Microseconds there and back, the median."""
    with socket.create_connection(place) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(b"Ex")
        sock.recv(1)

        def once() -> None:
            sock.sendall(b"x")
            sock.recv(1)

        return _median_of(once, TURNS)


def first_byte(place: Place) -> float:
    """Microseconds from a new connection to its first byte back, the median."""

    def once() -> None:
        with socket.create_connection(place) as sock:
            sock.sendall(b"Ex")
            sock.recv(1)

    return _median_of(once, CONNECTS)


def _median_of(work: Callable[[], object], times: int) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e6


def memory(place: Place, server: socket.socket, process: int, many: int) -> tuple[float, float]:
    """MiB of the forwarder before and with so many idle connections."""
    before = _resident(process)
    with contextlib.ExitStack() as stack:
        for _ in range(many):
            stack.enter_context(socket.create_connection(place))
        _until_all_stand(server.getsockname()[1], many)
        return before, _resident(process)


def _resident(process: int) -> float:
    text = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def _until_all_stand(port: int, many: int) -> None:
    """Established connections to the server's port, by the kernel's own table."""
    wanted, until = f":{port:04X}", time.monotonic() + 60
    while time.monotonic() < until:
        lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        rows = [line.split() for line in lines]
        if sum(row[2].endswith(wanted) and row[3] == "01" for row in rows) >= many:
            return
        time.sleep(0.1)
    raise SystemExit("the forwarder has not connected all of them")


# -- the run -----------------------------------------------------------------------------------


@contextlib.contextmanager
def forwarder(target: Place, way: str) -> Iterator[tuple[int, Place]]:
    """A forwarder in a process of its own."""
    command = [sys.executable, "-c", FORWARDER, f"static://{target[0]}:{target[1]}", way]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.pid, ("127.0.0.1", int(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait()


def _descriptors() -> None:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def streams(direct: Place, places: dict[str, Place], rounds: int, megabytes: int) -> float:
    """Print throughput; the least median ratio of what is spliced."""
    worst = 1e9
    for name, measure in (("upload", upload), ("download", download)):
        plain: list[float] = []
        found: dict[str, list[float]] = {way: [] for way in places}
        for _ in range(rounds):
            base = measure(direct, megabytes)
            plain.append(base)
            for way, place in places.items():
                found[way].append(measure(place, megabytes) / base)
        print(f"{name}, direct: {statistics.median(plain):.0f} MB/s")
        for way, ratios in found.items():
            middle = statistics.median(ratios)
            print(f"{name}, {way}: {middle:.0%} of direct ({min(ratios):.0%} to {max(ratios):.0%})")
        worst = min(worst, statistics.median(found["splice"]))
    return worst


def times(direct: Place, place: Place, rounds: int) -> None:
    """Print what the forwarder adds to a round trip and to a new connection."""
    for name, measure in (("round trip", round_trip), ("connect and first byte", first_byte)):
        pairs = [(measure(direct), measure(place)) for _ in range(rounds)]
        plain = statistics.median(pair[0] for pair in pairs)
        added = statistics.median(pair[1] - pair[0] for pair in pairs)
        print(f"{name}: direct {plain:.0f} µs, {added:+.0f} µs by the forwarder")


def main() -> int:
    """Measure, print, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--idle", type=int, default=5000)
    parser.add_argument("--smoke", action="store_true", help="in brief: figures say little")
    chosen = parser.parse_args()
    if chosen.smoke:
        chosen.rounds, chosen.megabytes, chosen.idle = 1, 32, 200
    _descriptors()
    print(f"{machine()}; {commit()}")
    with (
        socket.create_server(("127.0.0.1", 0), backlog=4096) as server,
        contextlib.ExitStack() as s,
    ):
        child = multiprocessing.Process(target=serve, args=(server,), daemon=True)
        child.start()
        s.callback(child.join)
        s.callback(child.kill)
        direct: Place = server.getsockname()[:2]
        process, spliced = s.enter_context(forwarder(direct, "splice"))
        _, copied = s.enter_context(forwarder(direct, "copy"))
        places = {"splice": spliced, "copy": copied}
        ratio = streams(direct, places, chosen.rounds, chosen.megabytes)
        times(direct, spliced, max(1, chosen.rounds // 5))
        empty, full = memory(spliced, server, process, chosen.idle)
        each = (full - empty) / chosen.idle * 1024
        print(f"{chosen.idle} idle connections: {full:.1f} MiB resident, {empty:.1f} MiB without")
        print(f"each {each:.1f} KiB")
    if chosen.smoke:
        return 0  # the limits are for the figures of a whole run
    held = ratio >= LEAST_RATIO and full <= MOST_MEMORY
    print("the limits hold" if held else f"a limit is broken: {ratio:.0%}, {full:.1f} MiB")
    return 0 if held else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parents[1] / "src"))
    sys.exit(main())
