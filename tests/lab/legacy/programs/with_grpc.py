"""gRPC, which dials in C, without deadlines: a channel each time, or one that a thread keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_threads, right

# Else all channels of a process to one address share one connection.
OWN = [("grpc.use_local_subchannel_pool", 1)]


def _ask(channel: Any) -> None:
    right(channel.unary_unary("/shop.Orders/Stock")(b""))


def new() -> None:
    """A new channel, and so a new connection."""
    with grpc.insecure_channel(f"{HOST}:{PORT}", options=OWN) as channel:
        _ask(channel)


def kept() -> Callable[[], None]:
    """One channel, which connects anew by itself."""
    channel = grpc.insecure_channel(f"{HOST}:{PORT}", options=OWN)
    return lambda: _ask(channel)


in_threads(lambda: new if MODE == "new" else kept())
