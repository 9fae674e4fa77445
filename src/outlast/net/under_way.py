"""How a non-blocking connect ends, as far as the socket module's own words and states go."""

from __future__ import annotations

import _socket
import socket
from typing import Any

__all__ = ["conclude", "pending_error"]


def pending_error(sock: socket.socket, address: Any) -> OSError | None:
    """The error of a connect that is over, which is read once; None if it stands."""
    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return OSError(code, f"Connect call failed {address}") if code else None


def conclude(sock: socket.socket, address: Any) -> None:
    """Ask a connect that stands once more, as a blocking one has it: Linux says 0 to the first who
    asks and EISCONN from then on. No packet leaves."""
    _socket.socket.connect_ex(getattr(sock, "_sock", sock), address)
