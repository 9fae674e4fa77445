"""Both families at run time: whoever made the request gets its own types back, on any transport.

Every case runs on the transports of httpx and of httpx2, with requests of httpx and of httpx2, in
threads and on asyncio. Packages that rename themselves run in interpreters of their own.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest

import outlast
import outlast.httpx2
from outlast.http.family import family_in, family_of
from tests.house.sources import ROOT
from tests.http.cases.bodies import SMALL_BUFFER, refuse_and_stay
from tests.http.servers import BOUND, Server, hang_up, mute, raw, serve

FAMILIES = {"httpx": httpx, "httpx2": httpx2}

# The suite may run with httpx2 in the place of httpx (`OUTLAST_FAMILY`); here both are needed.
pytestmark = pytest.mark.skipif(httpx is httpx2, reason="httpx is httpx2")
HOMES: dict[str, Any] = {"httpx": outlast, "httpx2": outlast.httpx2}
CUT = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"


class Talk:
    """A client of one family over a transport of one home."""

    def __init__(self, home: str, family: str, *, waits: bool, **arguments: Any) -> None:
        self.home = HOMES[home]
        self.family: Any = FAMILIES[family]
        self.waits = waits
        make = self.home.AsyncTransport if waits else self.home.Transport
        self.transport = make(**arguments)

    def get(self, url: str, **more: Any) -> Any:
        """One request in a client of its own; the transport stays open."""
        if self.waits:
            return asyncio.run(self._get(url, **more))
        request = self.family.Request("GET", url, **more)
        client = self.family.Client(transport=self.transport)
        return client.send(request)

    async def _get(self, url: str, **more: Any) -> Any:
        request = self.family.Request("GET", url, **more)
        client = self.family.AsyncClient(transport=self.transport)
        return await client.send(request)

    def handle(self, url: str) -> Any:
        """Past the client: the response as the transport gives it."""
        extensions = {"timeout": {"connect": BOUND, "read": BOUND}}
        request = self.family.Request("GET", url, extensions=extensions)
        if self.waits:
            return asyncio.run(self.transport.handle_async_request(request))
        return self.transport.handle_request(request)

    def close(self) -> None:
        if self.waits:
            asyncio.run(self.transport.aclose())
        else:
            self.transport.close()


@pytest.fixture(params=["threads", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "asyncio")


@pytest.fixture(params=sorted(FAMILIES))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=sorted(HOMES))
def talk(request: pytest.FixtureRequest, family: str, waits: bool) -> Any:
    talk = Talk(request.param, family, waits=waits)
    yield talk
    talk.close()


def test_the_response_is_of_the_family_that_asked(talk: Talk) -> None:
    with Server(serve) as server:
        response = talk.get(f"{server.url}/path")
        given = talk.handle(f"{server.url}/path")
        base = talk.family.AsyncByteStream if talk.waits else talk.family.SyncByteStream
        assert type(response) is talk.family.Response
        assert response.text == "/path"
        assert isinstance(given.stream, base)
        assert isinstance(response.extensions["outlast"], outlast.Report)
        asyncio.run(given.aclose()) if talk.waits else given.close()


@pytest.mark.parametrize(
    ("handler", "name"),
    [(hang_up, "RemoteProtocolError"), (raw(CUT), "RemoteProtocolError"), (mute, "ReadTimeout")],
)
def test_errors_are_of_the_family_that_asked(
    talk: Talk, handler: Callable[..., None], name: str
) -> None:
    """Before the response, in the middle of its body, and when there is none in time."""
    short = name == "ReadTimeout"
    seconds = {"connect": BOUND, "read": 0.05 if short else BOUND, "write": BOUND}
    extensions = {"timeout": seconds, "outlast": {"attempts": 1}}
    with Server(handler) as server, pytest.raises(getattr(talk.family, name)) as caught:
        talk.get(server.url, extensions=extensions)
    assert type(caught.value) is getattr(talk.family, name)
    assert str(caught.value.request.url) == server.url
    assert len(outlast.report_of(caught.value) or ()) > 0


def test_a_refused_connect_and_a_foreign_scheme(talk: Talk) -> None:
    with Server(serve) as server:
        server.stop_listening()
        with pytest.raises(talk.family.ConnectError):
            talk.get(server.url)
    with pytest.raises(talk.family.UnsupportedProtocol):
        talk.get("ftp://a/")


def test_both_families_share_the_connections_of_a_transport(waits: bool) -> None:
    talk = Talk("httpx", "httpx", waits=waits)
    with Server(serve) as server:
        for name in ("httpx", "httpx2", "httpx"):
            talk.family = FAMILIES[name]
            assert type(talk.get(server.url)) is talk.family.Response
        assert server.connections == 1
        assert len(server.requests) == 3
    talk.close()


def test_the_bases_are_the_familys() -> None:
    for name, package in FAMILIES.items():
        assert issubclass(HOMES[name].Transport, package.BaseTransport)
        assert issubclass(HOMES[name].AsyncTransport, package.AsyncBaseTransport)
    assert not issubclass(outlast.Transport, httpx2.BaseTransport)
    assert repr(outlast.Transport()).startswith("<outlast.Transport: ")
    assert repr(outlast.httpx2.Transport()).startswith("<outlast.httpx2.Transport: ")


def test_trust_is_the_familys(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name, package in FAMILIES.items():
        real = package.create_ssl_context

        def create(real: Any = real, name: str = name, **given: Any) -> Any:
            asked.append(name)
            return real(**given)

        monkeypatch.setattr(package, "create_ssl_context", create)
    outlast.Transport(verify=False)
    assert asked == ["httpx"]
    outlast.httpx2.Transport(verify=False)
    assert asked == ["httpx", "httpx2"]


def test_limits_of_either_family() -> None:
    for package in (httpx, httpx2):
        for home in HOMES.values():
            transport = home.Transport(limits=package.Limits(max_connections=3))
            assert transport._engine.settings.limits.max_connections == 3


def test_an_upload_that_is_not_wanted_is_let_go(talk: Talk) -> None:
    """The server answers in its middle: the caller's generator is closed there and then."""
    ended: list[str] = []
    package: Any = talk.family
    headers = {"host": "a", "transfer-encoding": "chunked"}

    class Sync(package.SyncByteStream):  # type: ignore[misc]  # a base known at run time
        def __iter__(self) -> Iterator[bytes]:
            try:
                for _ in range(1000):
                    yield b"x" * 65_536
            finally:
                ended.append("sync")

    class Async(package.AsyncByteStream):  # type: ignore[misc]  # a base known at run time
        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                for _ in range(1000):
                    yield b"x" * 65_536
            finally:
                await asyncio.sleep(0)  # nobody else could do this for it
                ended.append("async")

    with Server(refuse_and_stay, receive_buffer=SMALL_BUFFER) as server:
        if talk.waits:

            async def ask() -> None:
                await talk._get(server.url, headers=headers, stream=Async())
                assert ended == ["async"]  # not by the end of the event loop

            asyncio.run(ask())
        else:
            talk.get(server.url, headers=headers, stream=Sync())
            assert ended == ["sync"]


