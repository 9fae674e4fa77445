"""What a libpq connection string says of hosts and of their sockets, in this library's words.

Source: the PostgreSQL documentation, "Parameter Key Words". Lists of hosts, addresses and ports go
together one by one; keepalive parameters become socket options, because the socket is ours. Reads
PGHOST, PGHOSTADDR and PGPORT, as libpq does. Refuses to judge: what is malformed is left for libpq
to complain of, and there are no hosts then.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from outlast.net.options import NUMBERS, TCP, SocketOption
from outlast.shims.adapters.dialler import KEEPALIVE_ON

__all__ = ["Host", "hosts_of"]

PORT = "5432"
KEEPALIVE = {
    "keepalives_idle": "idle",
    "keepalives_interval": "interval",
    "keepalives_count": "count",
}
PREFER = "prefer-standby"


@dataclass(frozen=True, slots=True)
class Host:
    """One host of a connection string. `dialled`: its name or address; `told`: what libpq is told
    of it, so that it asks for no other; `options`: what the caller has set of its socket."""

    dialled: str
    port: int
    told: Mapping[str, Any]
    options: tuple[SocketOption, ...]


def hosts_of(params: Mapping[str, Any]) -> list[Host]:
    """The hosts in the order of their turns; none if that is libpq's own business: Unix sockets,
    services, and what it would refuse."""
    if params.get("service") or os.environ.get("PGSERVICE"):
        return []
    names = _list(params, "host", "PGHOST")
    addresses = _list(params, "hostaddr", "PGHOSTADDR")
    ports = _list(params, "port", "PGPORT") or [PORT]
    number = max(len(names), len(addresses))
    if len(ports) == 1:
        ports = ports * number
    if not number or len(ports) != number or len(names or addresses) != number:
        return []
    if addresses and len(addresses) != number:
        return []
    options = _options(params)
    found = []
    for place in range(number):
        name = names[place] if names else ""
        dialled = (addresses[place] if addresses else "") or name
        port = ports[place] or PORT
        if not dialled or dialled[0] in "/@" or not (port.isascii() and port.isdigit()):
            return []
        found.append(Host(dialled, int(port), {"host": name or dialled}, options))
    return _turns(found, params)


def _turns(hosts: list[Host], params: Mapping[str, Any]) -> list[Host]:
    """Each alone, libpq could not prefer a standby among them: first a standby, then anyone."""
    attribute = params.get("target_session_attrs") or os.environ.get("PGTARGETSESSIONATTRS")
    if attribute != PREFER:
        return hosts
    standby, anyone = {"target_session_attrs": "standby"}, {"target_session_attrs": "any"}
    return [
        Host(host.dialled, host.port, {**host.told, **turn}, host.options)
        for turn in (standby, anyone)
        for host in hosts
    ]


def _list(params: Mapping[str, Any], name: str, variable: str) -> list[str]:
    value = params.get(name)
    text = os.environ.get(variable, "") if value is None else str(value)
    return text.split(",") if text else []


def _options(params: Mapping[str, Any]) -> tuple[SocketOption, ...]:
    """Keepalive and user timeout that the caller has set."""
    if str(params.get("keepalives", "1")) == "0":
        return ((*KEEPALIVE_ON, 0),)
    found: list[SocketOption] = []
    for name, word in KEEPALIVE.items():
        number, value = NUMBERS[word], _figure(params, name)
        if number is not None and value:
            found.append((TCP, number, value))
    number, value = NUMBERS["ut"], _figure(params, "tcp_user_timeout")
    if number is not None and value:
        found.append((TCP, number, value))
    return tuple(found)


def _figure(params: Mapping[str, Any], name: str) -> int:
    """0 stands for the system's own, and for what libpq will refuse."""
    text = str(params.get(name, 0))
    return int(text) if text.isascii() and text.isdigit() else 0
