"""From where to where: a place to listen, a target, and the sockets that are open for it.

Opens what `listen.parse_listen` has understood. Refuses a target that is the place itself: such a
forwarder would dial itself without end.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from outlast.net.listening import Listener, listen_tcp, listen_unix, take_over
from outlast.net.systemd import handed_sockets
from outlast.shims.forward.listen import ListenAt, parse_listen
from outlast.target import Target, parse_target

__all__ = ["Route", "open_routes", "parse_routes"]

FORM = "Forwarder('127.0.0.1:5432', 'db.shop.svc:5432')"


@dataclass(eq=False)
class Route:
    """One LISTEN and its TARGET. `listeners`: what is open for it."""

    at: ListenAt
    target: Target
    listeners: list[Listener] = field(default_factory=list)

    def __str__(self) -> str:
        where = ", ".join(str(each.address) for each in self.listeners) or self.at.text
        return f"{where} -> {self.target.text}"


def parse_routes(pairs: Sequence[str | Target]) -> list[Route]:
    """The routes that LISTEN, TARGET, LISTEN, TARGET ... mean. ValueError naming what is wrong."""
    if not pairs:
        raise ValueError(f"forward: nothing to forward; write {FORM}")
    if len(pairs) % 2:
        raise ValueError(f"forward: {pairs[-1]!r} has no target; LISTEN and TARGET come in pairs")
    routes = [
        Route(parse_listen(at), parse_target(target))
        for at, target in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    taken: set[object] = set()
    for route in routes:
        at = route.at
        places: list[object] = [
            at.path or at.given or (host, at.port) for host in at.hosts or ("",)
        ]
        if taken & set(places) and (at.port or not at.hosts):
            raise ValueError(f"{at.what} is given twice; one place leads to one target")
        taken.update(places)
    return routes


def open_routes(routes: Sequence[Route], environ: Mapping[str, str]) -> None:
    """Listen for all of them, or for none. Raises OSError or ValueError naming the place."""
    try:
        for route in routes:
            route.listeners = _opened(route.at, environ)
            _check_circle(route)
    except BaseException:
        close_routes(routes)
        raise


def close_routes(routes: Sequence[Route]) -> None:
    """Take no more connections."""
    for route in routes:
        while route.listeners:
            route.listeners.pop().close()


def _opened(at: ListenAt, environ: Mapping[str, str]) -> list[Listener]:
    if at.path:
        return [listen_unix(at.path, at.mode, what=at.what)]
    if at.given:
        return [take_over(number, what=at.what) for number in _inherited(at, environ)]
    return listen_tcp(at.hosts, at.port, what=at.what)


def _inherited(at: ListenAt, environ: Mapping[str, str]) -> list[int]:
    handed = handed_sockets(environ, os.getpid())
    if at.given.isdigit():
        number = int(at.given)
        if handed and number not in {each for _, each in handed}:
            shown = ", ".join(str(each) for _, each in handed)
            raise ValueError(f"{at.what}: descriptor {number} was not handed over; {shown} were")
        return [number]
    found = [number for name, number in handed if name == at.given]
    if not found:
        names = ", ".join(dict.fromkeys(name for name, _ in handed)) or "none (LISTEN_FDS is unset)"
        raise ValueError(f"{at.what}: no socket of that name was handed over; there are: {names}")
    return found


def _check_circle(route: Route) -> None:
    ours = {str(each.address) for each in route.listeners}
    same = [str(each) for each in route.target.addresses if str(each) in ours]
    if same:
        raise ValueError(f"{route.at.what}: the target {same[0]} is this very place")
