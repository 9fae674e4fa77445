"""The rows: which program, in which mode, against which server, under which ways.

`new` opens a connection for each call; `pooled` keeps them. The ways are those that the program
needs according to docs/legacy.md: `install` sees what dials in Python, `run` and `forward` see all.

Refuses silently passing over: `lacking` names what a row needs and does not find.
"""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path

from outlast.testing.namespaces import search_path
from tests.lab.legacy import go_client
from tests.lab.legacy.servers import KINDS

__all__ = ["BRIEF", "ROWS", "WAYS", "Row", "rows_of"]

PROGRAMS = Path(__file__).parent / "programs"
WAYS = ("bare", "install", "run", "forward", "adapter")
_PYTHON = ("bare", "install", "run", "forward")
_ADAPTED = (*_PYTHON, "adapter")  # programs/adapted has it too
_C = ("bare", "run", "forward")  # dials in C: install() cannot see it
_C_ADAPTED = (*_C, "adapter")


@dataclass(frozen=True, slots=True)
class Row:
    """One program in one mode. `needs`: a Python package, or a program of the system's."""

    name: str
    program: str
    mode: str
    server: str
    needs: tuple[str, ...] = ()
    ways: tuple[str, ...] = _PYTHON
    keepalive: bool = False  # sets one of its own that is slower than the bounds; it stands

    @property
    def new(self) -> bool:
        """Whether each call opens a connection."""
        return self.mode.startswith("new")

    def lacking(self) -> str | None:
        """What is missing here, or None."""
        if self.server in KINDS and (reason := KINDS[self.server].missing()) is not None:
            return reason
        for need in self.needs:
            if need == "go":
                if (reason := go_client.missing()) is not None:
                    return reason
            elif need in ("curl", "node"):
                if shutil.which(need, path=search_path()) is None:
                    return f"the program {need} is missing"
            elif importlib.util.find_spec(need) is None:
                return f"the Python package {need} is not installed"
        return None


def _both(
    library: str,
    program: str,
    server: str,
    needs: str,
    ways: tuple[str, ...] = _PYTHON,
    *,
    keepalive: bool = False,
) -> list[Row]:
    return [
        Row(f"{library}, {mode}", program, mode, server, (needs,), ways, keepalive)
        for mode in ("new", "pooled")
    ]


ROWS = (
    *_both("requests", "with_requests.py", "http", "requests", _ADAPTED),
    *_both("urllib3", "with_urllib3.py", "http", "urllib3", _ADAPTED),
    Row("urllib, new", "with_urllib.py", "new", "http"),
    *_both("http.client", "with_http_client.py", "http", "http", _ADAPTED),
    *_both("aiohttp", "with_aiohttp.py", "http", "aiohttp", _ADAPTED),
    *_both("redis-py", "with_redis.py", "redis", "redis", _ADAPTED, keepalive=True),
    *_both("redis-py asyncio", "with_redis_asyncio.py", "redis", "redis", _ADAPTED, keepalive=True),
    *_both("PyMySQL", "with_pymysql.py", "mariadb", "pymysql", _ADAPTED),
    *_both("pg8000", "with_pg8000.py", "postgres", "pg8000"),
    *_both("psycopg", "with_psycopg.py", "postgres", "psycopg", _C_ADAPTED),
    *_both("asyncpg", "with_asyncpg.py", "postgres", "asyncpg", _ADAPTED),
    *(
        Row(
            f"asyncpg on uvloop, {mode}",
            "with_asyncpg.py",
            f"{mode}-uvloop",
            "postgres",
            ("asyncpg", "uvloop"),
            _C_ADAPTED,
        )
        for mode in ("new", "pooled")
    ),
    *_both("SQLAlchemy (psycopg)", "with_sqlalchemy.py", "postgres", "sqlalchemy", _C_ADAPTED),
    *_both("grpc", "with_grpc.py", "grpc", "grpc", _C_ADAPTED),
    Row("curl, new", "with_curl.sh", "new", "http", ("curl",), _C, keepalive=True),
    *_both("Node http", "with_node.js", "http", "node", _C),
    *_both("Go net/http, static", "with_go.go", "http", "go", _C, keepalive=True),
)

# What `make test` runs, all in one outage; the rest is for `make legacy`.
BRIEF = (
    ("bare", "requests, new"),
    ("install", "requests, new"),
    ("install", "requests, pooled"),
    ("install", "redis-py, pooled"),
    ("run", "requests, new"),
    ("run", "curl, new"),
    ("run", "psycopg, pooled"),
    ("forward", "redis-py, pooled"),
)


def rows_of(way: str) -> list[Row]:
    """The rows that a way has."""
    return [row for row in ROWS if way in row.ways]
