"""`install()` and `uninstall()`: what they replace, what they say, and that it goes back whole."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import socket
import ssl
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.net.kernel import KernelNetwork
from outlast.net.newcomers import newcomers
from outlast.policy import Policy
from outlast.shims.patch import Installed, install, uninstall
from outlast.shims.patch.notes import notes_on
from outlast.shims.patch.pending import pending
from outlast.shims.patch.unseen import UNSEEN
from tests.net.pairs import PATIENCE, keepalive
from tests.shims.patch.conftest import LOOPBACK, POLICY, Silent

NAMES = ("create_connection", "getaddrinfo")


def state() -> dict[str, object]:
    """Everything that the patch may touch."""
    asyncio = importlib.import_module("asyncio.selector_events")
    return {
        **{name: getattr(socket, name) for name in NAMES},
        "methods": {name for name in ("connect", "connect_ex") if name in vars(socket.socket)},
        "connect": socket.socket.connect,
        "connect_ex": socket.socket.connect_ex,
        "loop": asyncio.BaseSelectorEventLoop.sock_connect,
        "finders": list(sys.meta_path),
    }


# --- in and out -------------------------------------------------------------------------------


def test_it_goes_back_whole() -> None:
    before = state()
    installed = install(only=LOOPBACK)
    during = state()
    assert all(before[name] != during[name] for name in before)
    assert [installed.active, uninstall(), installed.active] == [True, None, False]  # type: ignore[func-returns-value]  # in order
    assert state() == before
    uninstall()
    assert state() == before


def test_the_replacements_look_like_what_they_replace(installed: Installed) -> None:
    assert socket.create_connection.__name__ == "create_connection"
    assert socket.getaddrinfo.__doc__
    assert socket.socket.connect.__name__ == "connect"


def test_as_a_context_manager() -> None:
    before = state()
    with install(only=LOOPBACK) as installed:
        assert installed.active
        assert "in place" in repr(installed)
    assert state() == before
    assert "taken back" in repr(installed)


def test_twice_with_the_same_settings_is_once() -> None:
    before = state()
    first = install(only=LOOPBACK, policy=POLICY)
    assert install(only=list(LOOPBACK), policy=POLICY) is first
    uninstall()
    assert state() == before


def test_twice_with_others_is_an_error() -> None:
    install(only=LOOPBACK)
    with pytest.raises(RuntimeError, match="uninstall"):
        install(only=["10.0.0.0/8"])


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"only": "*.svc"}, "only"),
        ({"skip": ["a:b"]}, "skip"),
        ({"targets": {"a:1": "none://"}}, "target"),
        ({"policy": {"attempts": 3}}, "attempts"),
        ({"policy": 3}, "Policy"),
        ({"only": [":80"]}, "only"),
    ],
)
def test_what_is_malformed_is_named_and_leaves_nothing(wrong: Any, match: str) -> None:
    before = state()
    with pytest.raises(ValueError, match=match):
        install(**wrong)
    assert state() == before


def test_settings_from_environment_and_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "outlast.toml"
    file.write_text('only = ["*.svc"]\n[policy]\nconnect_timeout = "3s"\n')
    monkeypatch.setenv("OUTLAST_ATTEMPT_DELAY", "100ms")
    settings = install(config=file).settings
    assert settings.policy == Policy(connect_timeout=3.0, attempt_delay=0.1)
    assert [pattern.text for pattern in settings.scope.only] == ["*.svc"]


def test_whoever_has_wrapped_ours_keeps_what_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    original = socket.create_connection
    install(only=LOOPBACK)
    ours = socket.create_connection

    def theirs(*args: Any, **more: Any) -> Any:
        return ours(*args, **more)

    monkeypatch.setattr(socket, "create_connection", theirs)
    uninstall()
    assert socket.create_connection is theirs
    monkeypatch.undo()
    socket.create_connection = original


def test_whoever_has_bound_ours_by_name_finds_the_original_in_it(
    installed: Installed, live: socket.socket, silent: Silent
) -> None:
    create, connect, look_up = socket.create_connection, socket.socket.connect, socket.getaddrinfo
    create(live.getsockname()).close()
    uninstall()
    with create(live.getsockname()) as sock:
        assert keepalive(sock)[0] == 0
    with socket.socket() as sock:
        connect(sock, live.getsockname())
        assert keepalive(sock)[0] == 0
    assert look_up("127.0.0.1", 80, type=1)[0][4] == ("127.0.0.1", 80)
    for _ in range(3):
        live.accept()[0].close()


@pytest.mark.parametrize("timeout", [None, 0.0])
def test_where_there_is_no_thread_to_be_had_it_connects_all_the_same(
    installed: Installed,
    live: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    timeout: float | None,
) -> None:
    def spawn(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    for each in (newcomers, pending):
        monkeypatch.setattr(each, "_running", False)
    monkeypatch.setattr(KernelNetwork, "spawn", spawn)
    with socket.socket() as sock:
        sock.settimeout(timeout)
        assert sock.connect_ex(live.getsockname()) in (0, errno.EINPROGRESS)
        live.accept()[0].close()
    assert "new thread" in caplog.text


def test_a_name_that_was_bound_before_is_covered(live: socket.socket) -> None:
    early = socket.create_connection
    install(only=LOOPBACK)
    with early(live.getsockname()) as sock:
        assert keepalive(sock) == (1, 5, 1, 6)
    live.accept()[0].close()


def test_sockets_that_are_open_stay_as_they_are(installed: Installed, late: Silent) -> None:
    with socket.socket() as sock:
        sock.connect(late.address)
        uninstall()
        with late.accept() as far:
            sock.sendall(b"hello")
            assert far.recv(10) == b"hello"
        assert keepalive(sock) == (1, 5, 1, 6)


def test_from_many_threads_there_is_one_patch() -> None:
    before = state()
    found: list[Installed] = []
    threads = [
        threading.Thread(target=lambda: found.append(install(only=LOOPBACK))) for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert len(set(map(id, found))) == 1
    uninstall()
    assert state() == before


def test_many_threads_connect_at_once(installed: Installed, live: socket.socket) -> None:
    failed: list[BaseException] = []

    def connect() -> None:
        try:
            for _ in range(20):
                socket.create_connection(live.getsockname(), PATIENCE).close()
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=connect) for _ in range(4)]
    for each in threads:
        each.start()
    for _ in range(80):
        live.accept()[0].close()
    for each in threads:
        each.join(PATIENCE)
    assert failed == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_it_too(installed: Installed, late: Silent, live: socket.socket) -> None:
    socket.create_connection(live.getsockname()).close()  # the background thread runs
    live.accept()[0].close()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with socket.socket() as sock:
                sock.connect(late.address)
                code = 0 if keepalive(sock) == (1, 5, 1, 6) else 2
            uninstall()
            code = code or ("connect" in vars(socket.socket))
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert installed.active


# --- subclasses -------------------------------------------------------------------------------


def test_a_subclass_of_a_librarys_own(installed: Installed, late: Silent) -> None:
    class Their(socket.socket):
        """As PySocks and ssl have one."""

        def connect(self, address: Any) -> None:
            super().connect(address)

    with Their() as sock:
        sock.connect(late.address)
        assert sock.getpeername() == late.address
        late.accept().close()


def test_a_tls_socket_that_connects_itself(
    silent: Silent, on_redial: Callable[[Callable[[], object]], None]
) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    answered = threading.Thread(target=lambda: silent.accept().close())
    on_redial(answered.start)
    on_redial(silent.open)  # what comes last is done first
    install(only=LOOPBACK, policy=POLICY)
    with context.wrap_socket(socket.socket()) as sock:
        sock.settimeout(PATIENCE)
        with pytest.raises(OSError, match=r"EOF|reset"):  # past the connect, in the handshake
            sock.connect(silent.address)
    answered.join(PATIENCE)


# --- what it cannot see -----------------------------------------------------------------------


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The name of a module that dials in C, to be imported."""
    (tmp_path / "pycurl.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pycurl", raising=False)
    yield "pycurl"
    sys.modules.pop("pycurl", None)


