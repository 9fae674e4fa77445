"""What Linux tells of a connection's sending side: TCP_INFO, parsed.

Offsets are those of linux/tcp.h (linux-tcp facts 2.3). Older kernels return a shorter buffer:
what it does not reach is not guessed. Other systems: None.
"""

from __future__ import annotations

import socket
import struct
import sys

from outlast.core.watch import SendState

__all__ = ["TCP_INFO", "read_send_state"]

TCP_INFO = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
LENGTH = 232  # up to and including snd_wnd, Linux 5.4
_BACKOFF = 4
_UNACKED = struct.Struct("=I")
_U64 = struct.Struct("=Q")


def read_send_state(sock: socket.socket) -> SendState | None:
    """The sending side of `sock` now; None where the system has no such information."""
    if TCP_INFO is None:
        return None
    try:
        raw = sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, LENGTH)
    except OSError:
        return None
    if len(raw) < LENGTH:
        return None
    return SendState(
        unacked=_UNACKED.unpack_from(raw, 24)[0],
        acked=max(0, _U64.unpack_from(raw, 120)[0] - 1),  # the SYN counts as one (facts 2.3)
        window=_UNACKED.unpack_from(raw, 228)[0],
        rtt=_UNACKED.unpack_from(raw, 68)[0] / 1e6,
        backoff=raw[_BACKOFF],
        heard=_UNACKED.unpack_from(raw, 56)[0] / 1e3,
    )
