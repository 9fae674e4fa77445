"""The proxies of the environment, as the families read them: URL patterns and where they lead.

HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY come from `urllib.request.getproxies`, which knows
the platform's own settings too. What is made of them is what the families make of them, so that
a client built here goes the same ways; their own function is private, and the rules differ by
version: httpx takes a network in NO_PROXY ("10.0.0.0/8") for a name, httpx2 reads it and leaves
out what it cannot read, and since 2.16 it knows "*.example.com".
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.request import getproxies

from outlast.http.family import Family

__all__ = ["environment_routes"]

NETWORKS = (2, 14)  # the version that reads networks and "[::1]", and drops what it cannot read
STARS = (2, 16)  # the version that reads "*.example.com"


def environment_routes(family: Family) -> dict[str, str | None]:
    """URL patterns of `mounts`, each with its proxy's URL, or None for a direct way."""
    version = _version(family)
    routes = _routes(getproxies(), version)
    if version >= NETWORKS:
        return {pattern: url for pattern, url in routes.items() if _readable(pattern, family)}
    return routes


def _routes(found: Mapping[str, str], version: tuple[int, ...]) -> dict[str, str | None]:
    routes: dict[str, str | None] = {}
    for scheme in ("http", "https", "all"):
        proxy = found.get(scheme)
        if proxy:
            routes[f"{scheme}://"] = proxy if "://" in proxy else f"http://{proxy}"
    for entry in found.get("no", "").split(","):
        name = entry.strip()
        if name == "*":
            return {}
        pattern = _pattern(name, version) if name else None
        if pattern is not None:
            routes[pattern] = None
    return routes


def _pattern(name: str, version: tuple[int, ...]) -> str | None:
    """The URLs that an entry of NO_PROXY means; None for one that means nothing."""
    address, slash, prefix = name.partition("/")
    kind = _kind(address)
    if "://" in name:
        return name
    if kind == 6:
        whole = version < NETWORKS or not slash
        return f"all://[{name}]" if whole else f"all://[{address}]/{prefix}"
    if kind == 4 or name.lower() == "localhost":
        return f"all://{name}"
    if version >= NETWORKS and name.startswith("["):
        return f"all://{name}"
    if version >= NETWORKS and slash:
        return None
    if version >= STARS and name.startswith("*."):
        return f"all://{name}"
    return f"all://*{name}"  # the name itself and what lies below it


def _kind(address: str) -> int | None:
    """4 or 6 for an IP address, None for anything else."""
    try:
        return ipaddress.ip_address(address).version
    except ValueError:
        return None


def _readable(pattern: str, family: Family) -> bool:
    """Whether the family's client takes this pattern; a client with a transport costs nothing."""
    module = family.module
    try:
        module.Client(transport=module.BaseTransport(), mounts={pattern: None}, trust_env=False)
    except module.InvalidURL:
        return False
    return True


def _version(family: Family) -> tuple[int, ...]:
    numbers = str(getattr(family.module, "__version__", "0")).split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdigit())
