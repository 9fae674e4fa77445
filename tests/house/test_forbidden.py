"""What no file may contain, read from its text and its tree."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.house.sources import Source, calls, functions, imports, library, made_up, programs, suite

Gate = Callable[[Iterable[Source]], Iterator[str]]

# Written in pieces, so that this file passes its own gate.
MARKERS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
UNFINISHED = "NotImplemented" + "Error"
NOTHING_NAMES = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc"}
SLEEPS = {"time.sleep", "asyncio.sleep", "trio.sleep", "anyio.sleep", "trio.sleep_until"}
TYPE_IGNORE = re.compile(r"#\s*type:\s*ignore")
GOOD_TYPE_IGNORE = re.compile(r"#\s*type: ignore\[[a-z\-, ]+\]\s+# \S")
NO_COVER = re.compile(r"#\s*pragma:\s*no\s*(cover|branch)")


def comments(source: Source) -> Iterator[tuple[int, str]]:
    """Line and text of every comment."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def swallowed(sources: Iterable[Source]) -> Iterator[str]:
    """Handlers that catch everything, or a cancellation, and neither raise nor throw it on."""
    for source in sources:
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.ExceptHandler):
                continue
            if node.type is None:
                yield source.finding(node, "a bare except")
            caught = "" if node.type is None else ast.unparse(node.type)
            again = any(_passes_on(inner) for inner in ast.walk(node))
            if not again and re.search(r"\b(BaseException|CancelledError|Cancelled)\b", caught):
                yield source.finding(node, f"except {caught} swallows a cancellation")


def _passes_on(node: ast.AST) -> bool:
    thrown = isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".throw")
    return thrown or isinstance(node, ast.Raise)


def unfinished(sources: Iterable[Source]) -> Iterator[str]:
    """Notes to self, and functions without a body outside protocols."""
    for source in sources:
        for number, line in enumerate(source.text.splitlines(), 1):
            if MARKERS.search(line):
                yield source.finding(number, "a note to self: do it now, or open an issue")
            if UNFINISHED in line:
                yield source.finding(number, f"{UNFINISHED}: a stub")
        promises = _bodiless_by_right(source.tree)
        for function in functions(source):
            body = function.body[1:] if ast.get_docstring(function) else function.body
            if id(function) not in promises and _is_dots(body):
                yield source.finding(function, f"{function.name} is a stub")


