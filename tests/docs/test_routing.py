"""The table that sets outlast beside others names a test for each thing it claims."""

from __future__ import annotations

import ast
import re

from tests.docs.pages import ROOT, page

PAGE = "docs/routing.md"
COLUMNS = 7


def claims() -> list[tuple[str, str, str]]:
    """Feature, what outlast has, and the test, of each row."""
    rows = [row for row in page(PAGE).rows() if len(row) == COLUMNS]
    return [(row[0], row[5], row[6]) for row in rows if row[0] != "feature"]


def named_in(path: str) -> set[str]:
    """The tests of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    made = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, made)}


def test_every_claim_names_a_test_that_exists() -> None:
    assert len(claims()) > 30
    for feature, has, proof in claims():
        if has.startswith("**no**"):
            assert proof == "-", f"{feature}: there is nothing to prove"
            continue
        found = re.fullmatch(r"`(tests/\S+\.py)(?:::(test_\w+))?`", proof)
        assert found, f"{feature}: {proof!r} names no test"
        path, name = found.groups()
        assert name is None or name in named_in(path), f"{feature}: {path} has no {name}"
        assert any(each.startswith("test_") for each in named_in(path)), path


def test_what_is_missing_is_said() -> None:
    assert sum(has.startswith("**no**") for _, has, _ in claims()) >= 5
