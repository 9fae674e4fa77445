"""redis-py, sync and async: connection classes whose sockets are dialled by this library.

Hooks: `Connection._connect`, which redis-py's own TLS and Unix classes override too, and for the
async ones `_connection_arguments`. Pools take the class as `connection_class`. Timeouts, retries,
TLS, credentials and exceptions are redis-py's. Keepalive is ours unless the caller has set it:
redis-py's own finds a dead server in 45 s in version 8, and is off in version 5.

Refuses `socket_type`, which redis-py gives to the look-up as an address family: all are raced here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import redis.asyncio.connection
import redis.connection

from outlast.net.options import TCP, SocketOption, keepalive_options
from outlast.policy import Policy
from outlast.shims.adapters.dialler import KEEPALIVE_ON, Dialler
from outlast.target import Target

if TYPE_CHECKING:
    import socket

__all__ = [
    "OutlastAsyncConnection",
    "OutlastAsyncSSLConnection",
    "OutlastConnection",
    "OutlastSSLConnection",
]


class _Manner:
    """How one connection is dialled: what the caller has set of it, and what is ours."""

    def __init__(
        self,
        kwargs: dict[str, Any],
        targets: Mapping[str, str | Target] | None,
        policy: Policy | None,
    ) -> None:
        if kwargs.get("socket_type"):
            raise ValueError(
                f"socket_type: {kwargs['socket_type']!r} would leave addresses out; name those "
                "that you want by targets={'host:port': 'static://...'}"
            )
        self.dialler = Dialler(targets, policy)
        self.theirs = {"socket_keepalive", "socket_keepalive_options"} & kwargs.keys() != set()
        self._connect_timeout = kwargs.get("socket_connect_timeout", kwargs.get("socket_timeout"))
        if not self.theirs:
            keepalive = self.dialler.policy.keepalive
            chosen = [] if keepalive is None else keepalive_options(keepalive)
            kwargs["socket_keepalive"] = keepalive is not None
            kwargs["socket_keepalive_options"] = {
                each.number: each.value
                for each in chosen
                if each.level == TCP and each.number is not None
            }

    def limit(self, held: float | None) -> float | None:
        """The bound of a connect; redis-py's own default is not the caller's word."""
        return held if self._connect_timeout is not None else None

    def options(self, connection: Any) -> tuple[SocketOption, ...]:
        """What to set on the socket, where the caller has said something of it."""
        if not self.theirs:
            return ()
        level, number = KEEPALIVE_ON
        if not connection.socket_keepalive:
            return ((level, number, 0),)
        figures = connection.socket_keepalive_options.items()
        return ((level, number, 1), *((TCP, int(key), value) for key, value in figures))


class OutlastConnection(redis.connection.Connection):
    """`redis.Connection` that outlives its endpoints: `ConnectionPool(connection_class=...)`.

    Takes that class's arguments, and by keyword:

    targets: "host:port" to the target that stands behind it; see `outlast.Target`.
    policy: an `outlast.Policy`; its socket fields are used.

    Raises redis-py's exceptions. One that is under suspicion, or whose endpoint is known to be
    dead, is opened anew before it is used again. As thread-safe as redis-py's.
    """

    def __init__(
        self,
        *args: Any,
        targets: Mapping[str, str | Target] | None = None,
        policy: Policy | None = None,
        **kwargs: Any,
    ) -> None:
        self._manner = _Manner(kwargs, targets, policy)
        super().__init__(*args, **kwargs)

    def connect(self) -> None:
        """See redis-py: pools call it whenever they give a connection out."""
        sock: Any = self._sock
        if sock is not None and not self._manner.dialler.trusts(sock, self.host, self.port):
            self.disconnect()
        super().connect()

    def _connect(self) -> socket.socket:
        sock = self._manner.dialler.dial(
            self.host,
            self.port,
            limit=self._manner.limit(self.socket_connect_timeout),
            options=self._manner.options(self),
        )
        sock.settimeout(self.socket_timeout)
        return sock


class OutlastSSLConnection(redis.connection.SSLConnection, OutlastConnection):
    """`redis.SSLConnection`, likewise. The certificate is verified for `host`."""


class OutlastAsyncConnection(redis.asyncio.connection.Connection):
    """`redis.asyncio.Connection` that outlives its endpoints, as `OutlastConnection` does.

    A cancelled connect leaves no socket behind. Works on every asyncio loop.
    """

    def __init__(
        self,
        *args: Any,
        targets: Mapping[str, str | Target] | None = None,
        policy: Policy | None = None,
        **kwargs: Any,
    ) -> None:
        self._manner = _Manner(kwargs, targets, policy)
        self._dialled: socket.socket | None = None
        super().__init__(*args, **kwargs)

    async def connect(self) -> None:
        """See redis-py: pools call it whenever they give a connection out."""
        writer: Any = self._writer
        sock = None if writer is None else writer.get_extra_info("socket")
        if sock is not None and not self._manner.dialler.trusts(sock, self.host, self.port):
            await self.disconnect(nowait=True)
        await super().connect()

    async def _connect(self) -> None:
        self._dialled = await self._manner.dialler.dial_async(
            self.host,
            self.port,
            limit=self._manner.limit(self.socket_connect_timeout),
            options=self._manner.options(self),
        )
        try:
            await super()._connect()
        except BaseException:
            self._dialled.close()
            raise
        finally:
            self._dialled = None

    def _connection_arguments(self) -> Mapping[str, Any]:
        """What asyncio opens a stream of: the socket that stands, in place of host and port."""
        told = dict(super()._connection_arguments())
        if self._dialled is None:
            return told
        del told["host"], told["port"]
        if told.get("ssl"):
            told.setdefault("server_hostname", self.host)
        return {**told, "sock": self._dialled}


class OutlastAsyncSSLConnection(OutlastAsyncConnection, redis.asyncio.connection.SSLConnection):
    """`redis.asyncio.SSLConnection`, likewise. The certificate is verified for `host`."""
