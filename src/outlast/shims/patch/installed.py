"""`outlast.install()` and `uninstall()`: the patch is put in and taken back, whole.

There is one patch in a process. It is put where sockets are made and connected, so that libraries
which were imported before are covered, and names that they have bound early too. A second call with
the same settings returns what the first one did; with others it is an error, because nobody could
say whose settings hold. Taking it back puts every name back that is still ours, and leaves the
sockets that are open as they are, watched as before.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Mapping
from threading import Lock
from types import TracebackType
from typing import Any

from outlast.policy import Policy
from outlast.shims.patch.answers import Answers
from outlast.shims.patch.places import Places
from outlast.shims.patch.unseen import Listener, loaded, tell_unseen
from outlast.shims.settings import Settings, read_settings
from outlast.target import Target

__all__ = ["Installed", "install", "uninstall"]

log = logging.getLogger("outlast")

_lock = Lock()
_installed: Installed | None = None


class Installed:
    """What `install()` has done. Also a context manager, which takes it back. Thread-safe.

    settings: what it looks after, and how. notes: patches of others that it has met.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.notes: tuple[str, ...] = ()
        self._unseen: list[str] = []
        self._answers = Answers()
        self._places = Places(settings, self._answers)
        self._listener = Listener(self._met, self._places.later())

    @property
    def active(self) -> bool:
        """Whether it holds."""
        return _installed is self

    @property
    def unseen(self) -> tuple[str, ...]:
        """Modules imported so far whose connections cannot be seen; see docs/install.md."""
        return tuple(self._unseen)

    def _met(self, name: str) -> None:
        if name not in self._unseen:
            self._unseen.append(name)
            tell_unseen([name])

    def put(self) -> None:
        """Put the patch in."""
        self.notes = self._places.put()
        for note in self.notes:
            log.warning("install(): %s", note)
        for name in loaded():
            self._met(name)
        sys.meta_path.insert(0, self._listener)

    def take_back(self) -> None:
        """Take the patch back."""
        if self._listener in sys.meta_path:
            sys.meta_path.remove(self._listener)
        self._places.take_back()

    def renew(self) -> None:
        """In the child of a fork."""
        self._answers.renew()

    def __enter__(self) -> Installed:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _end(self)

    def __repr__(self) -> str:
        state = "in place" if self.active else "taken back"
        return f"<outlast.install(): {state}>"


def install(
    *,
    only: Iterable[str] | None = None,
    skip: Iterable[str] | None = None,
    targets: Mapping[str, str | Target] | None = None,
    policy: Policy | Mapping[str, Any] | None = None,
    config: str | os.PathLike[str] | None = None,
) -> Installed:
    """Have every TCP connection that Python code of this process opens from now on outlast the
    loss of an endpoint, whatever library opens it.

    only, skip: patterns of destinations, such as "*.svc", "10.96.0.0/12:443", "db:5432-5440";
        by default whatever leaves this machine and its link.
    targets: destination pattern to the target that stands behind it, as in `outlast.Transport`.
    policy: `connect_timeout` (for sockets without a time-out of their own), `attempt_delay`,
        `open_attempts`, `keepalive`, `watch` and `user_timeout` are used.
    config: a TOML file. What is not given comes from the environment (OUTLAST_ONLY and its like),
        then the file, then the defaults.

    Modules that dial in C are named in a warning of the logger "outlast" and in `unseen`. With the
    same settings a second call returns the same object; with others it raises RuntimeError.
    ValueError names what is malformed. Thread-safe; a forked child has it too.
    """
    global _installed  # noqa: PLW0603  the one patch of this process
    settings = read_settings(only=only, skip=skip, targets=targets, policy=policy, config=config)
    with _lock:
        known = _installed
        if known is None:
            made = _installed = Installed(settings)
            made.put()
            return made
    if known.settings != settings:
        raise RuntimeError(
            "install() holds already, with other settings; call outlast.uninstall() first"
        )
    return known


def uninstall() -> None:
    """Take `install()` back; nothing happens where it does not hold. Sockets that are open stay as
    they are, and are watched as before. Thread-safe."""
    known = _installed
    if known is not None:
        _end(known)


def _end(installed: Installed) -> None:
    global _installed  # noqa: PLW0603  the one patch of this process
    with _lock:
        if _installed is not installed:
            return
        _installed = None
        installed.take_back()


def _renew() -> None:
    global _lock  # noqa: PLW0603  another thread of the parent may have held it
    _lock = Lock()
    if _installed is not None:
        _installed.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
