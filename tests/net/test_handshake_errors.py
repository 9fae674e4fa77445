"""What a `finish` that knows more than an errno says to a race."""

from __future__ import annotations

import errno

import pytest

from outlast.net.dial import HandshakeError
from outlast.net.seam import Stream
from tests.net.racing import Finish, Watcher, near, play
from tests.net.scripted import Path, Scripted

A, B = "10.0.0.1", "10.0.0.2"
LIVE = Path(0.001)


class PermissionDenied(Exception):
    """Final."""


def failing(error: Exception, *hosts: str) -> Finish:
    """The handshake with these hosts ends so."""

    async def finish(stream: Stream) -> Stream:
        if stream.address.host in hosts:
            raise error
        return stream

    return finish


def test_without_an_errno_the_address_is_not_dialled_again() -> None:
    net = Scripted({A: LIVE})
    told = HandshakeError(None, "503 Service Unavailable", blame=False)
    outcome = play(net, [A], finish=failing(told, A))
    assert len(net.dials) == 1
    assert outcome.took == near(0.001)
    assert outcome.lost.cause is told
    assert "503 Service Unavailable; nothing was sent" in str(outcome.lost)
    assert "503 Service Unavailable" in str(outcome.report)


def test_with_an_errno_it_is_as_that_errno() -> None:
    net = Scripted({A: LIVE})
    told = HandshakeError(errno.ECONNRESET, "the proxy has left", blame=True)
    outcome = play(net, [A], finish=failing(told, A))
    assert len(net.dials) == 8
    assert "the proxy has left" in str(outcome.lost)


@pytest.mark.parametrize("blame", [True, False])
def test_another_address_wins_and_the_blame_is_as_told(blame: bool) -> None:
    watcher = Watcher()
    net = Scripted({A: LIVE, B: LIVE})
    told = HandshakeError(None, "no", blame=blame)
    outcome = play(net, [A, B], finish=failing(told, A), watcher=watcher)
    assert outcome.winner == B
    assert watcher.trail == ([f"refused {A}"] if blame else []) + [f"connected {B}"]


def test_what_is_no_error_of_the_network_ends_the_whole_race() -> None:
    net = Scripted({A: LIVE, B: LIVE})
    with pytest.raises(PermissionDenied, match="not for you"):
        play(net, [A, B], finish=failing(PermissionDenied("not for you"), A, B))
    assert len(net.dials) == 1
    assert not net.open
