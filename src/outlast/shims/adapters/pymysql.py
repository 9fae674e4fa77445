"""PyMySQL: a connection class whose sockets are dialled by this library.

Hook: `Connection.connect(sock)`, which takes a socket that stands. TLS against `host`, credentials,
timeouts and exceptions are PyMySQL's. Unix sockets are left to it. Without the caller's
`connect_timeout` the policy's holds (PyMySQL's own is 10 s).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pymysql
import pymysql.connections
from pymysql.constants import CR

from outlast.policy import Policy
from outlast.shims.adapters.dialler import Dialler, carry_report
from outlast.target import Target

__all__ = ["OutlastConnection"]


class OutlastConnection(pymysql.connections.Connection):
    """`pymysql.Connection` that outlives its endpoints while it connects, also again (`ping`).

    Takes that class's arguments, and by keyword:

    targets: "host:port" to the target that stands behind it; see `outlast.Target`.
    policy: an `outlast.Policy`; its socket fields are used.

    Raises PyMySQL's exceptions; those of a connect carry `.report`. Not thread-safe, as PyMySQL's.
    """

    def __init__(
        self,
        *args: Any,
        targets: Mapping[str, str | Target] | None = None,
        policy: Policy | None = None,
        **kwargs: Any,
    ) -> None:
        self._dialler = Dialler(targets, policy)
        self._bounded = "connect_timeout" in kwargs
        super().__init__(*args, **kwargs)

    def connect(self, sock: Any = None) -> None:
        """See PyMySQL; without a socket, over one that is dialled here."""
        if sock is None and not self.unix_socket:
            sock = self._dial()
            self.host_info = f"socket {self.host}:{self.port}"
        super().connect(sock)

    def _dial(self) -> Any:
        source = None if self.bind_address is None else (str(self.bind_address), 0)
        limit = self.connect_timeout if self._bounded else None
        try:
            sock = self._dialler.dial(self.host, int(self.port), limit=limit, source=source)
        except OSError as error:
            text = f"Can't connect to MySQL server on {self.host!r} ({error})"
            told: Any = pymysql.OperationalError(CR.CR_CONN_HOST_ERROR, text)
            told.original_exception = told.__cause__ = error
            carry_report(told)
            raise told from error
        sock.settimeout(None)  # as after PyMySQL's own connect; it sets its read timeout later
        return sock