# -- which family it is --------------------------------------------------------------------


def test_a_family_is_known_by_its_classes() -> None:
    class Mine(httpx2.Request):
        pass

    assert family_of(httpx.Request("GET", "http://a")) is family_in(httpx)
    assert family_of(httpx2.Request("GET", "http://a")) is family_in(httpx2)
    assert family_of(Mine("GET", "http://a")) is family_in(httpx2)


def test_a_package_with_a_request_of_its_own_is_no_family(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package: Any = ModuleType("shop")
    package.Request = type("Request", (httpx.Request,), {"__module__": "shop.orders"})
    monkeypatch.setitem(sys.modules, "shop", package)
    assert family_of(package.Request("GET", "http://a")) is family_in(httpx)


def test_what_is_no_request_is_refused() -> None:
    transport: Any = outlast.Transport()
    with pytest.raises(TypeError, match="is no request of httpx or httpx2"):
        transport.handle_request(object())


# -- packages that rename themselves, in interpreters of their own ----------------------------

ASK = """
import outlast
import httpx
with httpx.Client(transport=outlast.Transport()) as client:
    response = client.get(URL)
assert type(response) is httpx.Response, type(response)
try:
    httpx.Client(transport=outlast.Transport()).get("ftp://a/")
except httpx.UnsupportedProtocol as error:
    kind = type(error)
    assert outlast.report_of(error) is not None
print(httpx.__name__, kind.__module__, response.text)
"""


def run(url: str, *lines: str, path: Path | None = None) -> str:
    """What a fresh interpreter prints."""
    folders = [str(ROOT / "src"), *([str(path)] if path else [])]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([f"URL = {url!r}", *lines])],
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_httpx2_in_the_place_of_httpx() -> None:
    with Server(serve) as server:
        told = run(f"{server.url}/x", "import httpx2", "httpx2.alias_httpx()", ASK)
    assert told == "httpx2 httpx2 /x"


