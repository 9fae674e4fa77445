"""Bytes from socket to socket: copied, spliced, and what is said of who has failed."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator

import pytest

from outlast.net import moving
from outlast.net.moving import (
    CHUNK,
    CannotSplice,
    Pipe,
    Pipes,
    SinkFailed,
    SourceFailed,
    abort,
    copy,
    failure,
    pass_end_on,
)
from tests.net.pairs import fill, pair

BUFFER = memoryview(bytearray(CHUNK))


@pytest.fixture
def line() -> Iterator[tuple[socket.socket, socket.socket, socket.socket, socket.socket]]:
    """Writer, source, sink, reader: what is written shall be read."""
    with pair() as (writer, source), pair() as (sink, reader):
        source.setblocking(False)
        sink.setblocking(False)
        yield writer, source, sink, reader


Line = tuple[socket.socket, socket.socket, socket.socket, socket.socket]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A pipe."""
    with contextlib.closing(Pipe()) as made:
        yield made


def test_what_has_arrived_is_copied(line: Line) -> None:
    writer, source, sink, reader = line
    assert copy(source, sink, BUFFER) == (None, False)
    writer.sendall(b"hello")
    assert copy(source, sink, BUFFER) == (5, False)
    assert reader.recv(99) == b"hello"
    assert copy(source, sink, BUFFER) == (None, False)
    writer.shutdown(socket.SHUT_WR)
    assert copy(source, sink, BUFFER) == (0, False)


def test_a_copy_takes_no_more_than_was_taken(line: Line) -> None:
    writer, source, sink, _reader = line
    fill(sink)
    writer.sendall(b"kept")
    assert copy(source, sink, BUFFER) == (None, True)
    assert source.recv(99) == b"kept"


def test_a_copy_in_part(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, source, sink, reader = line
    writer.sendall(b"0123456789")
    assert copy(source, _Stingy(sink), BUFFER) == (4, True)
    assert reader.recv(99) == b"0123"
    assert source.recv(99) == b"456789"


class _Stingy(socket.socket):
    """Takes four bytes at a time."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(fileno=os.dup(sock.fileno()))

    def send(self, data: object, flags: int = 0) -> int:
        with self:
            return super().send(memoryview(data)[:4], flags)  # type: ignore[arg-type]  # bytes-like


def move(source: socket.socket, sink: socket.socket, pipe: Pipe | None) -> None:
    """By splice, or by copy; often enough for a reset to have come."""
    for _ in range(3):
        if pipe is None:
            copy(source, sink, BUFFER)
        elif pipe.held:
            pipe.pour(sink)
        else:
            pipe.fill(source)


@pytest.mark.parametrize("splices", [False, True])
def test_a_reader_that_is_gone_is_said_to_have_failed(
    line: Line, pipe: Pipe, splices: bool
) -> None:
    writer, source, sink, reader = line
    writer.sendall(b"x")
    abort(reader)
    with pytest.raises(SinkFailed) as caught:
        move(source, sink, pipe if splices else None)
    assert isinstance(caught.value.args[0], OSError)
    with pytest.raises(SinkFailed):
        pass_end_on(sink)


@pytest.mark.parametrize("splices", [False, True])
def test_a_writer_that_is_gone_is_said_to_have_failed(
    line: Line, pipe: Pipe, splices: bool
) -> None:
    writer, source, sink, _reader = line
    abort(writer)
    with pytest.raises(SourceFailed) as caught:
        move(source, sink, pipe if splices else None)
    assert caught.value.args[0].errno == errno.ECONNRESET


def test_a_writer_that_is_gone_between_look_and_take(line: Line) -> None:
    writer, source, sink, _reader = line
    writer.sendall(b"x")
    with pytest.raises(SourceFailed):
        copy(_Flighty(source), sink, BUFFER)


class _Flighty(socket.socket):
    """May be looked at, and not taken from."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(fileno=os.dup(sock.fileno()))

    def recv_into(self, buffer: object, nbytes: int = 0, flags: int = 0) -> int:
        if flags == socket.MSG_PEEK:
            return super().recv_into(buffer, nbytes, flags)  # type: ignore[arg-type]  # bytes-like
        self.close()
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


def test_a_pipe_is_filled_and_poured(line: Line, pipe: Pipe) -> None:
    writer, source, sink, reader = line
    assert pipe.fill(source) is None
    writer.sendall(b"hello")
    assert (pipe.fill(source), pipe.held) == (5, 5)
    fill(sink)
    assert (pipe.pour(sink), pipe.held) == (0, 5)
    reader.recv(1 << 22)
    while not pipe.pour(sink):
        reader.recv(1 << 22)
    assert pipe.held == 0
    writer.shutdown(socket.SHUT_WR)
    assert pipe.fill(source) == 0


def test_a_user_with_many_pipes_gets_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "PIPE_SIZE", 1 << 40)  # refused: as where the user has too many
    with contextlib.closing(Pipe()) as pipe:
        assert 4096 <= pipe.size < 1 << 21


def test_what_the_kernel_does_not_splice_is_told_apart(
    line: Line, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "splice", refuses, raising=False)
    with pytest.raises(CannotSplice):
        pipe.fill(line[1])
    assert pipe.held == 0


def test_pipes_are_few_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(Pipes(most=2)) as pipes:
        first, second = pipes.borrow(), pipes.borrow()
        assert first is not None
        assert second is not None
        assert pipes.borrow() is None
        pipes.give_back(first)
        assert pipes.borrow() is first
        first.held = 1  # something is left in it
        pipes.give_back(first)
        third = pipes.borrow()
        assert third is not None
        assert third is not first
        pipes.give_back(third)
        pipes.give_back(second)
        pipes.forbid()
        assert pipes.borrow() is None


def test_no_more_empty_pipes_are_kept_than_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "KEPT", 1)
    with contextlib.closing(Pipes()) as pipes:
        lent = [pipes.borrow() for _ in range(3)]
        for each in lent:
            assert each is not None
            pipes.give_back(each)
        again = [pipes.borrow(), pipes.borrow()]
        assert again[0] is lent[0]
        assert again[1] not in lent
        for each in again:
            assert each is not None
            pipes.give_back(each)


def test_without_descriptors_there_are_no_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_flags: int) -> tuple[int, int]:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pipe2", refuses)
    assert Pipes().borrow() is None


def test_without_splice_there_are_no_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "CAN_SPLICE", False)
    assert Pipes().borrow() is None


def test_a_failure_is_told_once() -> None:
    with pair() as (near, far):
        assert failure(near) is None
        abort(far)
        found = failure(near)
        assert found is not None
        assert found.errno == errno.ECONNRESET
        assert failure(near) is None
        abort(near)
        assert near.fileno() == -1
        abort(near)
