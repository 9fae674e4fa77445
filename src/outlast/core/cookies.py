"""A router's sticky cookie, left out of a repeated request so that another pod is drawn.

The OpenShift router pins a client to a pod by a cookie (HAProxy's `cookie ... insert`). Its name is
the MD5 of the route in 32 hex digits unless the route or the router names it (annotation
router.openshift.io/cookie_name, ROUTER_COOKIE_NAME); its value is the MD5 of the endpoint, or 16
digits where HAProxy makes it (dynamic-cookie-key). Source: haproxy-config.template, router.go and
plugin.go of openshift/router.

Refuses to touch what it was not told to leave out: everything else stays byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["OPENSHIFT", "CookieName", "without_cookies"]

OPENSHIFT = "openshift"  # the word for the router's cookie, whatever the route
OPENSHIFT_PAIR = re.compile(r"[0-9a-f]{32}=\"?(?:[0-9a-f]{32}|[0-9a-f]{16})\"?")

CookieName: TypeAlias = "str | re.Pattern[str]"


def without_cookies(value: bytes, names: Iterable[CookieName]) -> bytes | None:
    """A Cookie header's value without the cookies of these names; None if nothing is left of it,
    `value` itself if none of them is there.

    A name is exact, or a pattern that a whole name must match, or `OPENSHIFT`. Where HTTP/2 splits
    cookies over several fields, each field is given for itself.
    """
    names = tuple(names)
    pairs = value.split(b";")
    kept = [pair for pair in pairs if not _named(pair.decode("latin-1").strip(), names)]
    if len(kept) == len(pairs):
        return value
    return b";".join(pair for pair in kept if pair.strip()).strip() or None


def _named(pair: str, names: tuple[CookieName, ...]) -> bool:
    name = pair.partition("=")[0].rstrip()
    for wanted in names:
        if isinstance(wanted, re.Pattern):
            if wanted.fullmatch(name):
                return True
        elif wanted == name or (wanted == OPENSHIFT and OPENSHIFT_PAIR.fullmatch(pair)):
            return True
    return False
