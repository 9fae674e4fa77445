"""A program that tells on stdout what reaches it: signals, its own stop, and what it was given.

`python signals.py` prints "ready", then a line for each signal; SIGTERM ends it with code 7.
"""

from __future__ import annotations

import os
import signal
import sys


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def heard(number: int, _frame: object) -> None:
    say(signal.Signals(number).name)
    if number == signal.SIGTERM:
        sys.exit(7)


for each in ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGWINCH", "SIGTERM"):
    signal.signal(getattr(signal, each), heard)
blocked = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
ignored = [
    each.name
    for each in signal.Signals
    if each not in (9, 19) and signal.getsignal(each) == signal.SIG_IGN
]
with open("/proc/self/status", encoding="ascii") as told:
    status = dict(line.split(":", 1) for line in told)
say(f"blocked {blocked} ignored {ignored} nnp {status['NoNewPrivs'].strip()}")
say(f"files {sorted(map(int, os.listdir('/proc/self/fd')))[:-1]}")
say("ready")
while True:
    signal.pause()
