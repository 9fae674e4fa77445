"""Runs the examples of README.md and docs/, and holds their links and tables against the code.

A `python` block runs here: the blocks of a page in order, in one namespace, `await` allowed, once
with asyncio and once with trio. The addresses that examples use lead to servers on the loopback
address. A `python lab` block runs on the kernel lab, a `python simnet` block on the simulated
network; functions called `test_*` are then called. A `text` block below the comment
`<!-- prints -->` is what the block before it prints.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import threading
from collections.abc import Iterator
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import anyio
import h11
import pytest

from outlast.testing import KernelLab, SimNet
from tests.docs.pages import Block, Page, page, pages

BACKENDS = ("asyncio", "trio")


class Orders(BaseRequestHandler):
    """Answers every request with 200 and a word; h11 frames."""

    def handle(self) -> None:
        http, answer = (
            h11.Connection(h11.SERVER),
            h11.Response(status_code=200, headers=[("content-length", "4")]),
        )
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(self.request.recv(1000))
            elif isinstance(event, h11.EndOfMessage):
                for part in (answer, h11.Data(data=b"good"), h11.EndOfMessage()):
                    self.request.sendall(http.send(part))
                http.start_next_cycle()
            elif isinstance(event, h11.ConnectionClosed):
                return


class Echo(BaseRequestHandler):
    """Gives back what it gets."""

    def handle(self) -> None:
        while data := self.request.recv(1000):
            self.request.sendall(data)


class Server(ThreadingTCPServer):
    """Does not wait for connections that a failed example has left open."""

    daemon_threads = True
    block_on_close = False


@contextlib.contextmanager
def serving(handler: type[BaseRequestHandler]) -> Iterator[int]:
    """A server at work; its port."""
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def stand_ins() -> Iterator[dict[str, str]]:
    """What the addresses of the examples become."""
    with serving(Orders) as orders, serving(Echo) as db:
        yield {
            "orders.shop.svc:8080": f"127.0.0.1:{orders}",
            "10.0.0.1:8080,10.0.0.2:8080": f"127.0.0.1:{orders}",
            '"db.shop.svc", 5432': f'"127.0.0.1", {db}',
        }


def run(page: Page, block: Block, names: dict[str, Any], backend: str) -> str:
    """Run one block; what it has printed. Tracebacks show the page's own lines."""
    source = "\n" * (block.line - 1) + block.text
    code = compile(source, str(page.path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        result = eval(code, names)
        if inspect.iscoroutine(result):

            async def main() -> None:
                await result

            anyio.run(main, backend=backend)
    return printed.getvalue()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [p.name for p in pages() if p.blocks("python")])
def test_examples_run(name: str, backend: str, stand_ins: dict[str, str]) -> None:
    shown, names = page(name), dict[str, Any](__name__="example")
    for block in shown.blocks("python"):
        text = block.text
        for address, stand_in in stand_ins.items():
            text = text.replace(address, stand_in)
        printed = run(shown, Block(block.info, block.line, text), names, backend)
        if block.prints is not None:
            assert printed == block.prints, f"{name}:{block.line}"


@pytest.mark.lab
@pytest.mark.parametrize("name", [p.name for p in pages() if p.blocks("python lab")])
def test_examples_run_on_the_lab(name: str) -> None:
    reason = KernelLab.missing()
    if reason is not None:
        pytest.skip(f"kernel lab: {reason}")
    shown, names = page(name), dict[str, Any](__name__="example")
    for block in shown.blocks("python lab"):
        run(shown, block, names, "asyncio")
    tests = [value for key, value in names.items() if key.startswith("test_")]
    assert tests
    for test in tests:
        test()


@pytest.mark.parametrize("name", [p.name for p in pages() if p.blocks("python simnet")])
def test_examples_run_on_the_simulated_network(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the guard's own sleep would be what is named
    shown, names = page(name), dict[str, Any](__name__="example")
    blocks = shown.blocks("python simnet")
    for block in blocks:
        printed = run(shown, block, names, "asyncio")
        if block.prints is not None:
            assert printed == block.prints, f"{name}:{block.line}"
    tests = [value for key, value in names.items() if key.startswith("test_")]
    assert tests or any(block.prints for block in blocks)
    for test in tests:
        if not inspect.iscoroutinefunction(test):
            test()
            continue
        for backend in BACKENDS:
            with SimNet(traced=True) as net:
                net.run(test, net, backend=backend)


def test_python_is_either_run_or_run_on_the_lab() -> None:
    known = {"python", "python lab", "python simnet", "text", "console", "ini", "toml", ""}
    for shown in pages():
        infos = {line[3:] for line in shown.text.splitlines() if line.startswith("```")}
        assert infos <= known, shown.name


def broken(shown: Page) -> Iterator[str]:
    """Links into the repository that lead nowhere."""
    for link in shown.links():
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (shown.path.parent / path).resolve() if path else shown.path
        if not target.exists():
            yield f"{shown.name}: {link}: no such file"
        elif anchor and anchor not in Page(target, target.read_text(encoding="utf-8")).anchors():
            yield f"{shown.name}: {link}: no such heading"


@pytest.mark.parametrize("name", [p.name for p in pages()])
def test_links_lead_somewhere(name: str) -> None:
    assert list(broken(page(name))) == []


def test_every_page_is_in_the_index() -> None:
    index = set(page("docs/README.md").links())
    assert {p.path.name for p in pages()[1:] if p.path.name != "README.md"} <= index


# --- the reading itself can fail --------------------------------------------------------------

SAMPLE = """\
# One two

See [this](#one-two), [that](#three), [file](no-such.md).

```python
print("[no](link.md)")
```

<!-- prints -->
```text
[no](link.md)
```
"""


def test_blocks_links_and_headings_are_read() -> None:
    shown = Page(page("README.md").path, SAMPLE)
    assert [block.prints for block in shown.blocks("python")] == ["[no](link.md)\n"]
    assert [block.line for block in shown.blocks("python")] == [6]
    assert list(shown.links()) == ["#one-two", "#three", "no-such.md"]
    assert shown.anchors() == {"one-two"}


def test_a_failing_example_fails_with_its_line() -> None:
    shown = Page(page("README.md").path, "\n\n```python\nx = 1\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run(shown, shown.blocks("python")[0], {}, "asyncio")
    assert caught.traceback[-1].lineno == 4  # counted from 0
