"""What is said when virtual time cannot go on, and where threads stand when it is said.

Where a thread stands is read from its stack: the innermost line that is neither this library's,
nor an installed package's, nor Python's own. Refuses to guess what a line waits for.
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from collections.abc import Iterator
from types import FrameType
from typing import Any

__all__ = [
    "SimOver",
    "SimStalled",
    "debugged",
    "frame_of",
    "idle",
    "place_in",
    "place_of",
    "within_a_loop",
]

_SIMNET = os.path.dirname(os.path.abspath(__file__))
_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PATHS = sysconfig.get_paths()
_STDLIB = _PATHS["stdlib"]
_LOOPS = ("asyncio", "trio", "anyio")
_FOREIGN = tuple(
    os.path.join(path, "") for path in (_HERE, *(_PATHS[n] for n in ("stdlib", "purelib")))
)

# Where a thread that has nothing to do stands: the innermost Python frame, by file and function.
_IDLE = {
    ("threading.py", "wait"),
    ("threading.py", "join"),
    ("threading.py", "_wait_for_tstate_lock"),
    ("thread.py", "_worker"),  # concurrent.futures: waits for work
    ("_thread_cache.py", "_work"),  # trio: the same
    ("queue.py", "get"),
    ("_threads.py", "_send_message_to_trio"),  # trio: waits for the loop's answer
}
_KINDS = ("cr", "gi", "ag")  # coroutines, generators, async generators
_AWAITED = ("cr_await", "gi_yieldfrom", "ag_await")
_DEBUGGERS = {"bdb.py", "pdb.py", "pydevd.py", "pydevd_frame.py"}


class SimStalled(BaseException):
    """Virtual time cannot go on: a thread is busy or asleep in real time, or nothing will happen.

    The text names the thread and its line. Not an Exception, so that no retry catches it.
    """

    def anew(self) -> SimStalled:
        """The same, to be raised in one more place: each has a traceback of its own."""
        return type(self)(*self.args)


class SimOver(BaseException):
    """Raised in simulated threads that are still there when the run ends. Let it pass."""


def frame_of(ident: int) -> FrameType | None:
    """The innermost frame of a thread; None if it has ended."""
    return sys._current_frames().get(ident)


def idle(frame: FrameType | None) -> bool:
    """Whether a thread that stands there waits, in real time, for other threads."""
    if frame is None or _spot(frame) not in _IDLE:
        return False
    for one in _stack(frame):
        file, name = _spot(one)
        if file != "threading.py":
            return file != "turns.py"  # a look at the others is not a wait for them
        if name == "start":
            return False  # the thread that it has made is about to say that it lives
    return True


def debugged(frame: FrameType | None) -> bool:
    """Whether somebody looks at the thread with a debugger."""
    return any(_spot(one)[0] in _DEBUGGERS for one in _stack(frame))


def within_a_loop(frame: FrameType | None) -> bool:
    """Whether a thread is in the middle of an event loop's own work, or of this one's for it, as
    where a pod's loop takes the place of the thread's own and gives it back."""
    for one in _stack(frame):
        folder, file = os.path.split(one.f_code.co_filename)
        if folder == _SIMNET and file == "pod_loop.py":
            return True
        if any(f"{os.sep}{package}" in folder for package in _LOOPS):
            return True
        if folder != _SIMNET and ("site-packages" in folder or not folder.startswith(_STDLIB)):
            return False
    return False


def place_of(ident: int) -> tuple[int, str]:
    """Where a thread stands, as `file:line, in function: source line`; and how many lines of the
    program's own are under way there."""
    frame = frame_of(ident)
    if frame is None:
        return 0, "(it has ended)"
    own = [one for one in _stack(frame) if not _is_foreign(one)]
    return len(own), _line(own[0] if own else frame)


def place_in(work: Any) -> str:
    """Where a coroutine waits: the innermost line that is the program's own; "" if none is."""
    inner = None
    while work is not None:
        frame = next((f for f in (getattr(work, f"{n}_frame", None) for n in _KINDS) if f), None)
        if frame is not None and not _is_foreign(frame):
            inner = frame
        work = next((w for w in (getattr(work, name, None) for name in _AWAITED) if w), None)
    return "" if inner is None else _line(inner)


def _line(frame: FrameType) -> str:
    code = frame.f_code
    source = linecache.getline(code.co_filename, frame.f_lineno).strip()
    return f"{code.co_filename}:{frame.f_lineno}, in {code.co_name}: {source or '?'}"


def _spot(frame: FrameType) -> tuple[str, str]:
    return os.path.basename(frame.f_code.co_filename), frame.f_code.co_name


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_foreign(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith((*_FOREIGN, "<")) or "site-packages" in name
