"""`http.client` connections whose sockets are dialled by this library.

Hook: the attribute that `HTTPConnection` calls in place of `socket.create_connection`. Everything
else is the standard library's: TLS against the host that was given, tunnels, timeouts, exceptions.
Refuses nothing that http.client takes, but a name as `source_address`: to bind to one would block.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from typing import Any

from outlast.policy import Policy
from outlast.shims.adapters.dialler import Dialler
from outlast.target import Target

__all__ = ["OutlastHTTPConnection", "OutlastHTTPSConnection"]


class OutlastHTTPConnection(http.client.HTTPConnection):
    """`http.client.HTTPConnection` that outlives its endpoints while it connects.

    Takes that class's arguments, and by keyword:

    targets: "host:port" to the target that stands behind it; see `outlast.Target`.
    policy: an `outlast.Policy`; its socket fields are used.

    Raises OSError kinds as before, with `.report`. Not thread-safe, as http.client's.
    """

    def __init__(
        self,
        *args: Any,
        targets: Mapping[str, str | Target] | None = None,
        policy: Policy | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._create_connection = Dialler(targets, policy).create_connection


class OutlastHTTPSConnection(OutlastHTTPConnection, http.client.HTTPSConnection):
    """`http.client.HTTPSConnection`, likewise. The certificate is verified for `host`."""
