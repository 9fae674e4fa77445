"""asyncpg: `connect` and `create_pool` whose connections are dialled by this library.

Hooks: the `loop` that `asyncpg.connect` takes, given as a thin stand-in for the running one whose
`create_connection` dials here and hands the loop a socket that stands; and the pool's `connect`.
Works on every asyncio loop. TLS, passwords, several hosts and their turns, timeouts and exceptions
are asyncpg's. A server that hangs up before it lets anybody in is left for another. A cancel goes
to the very endpoint that runs the query. Unix sockets are left to asyncpg.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import asyncpg

from outlast.net.address import Address
from outlast.policy import Policy
from outlast.shims.adapters.dialler import Dialler, peer_of
from outlast.target import Target, target_at

if TYPE_CHECKING:
    import socket

__all__ = ["connect", "create_pool"]

TRIES = 3  # servers that hang up at once, one after the other
HUNG_UP = (asyncpg.ConnectionDoesNotExistError, ConnectionError)


class _Loop:
    """The running loop, but for how connections are made. `reached`: where the last one leads."""

    def __init__(self, loop: Any, dialler: Dialler, limit: float | None) -> None:
        self._loop = loop
        self._dialler = dialler
        self._limit = limit
        self.reached: tuple[Address, str, int] | None = None
        self.settled = False  # the connection stands: what else is made belongs to it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(self, factory: Any, host: str, port: int, **kwargs: Any) -> Any:
        """See asyncio."""
        sock = await self._dial(host, port)
        if kwargs.get("ssl"):
            kwargs.setdefault("server_hostname", host)
        try:
            return await self._loop.create_connection(factory, sock=sock, **kwargs)
        except BaseException:
            sock.close()
            raise

    async def _dial(self, host: str, port: int) -> socket.socket:
        target = None
        if self.settled and self.reached is not None:  # a cancel, for the one server it means
            address = self.reached[0]
            target = target_at(address, f"static://{address}")
        else:
            self.reached = None
        sock = await self._dialler.dial_async(host, port, limit=self._limit, target=target)
        where = peer_of(sock)
        if where is not None:
            self.reached = where, host, port
        return sock


async def connect(
    *args: Any,
    targets: Mapping[str, str | Target] | None = None,
    policy: Policy | None = None,
    loop: Any = None,
    **kwargs: Any,
) -> Any:
    """Connect as `asyncpg.connect`, whose arguments it takes, and:

    targets: "host:port" to the target that stands behind it; see `outlast.Target`.
    policy: an `outlast.Policy`; its socket fields are used.

    `timeout` bounds everything; without it asyncpg's 60 s do, and each dial ends with the policy's
    connect_timeout. Raises asyncpg's exceptions and OSError kinds; those of a dial carry `.report`.
    A cancelled connect leaves no socket behind.
    """
    running = asyncio.get_running_loop() if loop is None else loop
    dialler = Dialler(targets, policy)
    limit = kwargs.get("timeout")
    deadline = dialler.now() + (dialler.policy.connect_timeout if limit is None else limit)
    for left in reversed(range(TRIES)):
        if limit is not None:
            kwargs["timeout"] = limit = max(0.0, deadline - dialler.now())
        handle = _Loop(running, dialler, limit)
        try:
            made = await asyncpg.connect(*args, loop=handle, **kwargs)
        except HUNG_UP:
            if handle.reached is None or not left or dialler.now() >= deadline:
                raise
            dialler.blame(*handle.reached)
        else:
            handle.settled = True
            return made
    raise AssertionError("the last try has raised, or returned")


def create_pool(
    *args: Any,
    targets: Mapping[str, str | Target] | None = None,
    policy: Policy | None = None,
    **kwargs: Any,
) -> Any:
    """`asyncpg.create_pool`, whose arguments it takes, over `connect` of this module."""
    if "connect" in kwargs:
        raise ValueError("connect: it is this module's here; give yours to asyncpg.create_pool")
    dialling = functools.partial(connect, targets=targets, policy=policy)
    return asyncpg.create_pool(*args, connect=dialling, **kwargs)
