"""Targets: one string that says where the endpoints of a Service come from.

`orders.shop.svc:8080` or `dns://orders.shop.svc:8080` (the name's addresses), and
`static://10.0.0.1:8080,10.0.0.2:8080` (as listed). `srv://`, `k8s://` and `nodeport://` are
documented and come later: they are refused by name. Anything else is refused with the forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from outlast.errors import NotAvailableYet
from outlast.net.address import Address, literal, split_host_port

__all__ = ["Origin", "Target", "parse_origin", "parse_target", "target_of"]

FORMS = "'orders.shop.svc:8080', 'dns://orders.shop.svc:8080', 'static://10.0.0.1:8080,10.0.0.2:80'"
LATER = {"srv", "k8s", "nodeport"}
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """Where endpoints come from: a `name` to look up, or `addresses` as listed."""

    text: str
    name: tuple[str, int] | None = None
    addresses: tuple[Address, ...] = ()


class Origin(NamedTuple):
    """Scheme, host and port of a URL: what a connection may be shared for."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_target(text: Any) -> Target:
    """The target that `text` names. ValueError naming the part that is wrong."""
    if not isinstance(text, str):
        raise ValueError(f"target: {text!r} is no text; write {FORMS}")
    if not text.strip():
        raise ValueError(f"target: {text!r} names nothing; write {FORMS}")
    scheme, mark, rest = text.strip().partition("://")
    scheme = scheme.lower()
    if not mark:
        return _named(text.strip(), text)
    if scheme == "dns":
        return _named(rest, text)
    if scheme == "static":
        return _listed(rest, text)
    if scheme in LATER:
        raise NotAvailableYet(
            f"target {text!r}: {scheme}:// is not available yet; until then write {FORMS}"
        )
    raise ValueError(f"target {text!r}: unknown scheme {scheme!r}; write {FORMS}")


def _named(rest: str, text: str) -> Target:
    host, port = split_host_port(rest, what=f"target {text!r}", example="orders.shop.svc:8080")
    return target_of(host, port)


def _listed(rest: str, text: str) -> Target:
    found: dict[Address, None] = {}
    for part in rest.split(","):
        what = f"target {text!r}"
        host, port = split_host_port(part.strip(), what=what, example="10.0.0.1:8080")
        address = literal(host, port)
        if address is None:
            raise ValueError(
                f"{what}: {host!r} is no IP address; static:// lists addresses, "
                f"for a name write 'dns://{host}:{port}'"
            )
        found[address] = None
    return Target(f"static://{','.join(map(str, found))}", addresses=tuple(found))


def target_of(host: str, port: int) -> Target:
    """The target of a plain host and port: the name's addresses, or the address itself."""
    address = literal(host, port)
    if address is not None:
        return Target(f"static://{address}", addresses=(address,))
    return Target(f"dns://{host}:{port}", name=(host, port))


def parse_origin(text: Any) -> Origin:
    """The origin "http://host:port" of a `targets` key, as httpx reads it in a request's URL.

    ValueError naming what is wrong.
    """
    import httpx  # the very code that reads the URLs of requests: names and ports must agree

    key, form = f"targets: key {text!r}", "write it like 'http://orders.shop.svc:8080'"
    try:
        url = httpx.URL(text if isinstance(text, str) else "")
    except httpx.InvalidURL as error:
        raise ValueError(f"{key}: {error}; {form}") from error
    host = url.raw_host.decode("ascii")
    if url.scheme not in DEFAULT_PORTS or not host:
        raise ValueError(f"{key} is no http:// or https:// origin; {form}")
    if url.raw_path != b"/" or url.fragment or url.userinfo:
        raise ValueError(f"{key} has more than scheme, host and port; {form}")
    if "%" in host:  # what no host name may contain comes out escaped
        raise ValueError(f"{key}: {url.host!r} is no host; {form}")
    port = DEFAULT_PORTS[url.scheme] if url.port is None else url.port
    if not 0 < port < 65536:
        raise ValueError(f"{key}: port {port} is not from 1 to 65535; {form}")
    return Origin(url.scheme, host, port)
