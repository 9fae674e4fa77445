"""urllib3, 1.26 and 2: pools and connections whose sockets are dialled by this library.

Hooks: `HTTPConnection._new_conn`, which urllib3's own SOCKS support and many others override, the
pools' `ConnectionCls`, and `pool_classes_by_scheme` of a pool of pools, which is documented to be
set. Timeouts, retries, TLS, proxies, `source_address` and `socket_options` stay urllib3's; its
default TCP_NODELAY included. Through a proxy it is the proxy that is dialled, under its own host
and port; SOCKS proxies are dialled by PySocks, which has no such hook.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from socket import gaierror
from typing import TYPE_CHECKING, Any

import urllib3
from urllib3 import connection, connectionpool, exceptions

from outlast.policy import Policy
from outlast.shims.adapters.dialler import Dialler, carry_report
from outlast.target import Target

if TYPE_CHECKING:
    import socket

__all__ = [
    "OutlastHTTPConnection",
    "OutlastHTTPConnectionPool",
    "OutlastHTTPSConnection",
    "OutlastHTTPSConnectionPool",
    "OutlastPools",
    "OutlastProxyPools",
    "dial_by",
]

# Since urllib3 2 a name that is not known has an error of its own.
_UNKNOWN_NAME: Any = getattr(exceptions, "NameResolutionError", None)


class OutlastHTTPConnection(connection.HTTPConnection):
    """urllib3's `HTTPConnection`, dialled by `dialler`."""

    def __init__(self, *args: Any, dialler: Dialler | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.dialler = Dialler() if dialler is None else dialler
        self._process = 0  # that has connected

    def _new_conn(self) -> socket.socket:
        host = str(self._dns_host)
        try:
            host.encode("idna")
        except UnicodeError as error:
            text = f"'{host}', label empty or too long"
            raise exceptions.LocationParseError(text) from error
        try:
            sock = self.dialler.create_connection(
                (host, self.port),
                self.timeout,
                self.source_address,
                options=tuple(self.socket_options or ()),
                nodelay=False,  # urllib3's options have it by default
            )
        except OSError as error:
            raise self._theirs(error) from error
        self._process = os.getpid()
        sys.audit("http.client.connect", self, self.host, self.port)
        return sock

    def _theirs(self, error: OSError) -> Any:
        """urllib3's error for one of ours, with its report."""
        told: Any
        if isinstance(error, TimeoutError):
            text = f"Connection to {self.host} timed out. (connect timeout={self.timeout})"
            told = exceptions.ConnectTimeoutError(self, f"{text}: {error}")
        elif isinstance(error, gaierror) and _UNKNOWN_NAME is not None:
            told = _UNKNOWN_NAME(self.host, self, error)
        else:
            text = f"Failed to establish a new connection: {error}"
            told = exceptions.NewConnectionError(self, text)
        told.__cause__ = error
        carry_report(told)
        return told

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against another request on this connection: it is this process's
        own, and its peer is well."""
        if self.sock is None:
            return True
        own = self._process == os.getpid()
        return own and self.dialler.trusts(self.sock, str(self._dns_host), self.port)


class OutlastHTTPSConnection(OutlastHTTPConnection, connection.HTTPSConnection):
    """urllib3's `HTTPSConnection`, likewise. The certificate is verified for the pool's host."""


class OutlastHTTPConnectionPool(connectionpool.HTTPConnectionPool):
    """urllib3's `HTTPConnectionPool`, dialled by this library.

    Takes that class's arguments, and by keyword `targets` and `policy`, or a `dialler` that several
    share. A connection whose peer or endpoint is under suspicion, or that a fork has inherited, is
    not used again. Thread-safe.
    """

    ConnectionCls = OutlastHTTPConnection

    def __init__(
        self,
        *args: Any,
        targets: Mapping[str, str | Target] | None = None,
        policy: Policy | None = None,
        dialler: Dialler | None = None,
        **kwargs: Any,
    ) -> None:
        dialler = Dialler(targets, policy) if dialler is None else dialler
        super().__init__(*args, dialler=dialler, **kwargs)

    def _get_conn(self, timeout: float | None = None) -> Any:
        found: Any = super()._get_conn(timeout)
        if found.trusted:
            return found
        found.close()
        # urllib3 1.26: one that went through a proxy must not be opened again
        return found if getattr(found, "auto_open", 1) else self._new_conn()


class OutlastHTTPSConnectionPool(OutlastHTTPConnectionPool, connectionpool.HTTPSConnectionPool):
    """urllib3's `HTTPSConnectionPool`, likewise."""

    ConnectionCls = OutlastHTTPSConnection


def dial_by(pools: urllib3.PoolManager, dialler: Dialler) -> None:
    """Have a pool of pools (a ProxyManager too) make its connections with `dialler` from now on."""
    made: Any = {
        "http": functools.partial(OutlastHTTPConnectionPool, dialler=dialler),
        "https": functools.partial(OutlastHTTPSConnectionPool, dialler=dialler),
    }
    pools.pool_classes_by_scheme = made


class OutlastPools(urllib3.PoolManager):
    """`urllib3.PoolManager` that outlives its endpoints.

    Takes that class's arguments, and by keyword:

    targets: "host:port" to the target that stands behind it; see `outlast.Target`.
    policy: an `outlast.Policy`; its socket fields are used.

    Raises urllib3's exceptions; those of a connect carry `.report`. Thread-safe.
    """

    def __init__(
        self,
        *args: Any,
        targets: Mapping[str, str | Target] | None = None,
        policy: Policy | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        dial_by(self, Dialler(targets, policy))


class OutlastProxyPools(urllib3.ProxyManager):
    """`urllib3.ProxyManager`, likewise: the proxy is what is dialled, so that `targets` speaks of
    the proxy's host and port."""

    def __init__(
        self,
        *args: Any,
        targets: Mapping[str, str | Target] | None = None,
        policy: Policy | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        dial_by(self, Dialler(targets, policy))
