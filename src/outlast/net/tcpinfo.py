"""What Linux tells of a connection: TCP_INFO, parsed.

Offsets are those of linux/tcp.h (linux-tcp facts 2.3). Older kernels return a shorter buffer:
what it does not reach is not guessed. Other systems: None.
"""

from __future__ import annotations

import socket
import struct
import sys

from outlast.core.liveness import Sample

__all__ = ["TCP_INFO", "read_sample"]

TCP_INFO = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
# Up to and including snd_wnd, Linux 5.4: state, probes, backoff, unacked, last_data_sent,
# last_data_recv, last_ack_recv, rtt, total_retrans, bytes_acked, segs_out, segs_in,
# notsent_bytes, snd_wnd.
_LAYOUT = struct.Struct("=B2xBB19xI16xI4xII8xI28xI16xQ8xIII80xI")
LENGTH = _LAYOUT.size


def read_sample(sock: socket.socket) -> Sample | None:
    """What the kernel knows of `sock` now; None where the system has no such information."""
    if TCP_INFO is None:
        return None
    try:
        raw = sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, LENGTH)
    except OSError:
        return None
    if len(raw) < LENGTH:
        return None
    state, probes, backoff, unacked, *numbers, window = _LAYOUT.unpack(raw)
    sent, received, heard, rtt, resent, acked, out, into, unsent = numbers
    return Sample(
        unacked=unacked,
        acked=max(0, acked - 1),  # the SYN counts as one (facts 2.3)
        window=window,
        rtt=rtt / 1e6,
        backoff=backoff,
        heard=heard / 1e3,
        state=state,
        unsent=unsent,
        probes=probes,
        received=received / 1e3,
        sent=sent / 1e3,
        resent=resent,
        segments_out=out,
        segments_in=into,
    )
