"""Ends a TCP connection that somebody else holds, at once, so that whoever waits on it hears of it.

On Linux a connect to no address takes the socket back to its beginning (tcp(7), AF_UNSPEC): the
peer gets a reset, and a read or write that waits in any thread or loop fails. A plain shutdown
would end reads as if the peer had said all it had to say, so it is only what is left elsewhere.
Refuses to close the descriptor: its number is its owner's.
"""

from __future__ import annotations

import socket
import sys

__all__ = ["end_at_once"]

NO_ADDRESS = bytes(16)  # a sockaddr of the family AF_UNSPEC, which is 0


def end_at_once(sock: socket.socket) -> None:
    """Reset the connection. Never blocks; nothing where it has ended already."""
    if sys.platform == "linux":
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        if libc.connect(sock.fileno(), NO_ADDRESS, len(NO_ADDRESS)) == 0:
            return
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:  # nobody is connected any more
        return
