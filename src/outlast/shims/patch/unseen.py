"""Modules whose connections cannot be seen from Python, and patches that do not go with ours.

A library that dials in C, C++ or Rust never calls `socket.connect`. `install()` says so once, by
name, also when one is imported later: a finder that finds nothing hears of every import, at the
price of one look into a dictionary.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["UNSEEN", "Listener", "loaded", "tell_unseen"]

log = logging.getLogger("outlast")

RUN = "`outlast run -- python ...` sees it"
# The module that does it, and what to do instead.
UNSEEN = {
    "psycopg": f"libpq dials: use outlast.shims.adapters.psycopg, or {RUN}",
    "psycopg2": f"libpq dials: {RUN}",
    "uvloop": f"libuv dials for host names (sockets given to it are seen): {RUN}",
    "grpc": f"its core dials: use outlast.shims.adapters.grpc, or {RUN}",
    "MySQLdb": f"libmysqlclient dials: {RUN}, or use PyMySQL",
    "_mysql_connector": f"libmysqlclient dials: {RUN}, or connect with use_pure=True",
    "mariadb": f"libmariadb dials: {RUN}",
    "pycurl": f"libcurl dials: {RUN}",
    "curl_cffi": f"libcurl dials: {RUN}",
    "pymssql": f"FreeTDS dials: {RUN}",
    "pyodbc": f"the ODBC driver dials: {RUN}",
    "cx_Oracle": f"the Oracle client dials: {RUN}, or use oracledb's thin mode",
    "ibm_db": f"the Db2 client dials: {RUN}",
    "pylibmc": f"libmemcached dials: {RUN}, or use pymemcache",
    "zmq": f"libzmq dials: {RUN}",
    "confluent_kafka": f"librdkafka dials: {RUN}",
    "_pulsar": f"the Pulsar client dials: {RUN}",
    "ldap": f"libldap dials: {RUN}, or use ldap3",
    "pyarrow.flight": f"its gRPC core dials: {RUN}",
    "eventlet": "its green sockets are not Python's: call install() and give it up, or use gevent",
}


def loaded() -> list[str]:
    """Those that are imported already."""
    return [name for name in UNSEEN if name in sys.modules]


def tell_unseen(names: Iterable[str]) -> None:
    """Say so, in one line for each."""
    for name in names:
        log.warning("install() does not see the connections of %s: %s", name, UNSEEN[name])


class Listener:
    """Hears of imports; on `sys.meta_path` while `install()` holds. `unseen`: told of a module that
    dials past us. `after`: names of modules, and what to do once they are loaded."""

    def __init__(
        self, unseen: Callable[[str], None], after: dict[str, Callable[[ModuleType], None]]
    ) -> None:
        self._unseen = unseen
        self._after = dict(after)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Nothing, always, but for a module that is to be met when it is loaded."""
        if name in UNSEEN:
            self._unseen(name)
        action = self._after.pop(name, None)
        return None if action is None else _met(name, path, target, action)


def _met(
    name: str,
    path: Sequence[str] | None,
    target: ModuleType | None,
    action: Callable[[ModuleType], None],
) -> ModuleSpec | None:
    """The spec that another finder gives, with something to do after the module has run."""
    for finder in sys.meta_path:
        if isinstance(finder, Listener):
            continue
        spec = finder.find_spec(name, path, target)
        if spec is not None:
            return spec if _followed(spec, action) else None
    return None


def _followed(spec: ModuleSpec, action: Callable[[ModuleType], None]) -> bool:
    """Have `action` follow the module's own code; False if its loader does not allow it."""
    loader: Any = spec.loader
    run = getattr(loader, "exec_module", None)
    if run is None:
        return False

    def exec_module(module: ModuleType) -> None:
        run(module)
        action(module)

    try:
        loader.exec_module = exec_module
    except (AttributeError, TypeError):  # a loader of C's
        return False
    return True
