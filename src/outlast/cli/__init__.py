"""The `outlast` command.

Needs the extra `cli` (click and rich), which nothing else of the library imports. Without it the
command says how to get it.
"""

from __future__ import annotations

import sys

__all__ = ["main"]

_EXTRA = ("click", "rich")


def main() -> None:
    """Run the command with the process's arguments; ends the process."""
    try:
        import rich  # noqa: F401  only some commands load all of it

        from outlast.cli.app import app
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _EXTRA:
            raise
        sys.exit(f"outlast: the command needs the library {library}: pip install 'outlast[cli]'")
    app(prog_name="outlast")
