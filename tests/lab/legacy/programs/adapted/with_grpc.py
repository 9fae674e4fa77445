"""gRPC with its adapter, without deadlines: a channel each time, or one that a thread keeps.

The adapter's way is a list of addresses, those of the pods; behind a VIP it could do nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from outlast.shims.adapters import grpc
from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_threads, right

where = f"{HOST}:{PORT}"
targets = {where: f"static://{os.environ['PODS']}"}
# Else all channels of a process to one address share one connection.
OWN = [("grpc.use_local_subchannel_pool", 1)]


def _ask(channel: Any) -> None:
    right(channel.unary_unary("/shop.Orders/Stock")(b""))


def new() -> None:
    """A new channel, and so new connections."""
    with grpc.channel(where, targets=targets, options=OWN) as channel:
        _ask(channel)


def kept() -> Callable[[], None]:
    """One channel, which connects anew by itself."""
    channel = grpc.channel(where, targets=targets, options=OWN)
    return lambda: _ask(channel)


in_threads(lambda: new if MODE == "new" else kept())
