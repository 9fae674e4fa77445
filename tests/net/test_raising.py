"""Errors that several raise: each raises its own, and none keeps what a caller's frames hold."""

from __future__ import annotations

import errno
import gc
import socket
import ssl
import weakref
from typing import Any

import h11
import pytest

from outlast.net.dial import HandshakeError
from outlast.net.raising import anew


class Held:
    """What a call holds."""


def raised(error: BaseException) -> BaseException:
    """The same, with a traceback that holds something."""
    held = Held()
    try:
        raise error
    except type(error) as caught:
        assert held is not None
        return caught


def read_failure() -> ssl.SSLError:
    """As ssl makes them."""
    session = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO())
    with pytest.raises(ssl.SSLError) as caught:
        session.do_handshake()
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        OSError(errno.EHOSTUNREACH, "No route to host"),
        socket.gaierror(socket.EAI_NONAME, "no such name"),
        h11.RemoteProtocolError("broken", 431),
        TimeoutError("late"),
        read_failure(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_same_but_for_its_past(error: Any) -> None:
    first = raised(error)
    other = anew(first)
    assert other is not first
    assert type(other) is type(error)
    assert (str(other), other.args, vars(other)) == (str(error), error.args, vars(error))
    assert getattr(other, "errno", None) == getattr(error, "errno", None)
    assert (other.__traceback__, other.__context__, other.__cause__) == (None, None, None)


def test_one_that_cannot_be_made_again_loses_its_frames() -> None:
    error = raised(HandshakeError(None, "refused", blame=True))
    assert error.__traceback__ is not None
    assert anew(error) is error
    assert error.__traceback__ is None


def test_what_a_frame_held_is_let_go() -> None:
    kept: list[BaseException] = []

    def fail() -> weakref.ref[Held]:
        held = Held()
        try:
            raise OSError("broken")
        except OSError as error:
            kept.append(anew(error))
        return weakref.ref(held)

    reference = fail()
    gc.collect()
    assert reference() is None
    assert kept
