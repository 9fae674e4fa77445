"""Patches of others that `install()` meets, in words.

Some replace the same names: who comes last stands in front, and who is taken back first matters.
Decides nothing: what can be covered is covered, and what cannot is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType

__all__ = ["notes_on"]

FUTURE = 900  # the patch number from which a urllib3 2.x is urllib3-future's


def notes_on(modules: Mapping[str, ModuleType]) -> tuple[str, ...]:
    """What is to be said of the modules that are imported."""
    return tuple(_notes(modules))


def _notes(modules: Mapping[str, ModuleType]) -> Iterator[str]:
    gevent = modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched("socket"):
        yield (
            "gevent has replaced socket.socket: its sockets are covered, in greenlets; those made "
            "before gevent.monkey.patch_all() are not"
        )
        if not gevent.is_module_patched("select"):
            yield (
                "gevent has not patched select: while a lost endpoint is raced for the whole hub "
                "waits; use gevent.monkey.patch_all()"
            )
    if "eventlet" in modules:
        yield "eventlet keeps a copy of the socket module of its own, which is not covered"
    if _is_future(modules.get("urllib3")):
        yield (
            "urllib3 here is urllib3-future, which replaces it: its TCP connections are covered, "
            "those of HTTP/3 (QUIC over UDP) are not"
        )
    kind = getattr(modules.get("socket"), "socket", None)
    if kind is not None and kind.__module__ not in ("socket", "gevent._socket3"):
        yield f"{kind.__module__} has replaced socket.socket: what it hands on to it is covered"


def _is_future(urllib3: ModuleType | None) -> bool:
    version = getattr(urllib3, "__version__", "")
    parts = version.split(".")
    return len(parts) > 2 and parts[2].isdigit() and int(parts[2]) >= FUTURE
