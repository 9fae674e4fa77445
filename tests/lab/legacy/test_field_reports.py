"""Reports from the field of clients that cannot be changed, by their ids: a database and a cache.

Both are met in one black hole, in which ARP goes on and all packets vanish: stopping a container
would be answered by its host.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outlast.testing import KernelLab
from outlast.testing.node import Node
from tests.lab.legacy import ways
from tests.lab.legacy.incident import Outage, outlive
from tests.lab.legacy.met import CUT, Met, broken
from tests.lab.legacy.rows import Row

# With so many one of them is as good as sure to be at work with the node that dies.
HOLE = Outage(workers=12, pause=0.2, lasts=13.0, watched=21.0, fault=Node.black_hole)
REDIS = Row("redis-py, no timeout", "with_redis.py", "pooled", "redis", ("redis",), keepalive=True)
QUERY = Row("psycopg, in a query", "with_long_query.py", "kept", "postgres", ("psycopg",))
CHOSEN = (
    ("bare", QUERY),
    ("install", REDIS),
    ("run", REDIS),
    ("forward", REDIS),
    ("run", QUERY),
    ("forward", QUERY),
)


def test_fr21_fr23_a_client_without_timeouts_is_bounded(
    lab: KernelLab, figures: Callable[[str], None], subtests: pytest.Subtests
) -> None:
    lacking = {(way, row.name): ways.lacking(way) or row.lacking() for way, row in CHOSEN}
    possible = [(way, row) for way, row in CHOSEN if lacking[way, row.name] is None]
    found = outlive(lab, possible, HOLE)
    for way, row in CHOSEN:
        name = f"{way}: {row.name}"
        with subtests.test(name):
            if (reason := lacking[way, row.name]) is not None:
                pytest.skip(f"{name}: {reason}")
            met = found[name]
            assert isinstance(met, Met), met
            figures(met.figures() if row is REDIS else queries(met))
            if way == "bare":
                assert met.hung, "the fault did not show without a shim"
            elif row is QUERY:
                ended_in_time(met)
            else:
                assert not broken(met, HOLE.workers), met.explain()


def queries(met: Met) -> str:
    """One line of figures."""
    failed = [call.end for call in met.calls if call.error]
    when = f", the last {max(failed):.1f} s after the loss" if failed else ""
    return f"{met.name:<38} {len(failed)} queries failed{when}; {len(met.hung)} hung"


def ended_in_time(met: Met) -> None:
    """The query that the machine's death met ended in an error of the library's, and no other."""
    assert not met.hung, met.explain()
    errors = [call for call in met.calls if call.error]
    assert errors, "nobody was in a query on the node that died"
    assert all(call.at < HOLE.pause * 2 for call in errors), met.explain()
    assert all(call.end <= CUT for call in errors), met.explain()
    assert {call.error for call in errors} == {"OperationalError"}, met.explain()
