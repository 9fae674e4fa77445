"""Answers that come late or are interrupted, what a race borrows, and the kernel's own clock."""

from __future__ import annotations

import errno
import os
import struct
from typing import Any, cast

import pytest

from outlast.net.dial import DialMemory
from outlast.shims.run.notices import Listener, Notice
from outlast.shims.run.racing import Loan
from outlast.shims.run.watching import unacknowledged

NOTICE = Notice(7, 1, 42, (3, 0, 16, 0, 0, 0))


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> tuple[Listener, list[int]]:
    """One that fails as the list says, an errno for each call; 0 for success."""
    codes: list[int] = []

    def ioctl(*_: Any) -> int:
        code = codes.pop(0)
        if code:
            raise OSError(code, os.strerror(code))
        return 0

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    reader, writer = os.pipe()
    os.close(writer)
    return Listener(reader), codes


def test_an_answer_that_a_signal_interrupts_is_given_again(
    listener: tuple[Listener, list[int]],
) -> None:
    there, codes = listener
    codes += [errno.EINTR, errno.EINTR, 0]
    assert there.answer(NOTICE, 0)
    codes += [errno.EINTR, errno.ENOENT]
    assert not there.put(NOTICE, 5, 3, cloexec=True)
    assert codes == []
    there.close()


def test_a_caller_that_is_gone_is_no_fault_and_everything_else_is(
    listener: tuple[Listener, list[int]],
) -> None:
    there, codes = listener
    codes += [errno.ENOENT, errno.EINPROGRESS, errno.ENOENT, errno.EBADF]
    assert not there.let(NOTICE)
    assert not there.answer(NOTICE, errno.ECONNREFUSED)
    assert there.receive() is None
    with pytest.raises(OSError, match="Bad file"):
        there.valid(NOTICE)
    there.close()


def test_what_a_race_has_borrowed_comes_back_once() -> None:
    memory = DialMemory(0.0)
    full = memory.redials_left(0.0)
    loan = Loan(memory)
    assert all(loan.take(0.0) for _ in range(5))
    assert memory.redials_left(0.0) == full - 5
    loan.give_back(0.0)
    assert memory.redials_left(0.0) == full + 1  # and the win has earned one
    loan.give_back(0.0)
    assert memory.redials_left(0.0) == full + 1
    assert loan.figures() == memory.figures()


@pytest.mark.parametrize(
    ("backoff", "rto", "unacked", "sent", "expected"),
    [
        (0, 0.2, 1, 0.1, 0.0),  # nothing was repeated yet
        (3, 1.6, 0, 0.5, 0.0),  # nothing is in flight
        (1, 0.4, 1, 0.3, 0.5),  # 0.2 s until the repeat, and 0.3 s since
        (3, 1.6, 1, 0.5, 1.9),  # 0.2, 0.4 and 0.8 s
        (5, 6.4, 2, 4.0, 10.2),
    ],
)
def test_how_long_data_is_in_flight_by_the_kernels_timers(
    backoff: int, rto: float, unacked: int, sent: float, expected: float
) -> None:
    raw = struct.pack("=4xB3xI12xI16xI", backoff, round(rto * 1e6), unacked, round(sent * 1e3))
    told = type("Told", (), {"getsockopt": lambda *_: raw})()
    assert unacknowledged(cast("Any", told)) == pytest.approx(expected)
