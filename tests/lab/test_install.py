"""`install()` through incident A, for ways to wait that no library of `tests/lab/legacy` has.

One outage for all of them: two nodes, one loses power, and its endpoint leaves the Service later
than the test lasts. The bound is the issue's: no error, and nobody waits longer than a second. A
headless Service (a name with an address for each pod) has one of its own: a client that tries one
address after the other may meet the dead one before it is known to be dead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from outlast.testing import KernelLab
from tests.house.sources import ROOT
from tests.lab.legacy.tied import tied

pytestmark = pytest.mark.incident("A")

FULL = bool(os.environ.get("OUTLAST_FULL"))
WAYS = ("blocking", "poll", "selectors", "asyncio", "trio", "gevent", "names")
BRIEF = ("poll", "trio", "names")  # without OUTLAST_FULL
LASTS = 6.0 if FULL else 3.0  # seconds of the loss
START = 4.0 if FULL else 2.5  # seconds for all clients together
SLOWEST = 1.0
SLOWEST_BY_HAND = 2.0  # it gives way after 0.75 s
END = 40.0  # of a busy machine


def client(way: str, hosts: str, port: int) -> subprocess.Popen[str]:
    """One client, running where this thread is."""
    seconds = str(START + LASTS)
    own = (sys.executable, "-m", "tests.lab.install_client", way, hosts, str(port), seconds)
    return subprocess.Popen(
        tied(*own), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def calls(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """All calls of a client that ends by itself."""
    try:
        out, complaint = process.communicate(timeout=END)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert process.returncode == 0, complaint[-2000:]
    return [json.loads(line) for line in out.splitlines()]


def test_every_way_to_wait_outlives_the_node(
    lab: KernelLab, figures: Callable[[str], None], subtests: pytest.Subtests
) -> None:
    ways = [way for way in (WAYS if FULL else BRIEF) if way != "gevent" or _has_gevent()]
    nodes = [lab.node("a"), lab.node("b")]
    pods = [node.pod() for node in nodes]
    service = lab.service("orders.shop.svc:8080", pods=pods)
    lab.at(START, nodes[0].power_off)
    with lab.running():
        running = {}
        for way in ways:
            hosts, port = service.host, service.port
            if way == "names":
                hosts = ",".join(pod.address.partition(":")[0] for pod in pods)
                port = int(pods[0].address.partition(":")[2])
            running[way] = client(way, hosts, port)
        found = {way: calls(process) for way, process in running.items()}
    for way, told in found.items():
        slowest = max(call["took"] for call in told)
        overtaken = sum(call["raced"] for call in told)
        text = f"{len(told)} calls, {overtaken} overtaken, slowest {slowest * 1e3:.0f} ms"
        figures(f"install(), {way}: {text}")
        with subtests.test(way):
            assert not [call for call in told if call["error"]]
            assert slowest <= (SLOWEST_BY_HAND if way == "names" else SLOWEST)
            assert len(told) > 20
            assert slowest > 0.02, "the fault was not met"


def _has_gevent() -> bool:
    from importlib.util import find_spec

    return find_spec("gevent") is not None