def _bodiless_by_right(tree: ast.Module) -> set[int]:
    """Methods of protocols, overloads and abstract methods."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            if any("Protocol" in ast.unparse(base) for base in node.bases):
                found |= {id(member) for member in node.body}
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if any(re.search("overload|abstract", ast.unparse(d)) for d in node.decorator_list):
                found.add(id(node))
    return found


def _is_dots(body: list[ast.stmt]) -> bool:
    return len(body) == 1 and ast.unparse(body[0]) == "..."


def nothing_names(sources: Iterable[Source]) -> Iterator[str]:
    """Modules and classes whose name says nothing."""
    for source in sources:
        parts = re.split(r"[._]", source.module)
        if NOTHING_NAMES & set(parts):
            yield source.finding(1, f"{source.module}: the name says nothing")
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                words = re.findall(r"[A-Z][a-z]+", node.name)
                if NOTHING_NAMES & {word.lower() for word in words}:
                    yield source.finding(node, f"class {node.name}: the name says nothing")


def sleeping_tests(sources: Iterable[Source]) -> Iterator[str]:
    """Sleeps in tests outside the lab; `guards.py` refuses them while running, too. In the tests
    of the simulated network they are virtual."""
    for source in sources:
        if source.module.startswith(("tests.lab", "tests.simnet", "tests.fire")):
            continue
        for found in imports(source):
            if f"{found.module}.{found.name}" in SLEEPS:
                yield source.finding(found.line, f"imports {found.module}.{found.name}")
        for call, dotted, _ in calls(source):
            seconds = ast.unparse(call.args[0]) if call.args else ""
            if dotted in SLEEPS and seconds != "0":
                yield source.finding(call, f"{dotted}({seconds}) in a test")


def unexplained_ignores(sources: Iterable[Source]) -> Iterator[str]:
    """Silenced type errors without a code and a reason; holes in the coverage of the core."""
    for source in sources:
        for line, comment in comments(source):
            if TYPE_IGNORE.search(comment) and not GOOD_TYPE_IGNORE.search(comment):
                yield source.finding(line, "write `# type: ignore[code]  # reason`")
            if NO_COVER.search(comment) and source.module.startswith("outlast.core"):
                yield source.finding(line, "the core is covered without exceptions")


def prints(sources: Iterable[Source]) -> Iterator[str]:
    """`print` in the library: only the command line speaks, and programs of the lab on stderr."""
    for source in sources:
        if source.module.startswith("outlast.cli"):
            continue
        lab = source.module.startswith("outlast.testing")
        for call, dotted, _ in calls(source):
            to = [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "file"]
            if dotted == "print" and not (lab and to == ["sys.stderr"]):
                yield source.finding(call, "print in the library")


def undocumented(sources: Iterable[Source]) -> Iterator[str]:
    """Modules that do not open with what they do, and why."""
    for source in sources:
        if source.text.strip() and not ast.get_docstring(source.tree):
            yield source.finding(1, "a module opens with a docstring")


def everything() -> list[Source]:
    return library() + suite() + programs()


def test_nothing_is_swallowed() -> None:
    assert list(swallowed(everything())) == []


def test_nothing_is_unfinished() -> None:
    assert list(unfinished(everything())) == []


def test_names_say_something() -> None:
    assert list(nothing_names(everything())) == []


def test_no_test_sleeps() -> None:
    assert list(sleeping_tests(suite())) == []


def test_ignores_are_explained() -> None:
    assert list(unexplained_ignores(everything())) == []


def test_the_library_does_not_print() -> None:
    assert list(prints(library())) == []


def test_modules_are_documented() -> None:
    assert list(undocumented(everything())) == []


# --- the gates can fail -----------------------------------------------------------------------

TRY = "try:\n    f()\nexcept"
NOTE = "TO" + "DO"


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        (swallowed, f"{TRY}:\n    pass"),
        (swallowed, f"{TRY} BaseException:\n    log()"),
        (swallowed, f"{TRY} (OSError, asyncio.CancelledError):\n    log()"),
        (unfinished, f"# {NOTE}: later"),
        (unfinished, f"raise {UNFINISHED}"),
        (unfinished, 'def f() -> None:\n    """What."""\n    ...'),
        (nothing_names, "class PoolManager: ..."),
        (sleeping_tests, "time.sleep(1)"),
        (sleeping_tests, "await asyncio.sleep(delay)"),
        (sleeping_tests, "from time import sleep"),
        (unexplained_ignores, "x = 1  # type: " + "ignore"),
        (unexplained_ignores, "x = 1  # type: " + "ignore[arg-type]"),
        (unexplained_ignores, "x = 1  # pragma: " + "no cover"),
        (prints, "print(1)"),
        (prints, "print(1, file=sys.stderr)"),
        (undocumented, "x = 1"),
    ],
)
def test_the_forbidden_is_reported(gate: Gate, text: str) -> None:
    assert len(list(gate([made_up(text)]))) == 1


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        (swallowed, f"{TRY} BaseException:\n    stream.close()\n    raise"),
        (swallowed, f"{TRY} OSError:\n    pass"),
        (unfinished, "class A(Protocol):\n    def f(self) -> None: ..."),
        (unfinished, "@overload\ndef f() -> None: ..."),
        (sleeping_tests, "await anyio.sleep(0)"),
        (unexplained_ignores, "x = 1  # type: " + "ignore[arg-type]  # httpx says str here"),
        (undocumented, ""),
    ],
)
def test_the_allowed_is_not_reported(gate: Gate, text: str) -> None:
    assert list(gate([made_up(text)])) == []


@pytest.mark.parametrize("module", ["outlast.http.utils", "outlast.net_helpers", "outlast.common"])
def test_a_module_that_says_nothing_is_reported(module: str) -> None:
    assert len(list(nothing_names([made_up("", module)]))) == 1
