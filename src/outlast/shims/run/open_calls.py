"""The program's calls that wait for the outcome of one connect: connects, and questions for it.

An answer that comes too late (a signal has taken the caller away, and it will call again) is no
fault. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from outlast.shims.run.notices import Listener, Notice
from outlast.shims.run.processes import Task

__all__ = ["OpenCalls"]


class OpenCalls:
    """One owner. What is answered or let go of is forgotten."""

    __slots__ = ("_connects", "_listener", "_questions")

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._connects: list[tuple[Notice, Task]] = []
        self._questions: list[tuple[Notice, Task]] = []

    @property
    def connecting(self) -> bool:
        """Whether a connect waits."""
        return bool(self._connects)

    @property
    def asking(self) -> bool:
        """Whether a question waits."""
        return bool(self._questions)

    def connects(self, notice: Notice, task: Task) -> None:
        """A connect waits from now on."""
        self._connects.append((notice, task))

    def asks(self, notice: Notice, task: Task) -> None:
        """A question waits from now on: it is let go, never answered."""
        self._questions.append((notice, task))

    def __iter__(self) -> Iterator[tuple[Notice, Task]]:
        return iter((*self._connects, *self._questions))

    def prune(self) -> None:
        """Forget callers that wait no longer."""
        valid = self._listener.valid
        self._connects = [each for each in self._connects if valid(each[0])]
        self._questions = [each for each in self._questions if valid(each[0])]

    def answer(self, code: int) -> bool:
        """Tell the connects that wait; whether any of them has heard it."""
        told, self._connects = self._connects, []
        heard = [self._listener.answer(notice, code) for notice, _ in told]  # each of them
        return any(heard)

    def let_questions(self) -> None:
        """Let the kernel say what it knows."""
        told, self._questions = self._questions, []
        for notice, _ in told:
            self._listener.let(notice)

    def let(self) -> None:
        """Leave all to the kernel."""
        told, self._connects = self._connects, []
        for notice, _ in told:
            self._listener.let(notice)
        self.let_questions()
