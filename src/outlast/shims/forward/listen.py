"""LISTEN: where to take connections, as people write it.

    127.0.0.1:5432   [::1]:5432   that address
    :5432   localhost:5432        this machine only, by IPv4 and IPv6
    0.0.0.0:5432   [::]:5432      open to the network: it has to be written
    unix:/run/app/db.sock         a Unix socket, for its owner only; ?mode=660 for the group too
    fd:db   fd:3                  a socket that the service manager has opened, by name or number

A port 0 is any that is free. Pure: opens nothing. Refuses names: what a name means may change, and
with it who can connect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from outlast.net.address import literal, split_host_port

__all__ = ["FORMS", "ListenAt", "parse_listen"]

FORMS = "'127.0.0.1:5432', '[::1]:5432', ':5432', 'unix:/run/db.sock' or 'fd:name'"
HERE = ("127.0.0.1", "::1")
OWNER_ONLY = 0o600
MODE = re.compile(r"mode=0?([0-7]{3})")
LONGEST_PATH = 107  # bytes; unix(7): sun_path, with its terminating zero


@dataclass(frozen=True, slots=True)
class ListenAt:
    """Where to listen. One of: `hosts` and `port`; `path` and `mode`; `given`, the name or number
    of an inherited socket."""

    text: str
    hosts: tuple[str, ...] = ()
    port: int = 0
    path: str = ""
    mode: int = OWNER_ONLY
    given: str = ""

    @property
    def what(self) -> str:
        """How errors begin."""
        return f"listen {self.text!r}"

    @property
    def public(self) -> bool:
        """Whether others than this machine may connect."""
        return any(not _is_loopback(host) for host in self.hosts)


def parse_listen(text: object) -> ListenAt:
    """What `text` means. ValueError naming the part that is wrong."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"listen: {text!r} names no place; write {FORMS}")
    word = text.strip()
    kind, mark, rest = word.partition(":")
    if mark and kind == "unix":
        return _unix(word, rest)
    if mark and kind == "fd":
        return _given(word, rest)
    return _tcp(word)


def _tcp(word: str) -> ListenAt:
    what = f"listen {word!r}"
    host, mark, port = word.rpartition(":")
    if word.isascii() and word.isdigit():
        raise ValueError(f"{what} is a port alone; write ':{word}' for this machine only")
    if host == "*":
        raise ValueError(
            f"{what}: write '0.0.0.0:{port}' or '[::]:{port}' to be open to the network"
        )
    free = mark and port == "0"
    if host.lower() in ("", "localhost") and mark:
        hosts, number = HERE, 0 if free else split_host_port(f"h:{port}", **_words(word))[1]
        return ListenAt(word, hosts=hosts, port=number)
    shown = f"{host}:1" if free else word  # what is read elsewhere has no port 0
    name, number = split_host_port(shown, **_words(word))
    if literal(name, 1) is None:
        raise ValueError(f"{what}: {name!r} is no IP address; write {FORMS}")
    return ListenAt(word, hosts=(name,), port=0 if free else number)


def _words(word: str) -> dict[str, str]:
    return {"what": f"listen {word!r}", "example": "127.0.0.1:5432"}


def _unix(word: str, rest: str) -> ListenAt:
    what = f"listen {word!r}"
    path, mark, query = rest.partition("?")
    mode = OWNER_ONLY
    if mark:
        match = MODE.fullmatch(query)
        if match is None:
            raise ValueError(
                f"{what}: {query!r} is no mode; write '{word.partition('?')[0]}?mode=660'"
            )
        mode = int(match[1], 8)
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise ValueError(f"{what}: {path!r} is no full path of a file; write 'unix:/run/db.sock'")
    if len(path.encode()) > LONGEST_PATH:
        raise ValueError(
            f"{what}: the path has more than {LONGEST_PATH} bytes, which no socket can"
        )
    return ListenAt(word, path=path, mode=mode)


def _given(word: str, rest: str) -> ListenAt:
    if not rest or any(letter.isspace() or letter == ":" for letter in rest):
        raise ValueError(
            f"listen {word!r}: {rest!r} is no name of a socket; write 'fd:db', with "
            "FileDescriptorName=db in the .socket unit, or its number, 'fd:3'"
        )
    return ListenAt(word, given=rest)


def _is_loopback(host: str) -> bool:
    return host.startswith("127.") or host == "::1"
