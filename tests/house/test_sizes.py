"""Small files, short functions. No exception list: a file over the cap is two files."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.house.sources import Source, functions, library, made_up, programs, suite

MODULE_LINES = 400
FUNCTION_LINES = 50  # without its docstring


def long_modules(sources: Iterable[Source], cap: int = MODULE_LINES) -> Iterator[str]:
    for source in sources:
        lines = len(source.text.splitlines())
        if lines > cap:
            yield source.finding(1, f"{lines} lines; a module has at most {cap}")


def long_functions(sources: Iterable[Source], cap: int = FUNCTION_LINES) -> Iterator[str]:
    for source in sources:
        for function in functions(source):
            lines = length(function)
            if lines > cap:
                message = f"{function.name} has {lines} lines; a function has at most {cap}"
                yield source.finding(function, message)


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        docstring = function.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def everything() -> list[Source]:
    return library() + suite() + programs()


def test_modules_are_small() -> None:
    assert list(long_modules(everything())) == []


def test_functions_are_short() -> None:
    assert list(long_functions(everything())) == []


# --- the gates can fail -----------------------------------------------------------------------


@pytest.mark.parametrize(("lines", "reported"), [(400, 0), (401, 1)])
def test_a_long_module_is_reported(lines: int, reported: int) -> None:
    assert len(list(long_modules([made_up("x = 1\n" * lines)]))) == reported


@pytest.mark.parametrize(("lines", "reported"), [(49, 0), (50, 1)])
def test_a_long_function_is_reported(lines: int, reported: int) -> None:
    docstring = '    """What.\n\n    And why.\n    """\n'
    text = "class A:\n  async def f():\n" + docstring + "    x = 1\n" * lines
    assert len(list(long_functions([made_up(text)]))) == reported
