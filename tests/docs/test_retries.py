"""Holds the page on retries against the code: words of a dry run, forms of a deadline."""

from __future__ import annotations

import re

from outlast.core.call_steps import Repeat
from outlast.core.handing_on import deadline_header
from outlast.core.health_plan import Rule
from outlast.fields import GROUPS, dry_run
from tests.docs.pages import page

RETRIES = "docs/retries.md"


def words() -> set[str]:
    """Those of the table of dry runs."""
    told = page(RETRIES).text.partition("## Dry run")[2]
    cells = [line.split(" | ")[0] for line in told.splitlines() if line.startswith("| `")]
    return {word for cell in cells for word in re.findall("`([a-z_]+)`", cell)}


def test_every_rule_of_a_dry_run_is_told() -> None:
    assert words() == {*(rule.value for rule in (*Repeat, *Rule)), *GROUPS}
    for word in words():
        assert dry_run(word, "dry_run")


def test_the_forms_of_a_deadline_are_as_told() -> None:
    rows = {row[0]: row[2].strip("`") for row in page(RETRIES).rows() if len(row) == 3}
    assert deadline_header("grpc-timeout", 2.5) == rows["`grpc-timeout`"]
    name = "x-envoy-expected-rq-timeout-ms"
    assert deadline_header(name, 2.5) == rows[f"ends in `-ms`, as `{name}`"]
    assert deadline_header("x-time-left", 2.5) == rows["any other"]
