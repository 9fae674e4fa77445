"""Where a client over outlast differs from a plain one behind a proxy, case by case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.dropin.difference import Better

__all__ = ["PROXIES"]

SOCKSIO = "socksio.ProtocolError, socksio.ProtocolError"
ERRORS = "ProxyError, ProxyError"
ASKED = "SOCKS5 127.0.0.1"
NAMED = "GET http://xn--bcher-kva.test/1"

CASES: Mapping[str, Better | Sequence[Better]] = {
    **dict.fromkeys(
        ("socks_socks4", "socks_http"),
        Better("own_errors", f"{SOCKSIO} | nothing | nothing", f"{ERRORS} | nothing | nothing"),
    ),
    "socks_unknown_reply": Better(
        "own_errors", f"{SOCKSIO} | {ASKED} | {ASKED}", f"{ERRORS} | {ASKED} | {ASKED}"
    ),
    "socks_greeting_hung_up": Better(
        "redial", f"{SOCKSIO} | nothing | nothing", f"{ERRORS} | many without a request"
    ),
    "socks_reply_hung_up": Better(
        "redial", f"{SOCKSIO} | {ASKED} | {ASKED}", f"{ERRORS} | many times {ASKED}"
    ),
    "connect_hung_up": Better(
        "redial",
        "RemoteProtocolError, RemoteProtocolError | CONNECT 127.0.0.1 | CONNECT 127.0.0.1",
        "RemoteProtocolError, RemoteProtocolError | many times CONNECT 127.0.0.1",
    ),
    "odd_names_http": Better(
        "brackets",
        f"200, 200 | {NAMED} | GET http://::1/2 | GET /1 | GET /2",
        f"200, 200 | {NAMED} | GET http://[::1]/2 | GET /1 | GET /2",
    ),
}

PROXIES: Mapping[str, Better | Sequence[Better]] = {
    f"proxies-{name}": each for name, each in CASES.items()
}
