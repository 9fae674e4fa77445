"""What `outlast run` costs: time added to a connect, connects per second, and bytes.

The same small client is run as it is and under `outlast run`, in turn, against one server on
loopback; the figures are of pairs. Prints a table; `--seconds` is the length of one run.
Source of the bounds: the project's promise, at most 1 ms added per connect at one connection at a
time, at least 1,000 connects per second, nothing per byte.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing

from benchmarks.machine import machine

CLIENT = """
import json, select, socket, sys, threading, time
way, port, seconds, threads = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
took, end = [], time.perf_counter() + seconds
def one(polled):
    with socket.socket() as sock:
        begin = time.perf_counter()
        if way == "blocking":
            sock.connect(("127.0.0.1", port))
        else:
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
            if polled is None:
                select.select([], [sock], [], 5)
            else:
                polled.register(sock, select.EPOLLOUT)
                polled.poll(5)
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError("not connected")
        took.append(time.perf_counter() - begin)
        sock.recv(1) if way == "blocking" else None
def go():
    polled = select.epoll() if way == "epoll" else None
    while time.perf_counter() < end:
        one(polled)
workers = [threading.Thread(target=go) for _ in range(threads)]
[worker.start() for worker in workers]
[worker.join() for worker in workers]
print(json.dumps(took))
"""

SERVER = """
import socket, sys
with socket.create_server(("127.0.0.1", 0), backlog=4096) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        server.accept()[0].close()
"""

BYTES = """
import json, socket, sys, time
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
chunk, sent, begin = bytes(65536), 0, time.perf_counter()
while time.perf_counter() < begin + float(sys.argv[2]):
    sent += sock.send(chunk)
print(json.dumps(sent / (time.perf_counter() - begin)))
"""

SINK = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        with server.accept()[0] as sock:
            room = bytearray(1 << 20)
            while sock.recv_into(room):
                pass
"""

RUN = (sys.executable, "-m", "outlast.cli", "run", "--only", "127.0.0.1", "--")


class Server:
    """A program on loopback. Ended by `close`."""

    def __init__(self, code: str) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.port = self._process.stdout.readline().decode().strip()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def measured(code: str, arguments: Sequence[str], *, supervised: bool) -> object:
    """What one run prints."""
    command = [*(RUN if supervised else ()), sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=120)
    found: object = json.loads(done.stdout)
    return found


def connects(way: str, threads: int, seconds: float, rounds: int) -> str:
    """One line of the table."""
    times: dict[bool, list[float]] = {False: [], True: []}
    rates: dict[bool, list[float]] = {False: [], True: []}
    with closing(Server(SERVER)) as server:
        for _ in range(rounds):
            for supervised in (False, True):
                arguments = [way, server.port, str(seconds), str(threads)]
                took = measured(CLIENT, arguments, supervised=supervised)
                assert isinstance(took, list)
                times[supervised].extend(took)
                rates[supervised].append(len(took) / seconds)
    plain, under = (statistics.median(times[each]) * 1e6 for each in (False, True))
    high = statistics.quantiles(times[True], n=100)[98] * 1e6
    rate, bare = (statistics.median(rates[each]) for each in (True, False))
    return (
        f"| {way}, {threads} at a time | {plain:.0f} | {under:.0f} | {under - plain:.0f} "
        f"| {high:.0f} | {bare:.0f} | {rate:.0f} |"
    )


def stream(seconds: float, rounds: int) -> str:
    """Bytes per second through one connection, without and with."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    with closing(Server(SINK)) as server:
        for _ in range(rounds):
            for supervised in (False, True):
                rate = measured(BYTES, [server.port, str(seconds)], supervised=supervised)
                assert isinstance(rate, float)
                rates[supervised].append(rate)
    plain, under = (statistics.median(rates[each]) / 1e6 for each in (False, True))
    return f"One stream: {plain:.0f} MB/s plain, {under:.0f} MB/s under `outlast run`."


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    print(machine())
    print("| connects | plain, µs | under run, µs | added, µs | p99, µs | plain/s | under run/s |")
    print("|---|---|---|---|---|---|---|")
    for way, threads in (("blocking", 1), ("select", 1), ("epoll", 1), ("blocking", 8)):
        print(connects(way, threads, chosen.seconds, chosen.rounds), flush=True)
    print(stream(chosen.seconds, chosen.rounds))


if __name__ == "__main__":
    socket.setdefaulttimeout(10.0)
    main()
