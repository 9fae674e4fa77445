"""An nginx that is reloaded while requests run, and one whose worker dies."""

from __future__ import annotations

import functools
from typing import Any

from tests.dropin.nginx import Nginx, NginxStage, its_own
from tests.dropin.sides import Side
from tests.dropin.stage import Peer, echo
from tests.dropin.table import add

FILE = "/hello.txt"
SLOW = "/up_1_1/slow"


def nginx_of(side: Side) -> Nginx:
    assert isinstance(side.stage, NginxStage)
    return side.stage.nginx


def slow(peer: Peer) -> None:
    """Half of an answer; the rest comes when the gate opens."""
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf")
    peer.act.signal.set()
    peer.wait()
    peer.send(b"half")
    peer.until_closed()


def lost(peer: Peer) -> None:
    """Takes a request and never answers."""
    peer.request()
    peer.act.signal.set()
    peer.until_closed()


# -- a new configuration ---------------------------------------------------------------------


async def reloaded_while_idle(side: Side) -> None:
    await side.get(FILE)
    old = await side.aside(nginx_of(side).reload)
    await side.aside(functools.partial(nginx_of(side).until_gone, old))
    await side.request("POST", FILE)
    await side.get(FILE)


async def reloaded_meanwhile(side: Side) -> None:
    """What has begun is finished by the old worker; what follows goes to the new one."""
    old: list[int] = []

    async def reload() -> None:
        await side.until_signal()
        old.append(await side.aside(nginx_of(side).reload))
        side.act.gate.set()

    await side.get(FILE)
    await side.together(lambda: side.get(SLOW), reload)
    await side.aside(lambda: nginx_of(side).until_gone(*old))
    await side.request("POST", FILE)
    await side.get(FILE)


# -- the end of a worker ---------------------------------------------------------------------


async def killed_while_idle(side: Side) -> None:
    await side.get(FILE)
    await side.aside(nginx_of(side).kill_worker)
    await side.request("POST", FILE)
    await side.get(FILE)


async def killed_meanwhile(side: Side, method: str) -> None:
    async def kill() -> None:
        await side.until_signal()
        await side.aside(nginx_of(side).kill_worker)

    await side.get(FILE)
    await side.together(lambda: side.request(method, SLOW), kill)
    await side.get(FILE)


SCRIPTS: dict[str, tuple[Any, Any]] = {
    "reloaded_while_idle": (reloaded_while_idle, echo),
    "reloaded_meanwhile": (reloaded_meanwhile, slow),
    "killed_while_idle": (killed_while_idle, echo),
    "killed_meanwhile": (functools.partial(killed_meanwhile, method="GET"), lost),
    "killed_meanwhile_post": (functools.partial(killed_meanwhile, method="POST"), lost),
}
for _server, _more in (("plain", {}), ("http2", {"client": {"http2": True}})):
    for _name, (_script, _first) in SCRIPTS.items():
        add(
            f"nginx_changes-{_server}_{_name}",
            _script,
            open=functools.partial(its_own, _server, _first, echo),
            cut=True,
            kept=False,
            **_more,
        )
