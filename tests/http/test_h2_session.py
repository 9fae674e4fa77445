"""One HTTP/2 connection between threads: nobody who could go on is left waiting.

What another thread does is done here between two steps of an exchange, so every order can be had.
"""

from __future__ import annotations

import errno
import gc
import weakref
from collections import deque
from typing import Any, cast

import h2.config
import h2.connection
import h2.settings
import h11
import pytest

from outlast.http.exchange import NeedData, PeerClosed, Unprocessed
from outlast.http.h2 import H2Exchange
from outlast.http.h2_session import H2Session
from outlast.net.kernel import KernelNetwork
from outlast.net.kernel_wait import KernelWaiter
from outlast.net.seam import WAKE

MOST = h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS


class Wire:
    """A stream between a session and a server's h2; nothing moves but by a session's calls."""

    def __init__(self) -> None:
        config = h2.config.H2Configuration(client_side=False)
        self.server = h2.connection.H2Connection(config)
        self.server.initiate_connection()
        self.closed = False
        self.broken = False
        self.takes = 1 << 30  # bytes before the network takes no more
        self.written = 0
        self.arrives: deque[bytes] = deque()

    def send(self, data: bytes | memoryview) -> int:
        count = min(self.takes, len(data))
        self.takes -= count
        self.written += count
        self.server.receive_data(bytes(data[:count]))
        return count

    def recv(self, size: int) -> bytes | None:
        if self.broken:
            raise ConnectionResetError(errno.ECONNRESET, "reset")
        if self.arrives:
            return self.arrives.popleft()
        return b"" if self.closed else None

    def flush(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1 << 20

    def says(self) -> None:
        """What the server has to say arrives."""
        self.arrives.append(self.server.data_to_send())


def world() -> tuple[Wire, H2Session]:
    wire = Wire()
    return wire, H2Session(cast(Any, wire), KernelNetwork())


def exchange(session: H2Session, body: bytes = b"") -> H2Exchange:
    made = H2Exchange(session, "http")
    made.start("POST", b"/", [(b"host", b"orders.shop.svc")])
    if body:
        made.data(body)
    made.end()
    return made


def waits(made: H2Exchange) -> bool:
    """Begin to wait; whether it would."""
    wakes = [source for source, mask in made.interests(writing=True) if mask == WAKE]
    (waiter,) = cast("list[KernelWaiter]", wakes)
    return not waiter.woken


def settle(wire: Wire, session: H2Session, most: int) -> None:
    """The server says how many it takes."""
    wire.server.update_settings({MOST: most})
    wire.says()
    session.move(read=True)


@pytest.mark.parametrize("meanwhile", [True, False], ids=["before it waits", "while it waits"])
def test_the_servers_first_word(meanwhile: bool) -> None:
    """Until it has come there is one stream. It may come between the try and the wait."""
    wire, session = world()
    first, second = exchange(session), exchange(session)
    assert first.push()
    assert not second.push()
    if meanwhile:
        settle(wire, session, 5)
        assert not waits(second)
    else:
        assert waits(second)
        waiter = cast(KernelWaiter, second._waiter)
        settle(wire, session, 5)
        assert waiter.woken
    assert second.push()


def test_the_end_of_another_stream() -> None:
    wire, session = world()
    settle(wire, session, 1)
    first, second = exchange(session), exchange(session)
    assert first.push()
    assert not second.push()
    first.leave()
    assert not waits(second)
    assert second.push()


def test_a_window_of_the_whole_connection_opens() -> None:
    """The stream's own is wide. It opens between the try and the wait."""
    wire, session = world()
    settle(wire, session, 5)
    made = exchange(session, b"x" * 70_000)
    assert not made.push()
    wire.server.increment_flow_control_window(1 << 20, 1)
    wire.says()
    assert made.pull()
    assert isinstance(made.head(), NeedData)
    assert not made.push()
    assert waits(made)
    assert not made.pull()
    assert not made.push()
    wire.server.increment_flow_control_window(1 << 20)
    wire.says()
    session.move(read=True)
    assert not waits(made)
    assert made.push()


def test_the_network_takes_more() -> None:
    """Another thread has handed over what is left, between the try and the wait."""
    wire, session = world()
    settle(wire, session, 5)
    made = exchange(session, b"x" * 30_000)
    wire.takes = 1000
    assert not made.push()
    assert waits(made)
    assert not made.pull()
    assert not made.push()
    wire.takes = 1 << 30
    session.move()
    assert not waits(made)
    assert made.push()


def test_those_who_wait_are_called_in_turn() -> None:
    """One for each place; who has been called and leaves passes the call on."""
    wire, session = world()
    settle(wire, session, 1)
    first, *line = (exchange(session) for _ in range(4))
    assert first.push()
    waiters = []
    for each in line:
        assert not each.push()
        assert waits(each)
        waiters.append(cast(KernelWaiter, each._waiter))
    first.leave()
    assert [waiter.woken for waiter in waiters] == [True, False, False]
    line[0].leave()
    assert [waiter.woken for waiter in waiters] == [True, True, False]
    assert line[1].push()
    settle(wire, session, 2)
    assert waiters[2].woken
    assert line[2].push()


def test_all_who_wait_hear_that_the_connection_takes_nobody_any_more() -> None:
    wire, session = world()
    settle(wire, session, 1)
    first, *line = (exchange(session) for _ in range(3))
    assert first.push()
    for each in line:
        assert not each.push()
        assert waits(each)
    session._h2.highest_outbound_stream_id = (1 << 31) - 1
    for each in line:
        first.leave()
        with pytest.raises(Unprocessed):
            each.push()
        first = each
    assert line[-1].leave() is False
    assert not session._waiting


class Held:
    """What a call holds."""


def meets(made: H2Exchange) -> tuple[BaseException, weakref.ref[Held]]:
    """What an exchange raises, and something that the frame of its caller holds."""
    held = Held()
    try:
        if made.pull():
            made.head()
    except (OSError, PeerClosed, h11.RemoteProtocolError) as error:
        return error.with_traceback(None), weakref.ref(held)
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("how", ["reset", "closed", "spoilt"])
def test_a_failure_that_several_meet_keeps_none_of_their_frames(how: str) -> None:
    """The connection may live on in the pool, because somebody has dropped a response."""
    wire, session = world()
    settle(wire, session, 5)
    both = [exchange(session), exchange(session)]
    assert all(made.push() for made in both)
    if how == "reset":
        wire.broken = True
    elif how == "closed":
        wire.closed = True
    else:
        wire.arrives.append(b"\0\0\1\1\4\0\0\0\1\xff")
    (first, held), (second, other) = map(meets, both)
    assert first is not second
    assert str(first) == str(second)
    assert session.failure is not None
    assert session.failure.__traceback__ is None
    del first, second
    gc.collect()
    assert (held(), other()) == (None, None)
