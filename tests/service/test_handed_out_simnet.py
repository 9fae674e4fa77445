"""Sockets that were handed out on a simulated network, over a minute and more of virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

import outlast
from outlast import Liveness, Policy, report_of
from outlast.testing import SimNet

SIZE = 20_000_000  # bytes; more than both kernels hold
PAUSE = 60.0  # seconds


async def pauses(reader: Any, writer: Any) -> None:
    """Reads nothing for a minute, then everything, and says how much it was."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), PAUSE)
    total = 0
    while total < SIZE:
        total += len(await reader.read(1 << 20))
    writer.write(b"%d\n" % total)
    await writer.drain()


async def listens(reader: Any, writer: Any) -> None:
    """Takes what comes and says nothing."""
    while await reader.read(1 << 16):
        pass


def test_a_reader_that_pauses_for_a_minute_keeps_its_connection() -> None:
    net = SimNet()
    pod = net.node("a").pod(pauses, port=7)
    with net.running():
        sock = outlast.create_connection((pod.host, pod.port), timeout=5, network=net)
        with sock, sock.makefile("rb") as file:
            sock.settimeout(None)
            sock.sendall(bytes(SIZE))
            assert file.readline() == b"%d\n" % SIZE
            assert outlast.watch(sock).verdict is Liveness.ALIVE
        assert net.elapsed() > PAUSE


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_so_does_a_stream(backend: str) -> None:
    net = SimNet()
    pod = net.node("a").pod(pauses, port=7)

    async def main() -> bytes:
        async with await outlast.connect_tcp(pod.host, pod.port, network=net) as stream:
            await stream.send(bytes(SIZE))
            return await stream.receive()

    assert net.run(main, backend=backend) == b"%d\n" % SIZE
    assert net.elapsed() > PAUSE


@pytest.mark.parametrize(("sent", "seconds"), [(b"", 11.0), (b"a request", 11.5)])
def test_a_machine_that_loses_power_is_given_up(sent: bytes, seconds: float) -> None:
    net = SimNet()
    node = net.node("a")
    pod = node.pod(listens, port=7)
    with net.running():
        sock = outlast.create_connection((pod.host, pod.port), timeout=5, network=net)
        with sock:
            sock.settimeout(None)
            node.power_off()
            start = net.elapsed()
            if sent:
                sock.sendall(sent)
            with pytest.raises(TimeoutError):
                sock.recv(1)
            assert net.elapsed() - start == pytest.approx(seconds, abs=1.0)
            watched = outlast.watch(sock)
            assert watched.verdict is Liveness.DEAD


def test_a_dead_peer_is_ended_where_that_was_asked_for() -> None:
    """Also where no user timeout may stand."""
    net = SimNet()
    node = net.node("a")
    pod = node.pod(listens, port=7)
    with net.running():
        sock = outlast.create_connection((pod.host, pod.port), timeout=5, network=net)
        with sock:
            report = report_of(sock)
            assert report is not None
            assert any("watched: user timeout 11 s" in note for note in report.notes)
            watched = outlast.watch(sock, awaiting=True, abort=True)
            sock.settimeout(None)
            sock.sendall(b"a request")
            node.power_off()
            with pytest.raises(OSError):
                sock.recv(1)
            assert watched.verdict is not Liveness.ALIVE


def test_the_policy_switches_it_off() -> None:
    net = SimNet()
    pod = net.node("a").pod(listens, port=7)
    with net.running():
        policy = Policy(watch=False)
        sock = outlast.create_connection(
            (pod.host, pod.port), timeout=5, network=net, policy=policy
        )
        with sock:
            report = report_of(sock)
            assert report is not None
            assert "not watched, by Policy(watch=False): no user timeout" in report.notes