def test_a_descendant_in_the_place_of_httpx(tmp_path: Path) -> None:
    """A copy of httpx under another name that registers itself as httpx, as some do."""
    folder = tmp_path / "httpdescendant"
    shutil.copytree(Path(httpx.__file__).parent, folder, ignore=shutil.ignore_patterns("*.pyc"))
    init = folder / "__init__.py"
    renamed = init.read_text().replace('"__module__", "httpx"', '"__module__", "httpdescendant"')
    assert renamed != init.read_text()
    init.write_text(renamed)
    takes = "import sys, httpdescendant; sys.modules['httpx'] = httpdescendant"
    with Server(serve) as server:
        told = run(f"{server.url}/x", takes, ASK, path=tmp_path)
    assert told == "httpdescendant httpdescendant /x"


def test_without_httpx2() -> None:
    """The library does not need it, and says so when it is asked for."""
    absent = "import sys; sys.modules['httpx2'] = None"
    asked = "try:\n    outlast.httpx2\nexcept ImportError as error:\n    print(error.name, error)"
    with Server(serve) as server:
        told = run(f"{server.url}/x", absent, ASK, asked)
    assert told.splitlines() == [
        "httpx httpx /x",
        "httpx2 outlast.httpx2 needs the package httpx2: pip install httpx2",
    ]


def test_neither_family_is_imported_before_it_is_used() -> None:
    told = run(
        "",
        "import sys, outlast",
        "print([name for name in ('httpx', 'httpx2', 'httpcore') if name in sys.modules])",
        "outlast.Transport",
        "print([name for name in ('httpx', 'httpx2') if name in sys.modules])",
    )
    assert told.splitlines() == ["[]", "['httpx']"]


@pytest.mark.parametrize(
    ("made", "needed"),
    [
        ("Transport()", []),
        ("Transport(http2=True)", ["outlast.http.h2_session", "h2"]),
        ("AsyncTransport()", ["anyio", "anyio._backends._asyncio"]),
    ],
)
def test_what_calls_need_is_imported_when_the_transport_is_made(
    made: str, needed: list[str]
) -> None:
    """Not in a call: a fork in the middle of an import leaves the child with the module's lock."""
    told = run(
        "",
        "import sys, outlast",
        f"outlast.{made}",
        "names = ('outlast.http.h2_session', 'h2', 'anyio', 'anyio._backends._asyncio')",
        "print(*(name for name in names if name in sys.modules))",
    )
    assert told.split() == needed


def test_httpx2_needs_no_httpx() -> None:
    told = run(
        "",
        "import sys, outlast.httpx2",
        "print(outlast.httpx2.Transport.__module__, 'httpx' in sys.modules)",
    )
    assert told == "outlast.httpx2 False"
