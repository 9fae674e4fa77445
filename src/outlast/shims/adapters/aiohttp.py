"""aiohttp: a connector whose connections are dialled by this library.

Hooks: the resolver, which is asked for nothing but a place to stand, so that the look-up is part of
the race; and the method in which `TCPConnector` dials, because `socket_factory` comes before the
connect and can race nothing. TLS, proxies, limits, timeouts, traces and exceptions are aiohttp's.

Where the caller has said how names are looked up (`resolver`, `family`, `use_dns_cache` ...),
aiohttp looks up, and what it finds is dialled here. Refuses `socket_factory` and `interleave`: the
sockets and their order are what this connector is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from socket import AddressFamily, gaierror
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.helpers import ceil_timeout

from outlast.net.address import Address
from outlast.policy import Policy
from outlast.shims.adapters.dialler import Dialler, carry_report
from outlast.target import Target, parse_target

if TYPE_CHECKING:
    import socket

__all__ = ["OutlastConnector"]

LOOKUP = ("resolver", "family", "use_dns_cache", "ttl_dns_cache", "dns_cache_max_size")
V6 = Address(AddressFamily.AF_INET6, ("::", 0, 0, 0))
REFUSED = {
    "socket_factory": "sockets are made by the race; set options by a Policy or outlast.tune",
    "interleave": "the race orders addresses by what is known of them",
}


class _Later(AbstractResolver):
    """Looks up only what aiohttp is to look up; the rest is looked up within the race."""

    def __init__(self, connector: OutlastConnector, theirs: AbstractResolver) -> None:
        self._connector = connector
        self._theirs = theirs

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> Any:
        """See aiohttp; an address that stands for those to come."""
        if self._connector.leaves_lookup(host, port):
            return await self._theirs.resolve(host, port, family)
        place = V6.host if family == V6.family else "0.0.0.0"
        told = {"hostname": host, "host": place, "port": port, "family": family}
        return [{**told, "proto": 0, "flags": 0}]

    async def close(self) -> None:
        """See aiohttp; called for a resolver of aiohttp's own."""
        await self._theirs.close()


class OutlastConnector(aiohttp.TCPConnector):
    """`aiohttp.TCPConnector` that outlives its endpoints: `ClientSession(connector=...)`.

    Takes that class's arguments, and by keyword:

    targets: "host:port" to the target that stands behind it; see `outlast.Target`.
    policy: an `outlast.Policy`; its socket fields are used.

    `ClientTimeout.sock_connect` bounds look-up, race and TLS; without it the policy's
    connect_timeout does look-up and race. Raises aiohttp's exceptions; those of a connect carry
    `.report`, a ConnectionTimeoutError in its `__cause__`. An idle connection under suspicion, or
    whose endpoint is known to be dead, is not used again. Belongs to one event loop.
    """

    _resolver: AbstractResolver

    def __init__(
        self,
        *,
        targets: Mapping[str, str | Target] | None = None,
        policy: Policy | None = None,
        **kwargs: Any,
    ) -> None:
        for name, why in REFUSED.items():
            if kwargs.get(name) is not None:
                raise ValueError(f"{name}: not with OutlastConnector: {why}")
        self.dialler = Dialler(targets, _paced(policy, kwargs))
        self._looked_up = any(name in kwargs for name in LOOKUP)
        local = kwargs.get("local_addr")
        self._source: tuple[str, int] | None = None if local is None else (local[0], local[1])
        super().__init__(**kwargs)
        self._resolver = _Later(self, self._resolver)

    def leaves_lookup(self, host: str, port: int) -> bool:
        """Whether it is aiohttp that looks this name up."""
        return self._looked_up and self.dialler.mapped(host, port) is None

    async def _get(self, key: Any, traces: Any) -> Any:
        idle = self._conns.get(key)
        while idle and not self._trusts(idle[0][0], key):
            idle[0][0].close()
            idle.popleft()
        if idle is not None and not idle:
            del self._conns[key]
        return await super()._get(key, traces)

    def _trusts(self, protocol: Any, key: Any) -> bool:
        transport = protocol.transport
        sock = None if transport is None else transport.get_extra_info("socket")
        if sock is None:
            return True  # closed: aiohttp sees to it
        where = (key.host, key.port) if key.proxy is None else (key.proxy.host, key.proxy.port)
        return self.dialler.trusts(sock, where[0], where[1])

    async def _wrap_create_connection(
        self,
        *args: Any,
        addr_infos: Any,
        req: Any,
        timeout: aiohttp.ClientTimeout,
        client_error: type[Exception] = aiohttp.ClientConnectorError,
        **kwargs: Any,
    ) -> Any:
        found, addr_infos[:] = list(addr_infos), []  # all are raced at once: none is tried again
        limit = timeout.sock_connect or None
        try:
            async with ceil_timeout(limit, ceil_threshold=timeout.ceil_threshold):
                sock = await self._dial(req, found, limit)
                try:
                    return await self._loop.create_connection(*args, **kwargs, sock=sock)
                except BaseException:
                    sock.close()
                    raise
        except aiohttp.client_exceptions.cert_errors as error:
            kind: Any = aiohttp.ClientConnectorCertificateError
            raise kind(req.connection_key, error) from error
        except aiohttp.client_exceptions.ssl_errors as error:
            raise aiohttp.ClientConnectorSSLError(req.connection_key, error) from error
        except OSError as error:
            raise _theirs(error, req, client_error) from error

    async def _dial(self, req: Any, found: list[Any], limit: float | None) -> socket.socket:
        host, port = str(req.url.raw_host), int(req.port)
        target = _listed(found) if self.leaves_lookup(host, port) else None
        return await self.dialler.dial_async(
            host, port, limit=limit, source=self._source, target=target
        )


def _paced(policy: Policy | None, kwargs: dict[str, Any]) -> Policy | None:
    """The policy with aiohttp's own word for the pace of a race, if the caller said it."""
    if "happy_eyeballs_delay" not in kwargs:
        return policy
    delay = kwargs["happy_eyeballs_delay"]
    fields = {"open_attempts": 1} if delay is None else {"attempt_delay": max(0.01, delay)}
    return (policy or Policy()).merged(fields)


def _listed(found: list[Any]) -> Target:
    """What aiohttp has looked up, as a target. Sorted: aiohttp turns them round."""
    addresses = {Address(info[0], info[4]) for info in found}
    return parse_target("static://" + ",".join(sorted(map(str, addresses))))


def _theirs(error: OSError, req: Any, client_error: type[Exception]) -> Exception:
    """aiohttp's error for one of ours, with its report."""
    if isinstance(error, aiohttp.ServerTimeoutError):
        return error
    made: Any
    if isinstance(error, TimeoutError):
        made = aiohttp.ConnectionTimeoutError(str(error))
    elif isinstance(error, gaierror):
        made = aiohttp.ClientConnectorDNSError(req.connection_key, error)
    else:
        made = client_error(req.connection_key, error)
    made.__cause__ = error
    carry_report(made)
    return made
