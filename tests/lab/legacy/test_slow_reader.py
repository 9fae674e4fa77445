"""A reader that pauses in the middle of an upload is alive: no shim may cut it.

The kernel's user timeout (11 s) would, so the pause is longer than that; 60 s with OUTLAST_FULL=1.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from outlast.testing import KernelLab
from tests.lab.legacy import ways
from tests.lab.legacy.incident import Program, await_forwarder, folder, forwarder
from tests.lab.legacy.met import read
from tests.lab.legacy.rows import Row
from tests.lab.legacy.slow_reader import serve

PAUSE = 60.0 if os.environ.get("OUTLAST_FULL") else 13.0
_REST = 20.0  # seconds that the upload itself and the programs' starts may take
WAYS = ("bare", "install", "run", "forward")


def test_a_reader_that_pauses_is_left_alone(
    lab: KernelLab, figures: Callable[[str], None], subtests: pytest.Subtests
) -> None:
    row = Row("upload", "with_upload.py", str(PAUSE), "", ("requests",))
    if (reason := row.lacking()) is not None:
        pytest.skip(reason)
    uploads = lab.service("uploads.shop.svc:8080", pods=[lab.node("a").pod(raw=serve)])
    with folder() as where, ExitStack() as stack:
        stack.enter_context(lab.running())
        programs = {}
        for number, way in enumerate(way for way in WAYS if ways.lacking(way) is None):
            address = (uploads.host, uploads.port)
            if way == "forward":
                address = await_forwarder(forwarder(number, address, where, stack))
            argv = ways.command(way, row, address, workers=1, pause=1000.0)
            programs[way] = Program(f"{way}: upload", row, argv, where)
            stack.callback(programs[way].close)
        until = time.monotonic() + PAUSE + _REST
        while time.monotonic() < until and not all(p.lines() for p in programs.values()):
            time.sleep(0.1)
        for way in WAYS:
            with subtests.test(way):
                if (reason := ways.lacking(way)) is not None:
                    pytest.skip(f"{way}: {reason}")
                program = programs[way]
                met = read(way, True, program.said, 0.0, time.time(), 0.0)
                assert met.calls, f"{way}: no upload has ended: {program.complaint()}"
                figures(f"upload with a pause of {PAUSE:g} s, {way}: {met.calls[0].took:.2f} s")
                assert not met.calls[0].error, met.calls[0]
                assert met.calls[0].took > PAUSE
