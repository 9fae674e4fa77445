"""urllib.request, without a timeout. It keeps no connections."""

from __future__ import annotations

import urllib.request

from tests.lab.legacy.programs.loop import HOST, PORT, in_threads

url = f"http://{HOST}:{PORT}/"


def new() -> None:
    """A new connection."""
    with urllib.request.urlopen(url) as answer:
        answer.read()


in_threads(lambda: new)
