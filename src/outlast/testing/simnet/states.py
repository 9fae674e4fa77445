"""The states of a TCP connection, numbered as the kernel and TCP_INFO number them.

Source: include/net/tcp_states.h, linux-tcp facts 2.3. Nothing else is here.
"""

from __future__ import annotations

__all__ = [
    "CLOSED",
    "CLOSE_WAIT",
    "CLOSING",
    "ESTABLISHED",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "LAST_ACK",
    "LISTEN",
    "NAMES",
    "SYN_RECV",
    "SYN_SENT",
    "TIME_WAIT",
]

ESTABLISHED = 1
SYN_SENT = 2
SYN_RECV = 3
FIN_WAIT1 = 4
FIN_WAIT2 = 5
TIME_WAIT = 6
CLOSED = 7
CLOSE_WAIT = 8
LAST_ACK = 9
LISTEN = 10
CLOSING = 11

NAMES = {
    ESTABLISHED: "ESTABLISHED",
    SYN_SENT: "SYN_SENT",
    SYN_RECV: "SYN_RECV",
    FIN_WAIT1: "FIN_WAIT1",
    FIN_WAIT2: "FIN_WAIT2",
    TIME_WAIT: "TIME_WAIT",
    CLOSED: "CLOSED",
    CLOSE_WAIT: "CLOSE_WAIT",
    LAST_ACK: "LAST_ACK",
    LISTEN: "LISTEN",
    CLOSING: "CLOSING",
}
