"""TCP_INFO of a simulated connection: the fields that programs look at.

Source: linux-tcp facts 2.3 and 7; tcp_get_info. Units are the kernel's: microseconds for `rto`,
`rtt` and `rttvar`, milliseconds for the `last_` fields, in steps of a tick (4 ms). Fields that the
model has no counterpart for are not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from outlast.testing.simnet.rules import JIFFY, MSS, RTO_INITIAL

if TYPE_CHECKING:
    from outlast.testing.simnet.tcp import Connection

__all__ = ["TcpInfo", "tcp_info"]


@dataclass(frozen=True, slots=True)
class TcpInfo:
    """What the kernel would tell."""

    state: int
    retransmits: int
    probes: int
    backoff: int
    rto: int
    snd_mss: int
    unacked: int
    last_data_sent: int
    last_data_recv: int
    last_ack_recv: int
    rtt: int
    rttvar: int
    total_retrans: int
    bytes_acked: int
    bytes_received: int
    segs_out: int
    segs_in: int
    notsent_bytes: int
    snd_wnd: int
    rcv_wnd: int


def tcp_info(conn: Connection) -> TcpInfo:
    """Look at `conn` now; a look changes nothing."""
    if conn.keepalive.resting:
        conn.keepalive.settle()
    elif conn.rest_with is not None:
        conn.rest_with.keepalive.settle()
    sender, receiver = conn.sender, conn.receiver
    now = conn.timeline.now // JIFFY
    return TcpInfo(
        state=conn.state,
        retransmits=sender.retransmits,
        probes=conn.probes,
        backoff=sender.backoff,
        rto=sender.rto if sender.trip.smooth else max(sender.rto, RTO_INITIAL),
        snd_mss=MSS,
        unacked=sender.packets,
        last_data_sent=(now - sender.sent_at // JIFFY) * JIFFY // 1000,
        last_data_recv=(now - receiver.received_at // JIFFY) * JIFFY // 1000,
        last_ack_recv=(now - conn.heard_at // JIFFY) * JIFFY // 1000,
        rtt=sender.trip.smooth,
        rttvar=sender.trip.deviation,
        total_retrans=sender.total_retrans,
        bytes_acked=sender.acked_bytes,
        bytes_received=receiver.total,
        segs_out=conn.segments_out,
        segs_in=conn.segments_in,
        notsent_bytes=sender.unsent,
        snd_wnd=sender.wnd,
        rcv_wnd=receiver.advertised,
    )
