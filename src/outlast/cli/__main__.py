"""`python -m outlast.cli`: the same as the command `outlast`."""

from __future__ import annotations

from outlast.cli import main

if __name__ == "__main__":
    main()
