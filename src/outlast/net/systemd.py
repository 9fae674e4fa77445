"""What a service manager hands over and wants to hear: sockets, and when we are ready.

Sources: sd_listen_fds(3) for LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES, sd_notify(3) for
NOTIFY_SOCKET. Both are plain protocols that other supervisors speak too. Refuses descriptors that
are meant for another process.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

__all__ = ["handed_sockets", "notify"]

FIRST = 3  # SD_LISTEN_FDS_START
UNNAMED = "unknown"  # sd_listen_fds_with_names(3)


def handed_sockets(environ: Mapping[str, str], process: int) -> list[tuple[str, int]]:
    """Name and descriptor of each socket that was handed to this process; none if none was.

    Raises ValueError naming the variable that makes no sense.
    """
    if not environ.get("LISTEN_FDS"):
        return []
    meant = _number(environ, "LISTEN_PID")
    if meant != process:
        raise ValueError(
            f"LISTEN_PID={meant} is another process than this one ({process}): the sockets were "
            "handed to it; have the service manager start outlast itself, without a shell between"
        )
    count = _number(environ, "LISTEN_FDS")
    told = environ.get("LISTEN_FDNAMES", "")
    names = told.split(":") if told else []
    if names and len(names) != count:
        raise ValueError(f"LISTEN_FDNAMES={told!r} names {len(names)} sockets of {count}")
    return [(names[n] if names else UNNAMED, FIRST + n) for n in range(count)]


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"{name}={text!r} is no number, such as {name}=1")
    return int(text)


def notify(environ: Mapping[str, str], *lines: str) -> bool:
    """Tell the service manager, if there is one that wants to know: "READY=1", "STOPPING=1",
    "STATUS=...". Whether it was told; a manager that is gone is no error."""
    where = environ.get("NOTIFY_SOCKET", "")
    family = getattr(socket, "AF_UNIX", None)
    if family is None or where[:1] not in ("/", "@"):
        return False
    path = "\0" + where[1:] if where.startswith("@") else where
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto("\n".join(lines).encode(), path)
    except OSError:
        return False
    return True
