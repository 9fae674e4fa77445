"""Holds docs/drop-in.md against the table of cases that the side-by-side suite runs."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest

from tests.docs.pages import page
from tests.dropin import cases
from tests.dropin.better import BETTER, REASONS
from tests.dropin.table import CASES

PAGE = "docs/drop-in.md"


def section(heading: str) -> list[list[str]]:
    """The rows of the table below a heading, without its head."""
    text = page(PAGE).text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.parametrize("family", [httpx, httpx2])
def test_every_argument_is_told(family: Any) -> None:
    told = set(re.findall(r"`(\w+)`", " ".join(row[0] for row in section("Arguments"))))
    theirs = {
        name
        for made in (family.Client, family.AsyncClient, family.HTTPTransport)
        for name in inspect.signature(made).parameters
    }
    assert theirs | {"policy", "targets", "network", "http1_parser"} == told


def test_every_difference_is_told_and_nothing_else() -> None:
    assert sorted(row[0] for row in section("Differences")) == sorted(REASONS.values())


def test_every_difference_is_some_case_s() -> None:
    assert {each.why for found in BETTER.values() for each in found} == set(REASONS)


def test_every_difference_has_a_case() -> None:
    assert BETTER.keys() <= CASES.keys()


def test_every_group_of_cases_is_told() -> None:
    groups = [name for name in cases.__all__ if isinstance(getattr(cases, name), ModuleType)]
    assert sorted(row[0].strip("`") for row in section("What is the same")) == sorted(groups)


def test_every_case_is_some_group_s() -> None:
    assert {name.partition("-")[0] for name in CASES} <= set(cases.__all__)
