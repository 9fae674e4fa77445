"""TCP probes on the kernel: a peer that lives, one that has rebooted, one that has lost power."""

from __future__ import annotations

from collections.abc import Callable

from outlast.core.probe import Probed
from outlast.net.address import literal
from outlast.net.kernel import kernel
from outlast.net.options import SocketPlan
from outlast.net.probe import probe
from outlast.net.run import run_sync, sleep_until
from outlast.net.seam import WRITE, Stream, Wait
from outlast.testing import KernelLab
from outlast.testing.pod import Pod

IDLE = 1.05  # seconds; keepalive counts in whole ones
NET = kernel()


def idle_connections(pod: Pod, count: int) -> list[Stream]:
    """Connections to the pod that nothing was ever sent on."""
    address = literal(pod.host, pod.port)
    assert address is not None

    async def dial() -> Stream:
        stream = NET.dial(address, SocketPlan())
        assert await Wait(((stream, WRITE),), NET.now() + 5.0)
        stream.connected()
        return stream

    return [run_sync(NET, dial()) for _ in range(count)]


def timed(streams: list[Stream]) -> tuple[list[Probed], float]:
    start = NET.now()
    return run_sync(NET, probe(NET, streams)), NET.now() - start


def test_alive_rebooted_and_dead_are_told_apart(
    lab: KernelLab, figures: Callable[[str], None]
) -> None:
    nodes = {name: lab.node(name) for name in ("alive", "rebooted", "dead", "frozen")}
    pods = {name: node.pod() for name, node in nodes.items()}
    with lab.running():
        idle = {name: idle_connections(pod, 5) for name, pod in pods.items()}
        nodes["rebooted"].power_off()
        nodes["rebooted"].power_on()
        nodes["dead"].power_off()
        pods["frozen"].freeze()
        run_sync(NET, sleep_until(NET.now() + IDLE))
        found = {name: timed(streams) for name, streams in idle.items()}
        everything = [stream for streams in idle.values() for stream in streams]
        run_sync(NET, sleep_until(NET.now() + IDLE))
        together, seconds = timed(everything)
        for stream in everything:
            stream.abort()
    for name, (outcomes, took) in found.items():
        figures(f"probe, 5 connections, {name}: {outcomes[0].value} after {took * 1000:.1f} ms")
    figures(f"probe, all 20 at once: {seconds * 1000:.1f} ms")
    assert {name: set(found[name][0]) for name in nodes} == {
        "alive": {Probed.ALIVE},
        "rebooted": {Probed.GONE},
        "dead": {Probed.UNKNOWN},
        "frozen": {Probed.ALIVE},  # its kernel lives: a probe proves no more
    }
    assert together == [outcome for name in nodes for outcome in found[name][0]]
    assert max(took for name, (_, took) in found.items() if name != "dead") < 0.05
    assert 0.05 <= found["dead"][1] < 0.15
    assert seconds < 0.15
