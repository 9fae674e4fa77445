"""Python files as the gates read them: parsed once, with their imports resolved.

A gate is a function from `Source`s to findings (one line of text each, with file and line), so
that a test can hand it a synthetic file and see it report.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Source:
    """One Python file."""

    path: str  # relative to the repository, for findings
    module: str  # its dotted name
    text: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    def finding(self, node: ast.AST | int, message: str) -> str:
        line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        return f"{self.path}:{line}: {message}"


@dataclass(frozen=True)
class Import:
    """One imported name: `import a.b` has no `name`, `from a.b import c` has `c`."""

    module: str
    name: str | None
    line: int
    lazy: bool  # inside a function
    typing_only: bool  # under `if TYPE_CHECKING:`

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


def library() -> list[Source]:
    """The files of the library."""
    return _read(ROOT / "src", "")


def suite() -> list[Source]:
    """The files of the tests."""
    return _read(ROOT / "tests", "tests.")


def programs() -> list[Source]:
    """Examples and benchmarks, where there are any."""
    return _read(ROOT / "examples", "examples.") + _read(ROOT / "benchmarks", "benchmarks.")


def made_up(text: str, module: str = "outlast.core.made_up") -> Source:
    """A synthetic file that stands where `module` would stand."""
    folder = "" if module.startswith("tests.") else "src/"
    return Source(folder + module.replace(".", "/") + ".py", module, text)


@functools.cache
def _cached(path: Path, prefix: str, base: Path) -> Source:
    parts = list(path.relative_to(base).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    module = (prefix + ".".join(parts)).rstrip(".")
    return Source(str(path.relative_to(ROOT)), module, path.read_text(encoding="utf-8"))


def _read(base: Path, prefix: str) -> list[Source]:
    return [_cached(path, prefix, base) for path in sorted(base.rglob("*.py"))]


def imports(source: Source) -> Iterator[Import]:
    """Every import of a file: on top, in functions and in TYPE_CHECKING blocks, and by name.

    `importlib.import_module("a.b")` and `__import__("a.b")` count as lazy imports of `a.b`; the
    same with a computed name counts as an import of `?`.
    """
    yield from _imports(source.tree, lazy=False, typing_only=False)


def _imports(node: ast.AST, *, lazy: bool, typing_only: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, None, node.lineno, lazy, typing_only)
    elif isinstance(node, ast.ImportFrom):
        origin = "." * node.level + (node.module or "")
        for alias in node.names:
            yield Import(origin, alias.name, node.lineno, lazy, typing_only)
    elif isinstance(node, ast.Call) and _callee(node) in ("import_module", "__import__"):
        argument = node.args[0] if node.args else None
        fixed = argument.value if isinstance(argument, ast.Constant) else None
        name = fixed if isinstance(fixed, str) else "?"
        yield Import(name, None, node.lineno, True, typing_only)
    inside = lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    if isinstance(node, ast.If) and _is_type_checking(node.test):
        for child in node.body:
            yield from _imports(child, lazy=inside, typing_only=True)
        for child in node.orelse:
            yield from _imports(child, lazy=inside, typing_only=typing_only)
        return
    for descendant in ast.iter_child_nodes(node):
        yield from _imports(descendant, lazy=inside, typing_only=typing_only)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _callee(call: ast.Call) -> str:
    """The last name of what is called: `c` for `a.b.c(...)`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a file, nested ones too."""
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def calls(source: Source) -> Iterator[tuple[ast.Call, str, str]]:
    """Every call of a file, with the dotted text of what is called and its last name."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func), _callee(node)
