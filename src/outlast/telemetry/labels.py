"""Labels with a bound: what may be one, how it is written, and how many there can be.

A label costs memory for each of its values, in this process and wherever it is stored. Addresses
are bounded by the endpoint table, as long as those that have left are given up: an event about
one that comes late has no address. Targets are bounded by `MOST_TARGETS`, which is what the
table keeps; a crawler meets names without end, and all beyond that are one. Methods are those of
the HTTP conventions of OpenTelemetry, all others are one. Words for people (`why`) never are.
"""

from __future__ import annotations

import errno as errno_names
import os
import weakref
from collections import OrderedDict
from threading import Lock

__all__ = ["OTHER", "Labels", "errno_label", "method_label"]

OTHER = "_OTHER"  # OpenTelemetry's word for whatever is not in a known set
MOST_TARGETS = 1024  # as `service.table.MAX_TARGETS`
MOST_DEPARTED = 4096  # endpoints that left last, and are known to have

# OpenTelemetry's registry of attributes, http.request.method: RFC 9110, and PATCH of RFC 5789.
METHODS = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}
)


def method_label(method: str) -> str:
    """A request's method, or `OTHER` for one of the caller's own."""
    return method if method in METHODS else OTHER


def errno_label(number: int | None) -> str:
    """ "ECONNREFUSED" and such; "" for none, the number where it has no name."""
    return "" if number is None else errno_names.errorcode.get(number, str(number))


class Labels:
    """Which targets and addresses are labels now. Thread-safe, except for `lock`.

    `lock`: whoever records something with a label holds it, so that an endpoint does not leave
    between the question and the record.
    """

    def __init__(self, most_targets: int = MOST_TARGETS) -> None:
        self.lock = Lock()
        self._most_targets = most_targets
        self._targets: set[str] = set()
        self._departed: OrderedDict[tuple[str, str], None] = OrderedDict()
        _all.add(self)

    def target(self, text: str) -> str:
        """A target as a label, or `OTHER`. Under the lock."""
        if text not in self._targets:
            if len(self._targets) >= self._most_targets:
                return OTHER
            self._targets.add(text)
        return text

    def address(self, target: str, address: str) -> str:
        """An endpoint's address as a label; "" of one that has left, or whose target has no label
        of its own. Under the lock."""
        if (target, address) in self._departed or self.target(target) == OTHER:
            return ""
        return address

    def joined(self, target: str, address: str) -> None:
        """An endpoint may be a label again. Under the lock."""
        self._departed.pop((target, address), None)

    def left(self, target: str, address: str) -> None:
        """An endpoint is no label any more. Under the lock."""
        self._departed[target, address] = None
        if len(self._departed) > MOST_DEPARTED:
            self._departed.popitem(last=False)


_all: weakref.WeakSet[Labels] = weakref.WeakSet()


def _renew() -> None:
    for labels in list(_all):  # in the child of a fork another thread's lock is never let go
        labels.lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
