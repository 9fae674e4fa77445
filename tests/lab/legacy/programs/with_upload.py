"""requests, without a timeout, uploads 32 MiB to a server that stops reading in between.

MODE is the seconds that the server is asked to pause for.
"""

from __future__ import annotations

import requests

from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_threads

SIZE = 32 * 2**20  # bytes: more than both kernels buffer
body = b"x" * SIZE


def upload() -> None:
    """A new connection."""
    answer = requests.post(f"http://{HOST}:{PORT}/{MODE}", data=body)
    answer.raise_for_status()
    assert answer.text == str(SIZE), answer.text


in_threads(lambda: upload)
