"""What an error that has ended a dial means: for the race, for the address, and in words.

An errno is the kernel's; a failed handshake has none of its own. Refuses to hold against an
address what this machine itself has run out of.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl

from outlast.core.classify import ConnectFault, connect_fault
from outlast.net.dial import HandshakeError
from outlast.net.options import LocalRefusal

__all__ = ["REACHED", "blames", "fault_of", "in_words"]

REACHED = frozenset({ConnectFault.REFUSED, ConnectFault.HANDSHAKE})  # somebody has spoken

# What this machine has run out of: no evidence against any endpoint (DESIGN section 7).
_RUN_OUT = {
    *(errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM),
    *(errno.EADDRNOTAVAIL, errno.EADDRINUSE),
}


def blames(error: OSError, *, linked: bool) -> bool:
    """Whether an error tells against the address. `linked`: whether our own link was up when it
    came. That there is no route does: of two families the one that has a route is to be used."""
    if not linked:
        return False
    if isinstance(error, HandshakeError):
        return error.blame
    return not isinstance(error, LocalRefusal) and error.errno not in _RUN_OUT


def fault_of(error: OSError) -> ConnectFault:
    """What it is for the race."""
    if isinstance(error, ssl.SSLError):
        return ConnectFault.HANDSHAKE
    if isinstance(error, HandshakeError) and error.errno is None:
        return ConnectFault.HANDSHAKE
    return ConnectFault.LOCAL if isinstance(error, LocalRefusal) else connect_fault(error.errno)


def in_words(error: BaseException | None) -> str:
    """For people."""
    if error is None:
        return "no address to dial"
    code = error.errno if isinstance(error, OSError) else None
    told = (ssl.SSLError, socket.gaierror, LocalRefusal, HandshakeError)
    if isinstance(error, told) or not code:
        return str(getattr(error, "strerror", None) or error)
    return os.strerror(code)