def test_it_says_by_name_what_is_imported_already(
    module: str, caplog: pytest.LogCaptureFixture
) -> None:
    importlib.import_module(module)
    with caplog.at_level(logging.WARNING, "outlast"):
        installed = install(only=LOOPBACK)
        install(only=LOOPBACK)
    assert module in installed.unseen
    told = [record.getMessage() for record in caplog.records if module in record.getMessage()]
    assert len(told) == 1
    assert "outlast run" in told[0]


def test_and_once_what_is_imported_later(module: str, caplog: pytest.LogCaptureFixture) -> None:
    installed = install(only=LOOPBACK)
    assert module not in installed.unseen
    with caplog.at_level(logging.WARNING, "outlast"):
        for _ in range(2):
            importlib.import_module(module)
            del sys.modules[module]
    assert installed.unseen.count(module) == 1
    assert sum(module in record.getMessage() for record in caplog.records) == 1


def test_each_is_told_what_to_do_instead() -> None:
    assert all("outlast run" in advice or "gevent" in advice for advice in UNSEEN.values())


def a_module(**names: Any) -> types.ModuleType:
    made = types.ModuleType("made_up")
    vars(made).update(names)
    return made


@pytest.mark.parametrize(
    ("modules", "word"),
    [
        ({"urllib3": a_module(__version__="2.13.906")}, "urllib3-future"),
        ({"eventlet": a_module()}, "eventlet"),
        ({"gevent.monkey": a_module(is_module_patched=lambda name: name == "socket")}, "greenlets"),
        ({"gevent.monkey": a_module(is_module_patched=lambda name: name == "socket")}, "select"),
        ({"socket": a_module(socket=type("Other", (), {"__module__": "socks"}))}, "socks"),
    ],
)
def test_patches_of_others_are_named(modules: dict[str, types.ModuleType], word: str) -> None:
    assert any(word in note for note in notes_on(modules))


def test_and_nothing_is_said_of_what_is_as_it_should_be() -> None:
    plain = {"urllib3": a_module(__version__="2.6.1"), "socket": socket}
    assert notes_on(plain) == ()
