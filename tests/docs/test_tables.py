"""Holds the documentation's tables against the code: defaults, fixed figures, options, names."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast.core.budget import BudgetPlan
from outlast.http.transport import AsyncTransport, Transport
from outlast.net import options
from outlast.testing import KernelLab
from outlast.testing.node import Node
from outlast.testing.pod import Pod
from outlast.testing.service import Service
from tests.docs.pages import ROOT, page, pages

DEFAULTS = "docs/defaults.md"
ROOMS = ("core", "http", "service")  # every figure of these must be told
VALUES: dict[str, Any] = {
    "Backoff": outlast.Backoff,
    "BudgetPlan": BudgetPlan,
    "Keepalive": outlast.Keepalive,
}


def told() -> dict[str, str]:
    """First cell to second cell of the rows whose first cell is code."""
    rows = {row[0]: row[1] for row in page(DEFAULTS).rows() if row[0].startswith("`")}
    return {name.strip("`"): value.strip("`") for name, value in rows.items()}


def figures(path: Path) -> Iterator[tuple[str, float]]:
    """The constants of a module and of its classes, by their place, such as `core.race.X`."""
    place = ".".join(path.relative_to(ROOT / "src" / "outlast").with_suffix("").parts)
    module = importlib.import_module(f"outlast.{place}")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    scopes: list[tuple[str, Any, ast.Module | ast.ClassDef]] = [(place, module, tree)]
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    scopes += [(f"{place}.{node.name}", getattr(module, node.name), node) for node in classes]
    for prefix, owner, scope in scopes:
        for name in _assigned(scope):
            value = getattr(owner, name, None)
            if isinstance(value, (int, float)) and re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
                yield f"{prefix}.{name}", value


def _assigned(scope: ast.Module | ast.ClassDef) -> Iterator[str]:
    for node in scope.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name):
                    yield name.id


ENUMS = ("core.classify.Progress.",)  # words, not figures


def all_figures() -> dict[str, float]:
    found: dict[str, float] = {}
    for room in ROOMS:
        for path in sorted((ROOT / "src" / "outlast" / room).glob("*.py")):
            if path.stem != "__init__":
                found |= dict(figures(path))
    return {name: value for name, value in found.items() if not name.startswith(ENUMS)}


def test_every_policy_field_is_told_with_its_default() -> None:
    cells = told()
    for field in dataclasses.fields(outlast.Policy):
        assert field.name in cells, f"{DEFAULTS} lacks Policy.{field.name}"
        assert eval(cells[field.name], VALUES) == getattr(outlast.Policy(), field.name), field.name


def test_every_fixed_figure_is_told_with_its_value() -> None:
    cells = told()
    for name, value in all_figures().items():
        assert name in cells, f"{DEFAULTS} lacks {name} = {value}"
        assert ast.literal_eval(cells[name]) == value, name


def test_what_is_told_exists() -> None:
    fields = {field.name for field in dataclasses.fields(outlast.Policy)}
    for name, value in told().items():
        if name in fields:
            continue
        place, _, attribute = name.rpartition(".")
        if attribute.endswith(")"):  # a parameter's default: `core.budget.RetryBudget(ratio)`
            attribute, parameter = attribute[:-1].split("(")
            made = getattr(importlib.import_module(f"outlast.{place}"), attribute)
            held: Any = inspect.signature(made).parameters[parameter].default
        else:
            held = _found(f"outlast.{place}", attribute)
        assert ast.literal_eval(value) == held, name


def _found(place: str, attribute: str) -> object:
    try:
        return getattr(importlib.import_module(place), attribute)
    except ModuleNotFoundError:
        module, _, owner = place.rpartition(".")
        return getattr(getattr(importlib.import_module(module), owner), attribute)


def test_every_public_name_is_documented() -> None:
    text = "\n".join(shown.text for shown in pages() if shown.name.startswith("docs/"))
    for name in outlast.__all__:
        assert re.search(rf"\b{name}\b", text), f"docs/ say nothing of outlast.{name}"


@pytest.mark.parametrize("made", [Transport, AsyncTransport])
def test_every_argument_of_a_transport_is_told(made: type) -> None:
    text = page("docs/transports.md").text
    for name in inspect.signature(made).parameters:
        assert f"`{name}" in text, f"docs/transports.md lacks {made.__name__}({name}=)"


@pytest.mark.parametrize(
    ("made", "inner"),
    [
        (KernelLab, {"power_changed"}),
        (Node, {"note", "close"}),
        (Pod, {"launch", "end", "wait_ready"}),
        (Service, set()),
    ],
)
def test_every_word_of_the_lab_is_told(made: type, inner: set[str]) -> None:
    text = page("docs/kernel-lab.md").text
    for name, value in vars(made).items():
        if callable(value) and not name.startswith("_") and name not in inner:
            assert re.search(rf"\b{name}\b", text), (
                f"docs/kernel-lab.md lacks {made.__name__}.{name}"
            )


OPTIONS = {
    "keepalive idle": "idle",
    "keepalive interval": "interval",
    "keepalive count": "count",
    "user timeout": "ut",
    "longest gap between retransmissions": "rto_max",
}
PLATFORMS = {"linux": 1, "darwin": 2, "win32": 3}


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux names its own options")
@pytest.mark.parametrize("platform", PLATFORMS)
def test_option_numbers_are_those_of_the_code(
    platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    numbers = options._platform()
    monkeypatch.undo()
    rows = {row[0]: row for row in page("docs/dialling.md").rows() if len(row) == 5}
    for label, name in OPTIONS.items():
        cell = rows[label][PLATFORMS[platform]]
        number = re.match(r"`\w+` (\d+)\b", cell)
        assert (int(number[1]) if number else None) == numbers[name], f"{label}: {cell}"
