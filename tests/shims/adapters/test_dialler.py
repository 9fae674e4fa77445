"""What all adapters share: targets, dials, and the watch over sockets that others hold."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable

import pytest

import outlast
from outlast import Liveness, Policy, report_of
from outlast.shims.adapters.dialler import Dialler, carry_report, peer_of
from tests.net.pairs import PATIENCE, fill, keepalive, user_timeout
from tests.shims.adapters.looks import LINUX
from tests.shims.adapters.site import Site

pytestmark = pytest.mark.skipif(not LINUX, reason="option numbers of Linux")


def becomes(check: Callable[[], object], truth: Callable[[], bool]) -> bool:
    """Whether it becomes true while the watch looks."""
    for _ in range(400):
        check()
        if truth():
            return True
        threading.Event().wait(0.005)
    return False


def test_targets_may_be_patterns_and_the_rest_is_itself() -> None:
    dialler = Dialler({"*.svc:80-90": "static://10.0.0.1:1", "10.96.0.0/12": "dns://b.svc:2"})
    told = [dialler.target(*where).text for where in (("a.svc", 85), ("10.97.1.1", 7))]
    assert told == ["static://10.0.0.1:1", "dns://b.svc:2"]
    assert dialler.mapped("a.svc", 443) is None
    assert dialler.target("a.svc", 443).text == "dns://a.svc:443"
    assert dialler.target("127.0.0.1", 7).text == "static://127.0.0.1:7"


def test_a_socket_is_non_blocking_watched_and_has_its_report(site: Site) -> None:
    with Dialler().dial("127.0.0.1", site.port) as sock:
        assert sock.gettimeout() == 0.0
        assert outlast.watch(sock).verdict is Liveness.ALIVE
        assert report_of(sock) is not None
        address = peer_of(sock)
        assert address is not None
        assert address.pair == ("127.0.0.1", site.port)
    with Dialler().create_connection(("[::ffff:127.0.0.1]", site.port), 2) as sock:
        assert sock.gettimeout() == 2


@pytest.mark.parametrize("by_number", [False, True])
def test_a_reader_that_pauses_is_not_given_up(by_number: bool) -> None:
    """In mid upload, also where a library holds the socket by its number, as libpq does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = listener.getsockname()
        dialler = Dialler(policy=Policy(user_timeout=1.0, keepalive=None))
        with dialler.dial(*where, watched=not by_number) as near:
            far, _ = listener.accept()
            far.settimeout(PATIENCE)
            held = os.dup(near.fileno()) if by_number else near.fileno()
            assert not by_number or dialler.adopt(held)
            watched = outlast.watch(held)
            assert user_timeout(near) == 1000
            with far:
                taken = fill(near)
                assert becomes(watched.check, lambda: user_timeout(near) == 0)
                while taken:
                    taken -= len(far.recv(1 << 20))
                assert becomes(watched.check, lambda: user_timeout(near) == 1000)
            if by_number:
                os.close(held)


def test_what_others_opened_is_taken_over_with_care() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = [socket.create_connection(listener.getsockname()) for _ in range(3)]
        bare, tuned, off = made
        tuned.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        tuned.setsockopt(socket.IPPROTO_TCP, 4, 60)
        assert all(Dialler().adopt(sock) for sock in (bare, tuned))
        assert Dialler().adopt(off, keepalive=False)
        assert keepalive(bare) == (1, 5, 1, 6)
        assert user_timeout(bare) == 11_000
        assert keepalive(tuned)[:2] == (1, 60), "the owner's"
        assert keepalive(off)[0] == 0
        for sock in made:
            sock.close()
        assert not Dialler().adopt(bare), "it is closed"
        near, far = socket.socketpair()
        with near, far:
            assert not Dialler().adopt(near), "no TCP"
            assert Dialler().trusts(near, "a", 1), "nothing to be said"


def test_without_a_watch_no_user_timeout_stands(site: Site) -> None:
    dialler = Dialler(policy=Policy(watch=False))
    with dialler.dial("127.0.0.1", site.port) as sock:
        assert user_timeout(sock) == 0
        assert not dialler.adopt(sock)
        assert user_timeout(sock) == 0


def test_a_report_is_carried_from_what_caused_an_error(refusing: int) -> None:
    told = ValueError("a library's own")
    try:
        Dialler().dial("127.0.0.1", refusing, limit=0.2)
    except OSError as error:
        told.__cause__ = RuntimeError("between")
        told.__cause__.__context__ = error
    carry_report(told)
    assert report_of(told) is not None
    alone = ValueError("alone")
    carry_report(alone)
    assert report_of(alone) is None
