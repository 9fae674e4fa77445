"""Where a client over outlast differs from a plain one, and why that is better.

docs/drop-in.md is written from this table: it has a row for each reason, by its heading, and a
test holds that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.dropin.better_http1 import HTTP_1
from tests.dropin.better_http2 import HTTP_2
from tests.dropin.better_nginx import NGINX
from tests.dropin.better_proxies import PROXIES
from tests.dropin.difference import Better

__all__ = ["BETTER", "REASONS"]

# By the case's name; of several the first that holds in a world and family counts.
BETTER: Mapping[str, Sequence[Better]] = {
    name: [each] if isinstance(each, Better) else each
    for name, each in {**HTTP_1, **HTTP_2, **NGINX, **PROXIES}.items()
}

# The first cells of docs/drop-in.md's table of differences, where each is explained.
REASONS: Mapping[str, str] = {
    "alerts": "TLS alerts",
    "blame": "A peer that breaks HTTP/2",
    "brackets": "An IPv6 address through a proxy",
    "early": "An answer before the request's end",
    "farewell": "A server that leaves (GOAWAY)",
    "no_status": "A response without a status",
    "own_errors": "An error of a library below",
    "redial": "A connection that ends in its handshake",
    "repeat": "A request that was sent and not answered",
    "reset": "An HTTP/2 request that is given up",
    "spoiled": "An HTTP/2 request that cannot be sent",
    "shared": "An HTTP/2 connection that threads share",
    "status": "A status that asks to try again",
    "surplus": "Bytes after a response",
    "threads": "A full pool that threads share",
    "trace": "What `trace` tells",
    "unprocessed": "A request that the server did not process",
    "unseen": "An HTTP/2 connection that ended while idle",
    "window": "An HTTP/2 server that takes no more of a body",
    "worlds": "The same event in another event loop",
    "ws": "`ws://` beside `http://`",
}
