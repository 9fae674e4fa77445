"""The demo, as its user starts it: a node dies, plain httpx suffers, outlast does not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from outlast.testing import KernelLab

CLIENTS = ["httpx, pooled", "outlast, pooled", "httpx, new", "outlast, new"]
SVG = "{http://www.w3.org/2000/svg}"


def test_a_short_demo_shows_the_incident(lab: KernelLab, tmp_path: Path) -> None:
    picture = tmp_path / "a.svg"
    done = subprocess.run(
        [sys.executable, "-m", "outlast.cli", "demo", "--seconds", "8", "--output", str(picture)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    sys.stdout.write(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert "-- node b loses power --" in done.stdout
    assert "the slowest request of outlast" in done.stdout
    rows = table(done.stdout)
    assert list(rows) == CLIENTS
    for name in ("outlast, pooled", "outlast, new"):
        requests, errors, hung = rows[name]
        assert requests > 50
        assert (errors, hung) == (0, 0)
    _, errors, hung = rows["httpx, new"]
    assert errors + hung >= 1
    panels = ElementTree.parse(picture).getroot().findall(f"{SVG}g")
    assert len(panels) == len(CLIENTS)


def table(text: str) -> dict[str, list[int]]:
    """Requests, errors and hung ones of each client, from the summary."""
    _, _, rest = text.partition("client ")
    found = re.findall(r"^(\w+, \w+) +(\d+) +(\d+) +(\d+) ", rest, re.MULTILINE)
    return {name: [int(number) for number in numbers] for name, *numbers in found}
