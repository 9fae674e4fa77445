"""Becomes another program that ends with the test run, whatever becomes of that.

python tied.py PARENT LOG USER PROGRAM ARGUMENTS...

PARENT is the process to end with, LOG the file that gets both outputs (`-`: as they are), USER whom
to be (`-`: who one is). The order matters: a change of user clears the parent-death signal.

Source: prctl(2), PR_SET_PDEATHSIG. The signal comes when the parent's *thread* ends.
"""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

from outlast.testing.tether import die_with

__all__ = ["NOBODY", "machine_root", "tied"]

NOBODY = "nobody"
_NESTED = ("unshare", "--user")


def tied(
    *argv: str, log: Path | None = None, user: str | None = None, parent: int | None = None
) -> list[str]:
    """The command line that runs `argv` so."""
    own = [str(parent or os.getpid()), str(log or "-")]
    if user is None or machine_root():
        return [sys.executable, __file__, *own, user or "-", *argv]
    # In a user namespace there is nobody else to become, but in a second one, by name.
    who = pwd.getpwnam(user)
    nested = [*_NESTED, f"--map-user={who.pw_uid}", f"--map-group={who.pw_gid}", "--"]
    return [*nested, sys.executable, __file__, *own, "-", *argv]


def machine_root() -> bool:
    """Whether we are the machine's own root, and not that of a user namespace in name only."""
    mapped = Path("/proc/self/uid_map").read_text(encoding="ascii").split()
    return os.geteuid() == 0 and mapped == ["0", "0", "4294967295"]  # user_namespaces(7): all


def main(parent: str, log: str, user: str, *argv: str) -> None:
    """See above."""
    if log != "-":
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, 1)
        os.dup2(file, 2)
    if user != "-":
        who = pwd.getpwnam(user)
        os.setgroups([])
        os.setgid(who.pw_gid)
        os.setuid(who.pw_uid)
    die_with(int(parent))
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(*sys.argv[1:])
