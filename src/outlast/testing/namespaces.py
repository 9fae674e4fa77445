"""Network namespaces that vanish with the process that made them.

A namespace here has no name and no holder process: it lives as long as somebody has a descriptor of
it open, which is this process, or runs inside it, which are the pods. When this process ends,
however it ends, the kernel takes everything in it down. A fork of this process closes its copies at
once, so that a forgotten worker cannot keep a lab alive.

Entering a namespace is per thread. `Hand` is the one thread that does all the work inside them, one
piece at a time, which also makes it the parent of every pod (the kernel ties PR_SET_PDEATHSIG to
the parent's *thread*, so it must live as long as the lab).

Source: namespaces(7), setns(2), unshare(2), prctl(2). Refuses nothing: who may is the kernel's
choice, see `privileges`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import subprocess
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

_CLONE_NEWNET = 0x40000000
_P = ParamSpec("_P")
_T = TypeVar("_T")

_open: weakref.WeakSet[Namespace] = weakref.WeakSet()


class ToolFailed(OSError):
    """A system tool that the lab called (nft) ended with an error; the text has its output."""


class Namespace:
    """One network namespace, held by a descriptor."""

    def __init__(self, label: str, fd: int) -> None:
        self.label = label
        self.fd = fd
        _open.add(self)

    def close(self) -> None:
        """Let go of the namespace. The kernel removes it when nothing runs inside any more."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __repr__(self) -> str:
        return f"<Namespace {self.label}{'' if self.fd >= 0 else ' (closed)'}>"


class Hand:
    """The thread that works inside the namespaces of one lab, on behalf of any other thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="outlast-lab")

    def make(self, label: str) -> Namespace:
        """A new namespace with its loopback still down."""
        return self._thread.submit(_make, label).result()

    def do(self, space: Namespace, fn: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run `fn` inside `space` and return what it returns."""
        return self._thread.submit(_inside, space, functools.partial(fn, *args, **kwargs)).result()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()


@contextlib.contextmanager
def entered(space: Namespace) -> Iterator[None]:
    """Put the calling thread, and threads it starts meanwhile, into `space` during a block."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(space)
        try:
            yield
        finally:
            _checked("setns", home, _CLONE_NEWNET)
    finally:
        os.close(home)


def enter(space: Namespace) -> None:
    """Put the calling thread into `space` for good."""
    _checked("setns", space.fd, _CLONE_NEWNET)


def run_tool(argv: Sequence[str], text: str = "") -> None:
    """Run a system tool where the calling thread is, `text` as its input, for at most 10 s."""
    environment = {**os.environ, "PATH": search_path()}
    done = subprocess.run(
        argv, input=text, capture_output=True, text=True, timeout=10.0, env=environment, check=False
    )
    if done.returncode:
        raise ToolFailed(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()}")


def search_path() -> str:
    """Where programs are looked for: also in the system's folders, which users often lack."""
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def set_sysctl(name: str, value: str) -> bool:
    """Set a sysctl of the calling thread's namespace; False where /proc/sys does not let us."""
    try:
        with open("/proc/sys/" + name.replace(".", "/"), "w", encoding="ascii") as file:
            file.write(value)
    except OSError:
        return False
    return True


def _make(label: str) -> Namespace:
    _checked("unshare", _CLONE_NEWNET)
    return Namespace(label, os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))


def _inside(space: Namespace, fn: Callable[[], _T]) -> _T:
    enter(space)
    return fn()


def _checked(function: str, *args: int) -> None:
    """Call a libc function that returns -1 and sets errno on failure (os.setns came with 3.12)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*args) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{function}: {os.strerror(code)}")


def _close_all_in_child() -> None:
    for space in list(_open):
        space.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all_in_child)
