"""What happens to one client of a small cluster, the same on the kernel and on the simulation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outlast.testing import KernelLab
from tests.lab.both_sides import Connection, Side, SimSide, lab_side

Story = Callable[[Side], list[str]]


def at(side: Side, where: str = "a") -> Connection:
    """A connection that works."""
    result, conn = side.dial(where)
    assert result == "connected"
    assert conn is not None
    assert conn.send(b"hello") == "sent"
    assert conn.recv() == "hello"
    side.idle(0.1)  # its acknowledgement may be 40 ms late
    return conn


def rejected(side: Side) -> list[str]:
    """A Service without endpoints, from the start and later."""
    told = [side.dial("empty")[0]]
    side.do("orders.remove a")
    side.do("orders.remove b")
    return [*told, side.dial("vip")[0]]


def killed(side: Side) -> list[str]:
    """The process is gone: FIN, and RST for whoever goes on talking."""
    conn = at(side)
    side.do("a.pod.kill")
    told = [conn.recv(), conn.send(b"x")]
    side.idle(0.1)
    told += [conn.send(b"x"), side.dial("a")[0]]
    side.do("a.pod.start")
    return [*told, side.dial("a")[0]]


def killed_with_unread_bytes(side: Side) -> list[str]:
    """Bytes that the process had not read make its end a reset."""
    conn = at(side)
    side.do("a.pod.freeze")
    told = [conn.send(b"unread"), conn.recv()]
    side.do("a.pod.kill")
    return [*told, conn.recv(), conn.recv(), conn.send(b"x")]


def rebooted(side: Side) -> list[str]:
    """The host does not know the connection any more."""
    conn = at(side)
    side.do("a.power_off")
    side.do("a.power_on")
    told = [conn.recv(), conn.send(b"x"), conn.recv(), conn.recv()]
    return [*told, side.dial("a")[0]]


def frozen(side: Side) -> list[str]:
    """Its kernel accepts and acknowledges."""
    conn = at(side)
    side.do("a.pod.freeze")
    return [side.dial("a")[0], conn.send(b"x"), conn.recv()]


def unreachable(side: Side) -> list[str]:
    """A router says so: final for a connect, remembered by a connection, told with IP_RECVERR."""
    plain, curious = at(side), at(side)
    curious.option(0, 11, 1)
    side.do("a.unreachable")
    told = [side.dial("a")[0]]
    for conn in (plain, curious):
        told += [conn.send(b"x"), conn.recv()]
    side.do("a.heal")
    for conn in (plain, curious):
        told.append(conn.recv(3.0))
    return told


def half_closed(side: Side) -> list[str]:
    """FIN after a request; the echo comes back, and then the end."""
    conn = at(side)
    told = [conn.send(b"last")]
    conn.finish()
    return [*told, conn.recv(), conn.recv(), conn.recv(), conn.send(b"x")]


def removed(side: Side) -> list[str]:
    """Established connections go on when their endpoint is taken out."""
    conns = [at(side, "vip") for _ in range(8)]
    side.do("orders.remove a")
    side.do("orders.remove b")
    told = [side.dial("vip")[0]]
    for conn in conns:
        told += [conn.send(b"x"), conn.recv()]
    return told


def healed(side: Side) -> list[str]:
    """A black hole loses bytes that come in the end."""
    conn = at(side)
    side.do("a.black_hole")
    told = [conn.send(b"x"), conn.recv(), side.dial("a")[0]]
    side.do("a.heal")
    return [*told, conn.recv(3.0)]


def stuck_to_a_port(side: Side) -> list[str]:
    """From a local port that met a dead pod no dial of the VIP meets another; new ports do.

    A connection that was reset is no such pin: the next SYN draws anew.
    """
    side.do("a.black_hole")
    news = [side.dial("vip", seconds=0.1)[0] for _ in range(24)]
    told = [", ".join(sorted(set(news)))]
    for port in (40_001, 40_002, 40_003):
        ends = ""
        for _ in range(8):
            result, conn = side.dial("vip", port=port, seconds=0.1)
            ends += result[0]
            if conn is not None:
                conn.reset()
        told.append(f"alive after dead: {'sc' in ends}")
    return told


STORIES: list[Story] = [
    rejected,
    killed,
    killed_with_unread_bytes,
    rebooted,
    frozen,
    unreachable,
    half_closed,
    removed,
    healed,
    stuck_to_a_port,
]


def names(story: Story) -> str:
    return story.__name__


@pytest.mark.parametrize("story", STORIES, ids=names)
def test_the_kernel_and_the_simulation_tell_the_same(story: Story) -> None:
    reason = KernelLab.missing()
    if reason is not None:
        pytest.skip(f"kernel lab: {reason}")
    with lab_side() as side:
        real = story(side)
    assert story(SimSide(seed=1)) == real


def test_the_stories_are_not_all_alike() -> None:
    told = [story(SimSide(seed=1)) for story in STORIES]
    assert len({tuple(lines) for lines in told}) == len(STORIES)
