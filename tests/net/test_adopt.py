"""A program's own connect as the first dial of a race: on loopback, with real sockets."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from outlast.core.report import Report
from outlast.net.address import Address
from outlast.net.adopt import AdoptedStream, adopting
from outlast.net.dial import DialError, Won
from outlast.net.race_driver import dial
from outlast.net.run import run_sync
from tests.net.kernel_world import KernelListener, KernelWorld
from tests.net.racing import Watcher, request

DELAY = 0.03  # seconds from one dial to the next
LONG = 8.0  # seconds; a timeout that no passing test reaches
OUT_OF = (errno.EINPROGRESS, 0)


@pytest.fixture
def world() -> Iterator[KernelWorld]:
    """The kernel network and a far side on loopback."""
    made = KernelWorld()
    yield made
    made.close()


@pytest.fixture
def live(world: KernelWorld) -> KernelListener:
    """Somebody who answers."""
    return world.listen()


class Racing:
    """A program's socket that has begun to connect, and the race that adopts it."""

    def __init__(self, world: KernelWorld, sock: socket.socket, address: Address) -> None:
        self.world = world
        self.sock = sock
        sock.setblocking(False)
        self.began = world.network.now()
        assert sock.connect_ex(address.sockaddr) in OUT_OF
        self.stream = AdoptedStream(sock, address, self.began)
        self.report = Report(self.began)

    def __call__(self, addresses: list[Address], **more: Any) -> Won | DialError:
        """How a race to these ends."""
        network = self.world.network
        wanted = request(network, addresses=addresses, **{"delay": DELAY, "timeout": LONG, **more})

        async def engine() -> Won | DialError:
            try:
                return await dial(adopting(network, self.stream), wanted, self.report)
            except DialError as error:
                return error

        return run_sync(network, engine())


def test_the_programs_own_connect_wins(world: KernelWorld, live: KernelListener) -> None:
    with socket.socket() as sock:
        race = Racing(world, sock, live.address)
        won = race([live.address])
        assert isinstance(won, Won)
        assert won.stream is race.stream
        assert (won.dials, race.stream.given_up) == (1, False)
        assert sock.getpeername() == live.address.sockaddr


def test_a_silent_one_is_overtaken_and_left_as_it_is(
    world: KernelWorld, live: KernelListener
) -> None:
    silent = world.silent()
    watcher = Watcher()
    with socket.socket() as sock:
        race = Racing(world, sock, silent)
        won = race([silent, live.address], watcher=watcher)
        assert isinstance(won, Won)
        assert won.stream.address == live.address
        assert race.stream.given_up
        assert sock.fileno() >= 0
        assert sock.connect_ex(silent.sockaddr) == errno.EALREADY, "its connect is still under way"
        assert watcher.trail == [f"silent {silent.host}", f"connected {live.address.host}"]
        won.stream.close()


def test_the_second_dial_is_due_when_the_first_one_says(
    world: KernelWorld, live: KernelListener
) -> None:
    silent = world.silent()
    with socket.socket() as sock:
        race = Racing(world, sock, silent)
        race.stream.started = race.began - LONG / 2
        won = race([silent, live.address], delay=LONG / 2)
        assert isinstance(won, Won)
        assert world.network.now() - race.began < LONG / 4, "no second delay is waited for"
        won.stream.close()


def test_a_connect_that_has_failed_already_is_followed_at_once(
    world: KernelWorld, live: KernelListener
) -> None:
    refusing = world.refusing()
    with socket.socket() as sock:
        race = Racing(world, sock, refusing)
        race.stream.error = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        won = race([refusing, live.address], delay=LONG / 2)
        assert isinstance(won, Won)
        assert won.stream.address == live.address
        assert [event.errno for event in race.report if event.errno] == [errno.ECONNREFUSED]
        won.stream.close()


def test_a_deadline_that_has_passed_ends_it(world: KernelWorld) -> None:
    silent = world.silent()
    with socket.socket() as sock:
        race = Racing(world, sock, silent)
        race.stream.started = race.began - 2.0
        lost = race([silent], timeout=-1.0)
        assert isinstance(lost, DialError)
        assert lost.timed_out
        assert sock.fileno() >= 0


def test_another_address_first_leaves_it_alone(world: KernelWorld, live: KernelListener) -> None:
    silent = world.silent()
    with socket.socket() as sock:
        race = Racing(world, sock, silent)
        won = race([live.address])
        assert isinstance(won, Won)
        assert won.stream is not race.stream
        assert sock.connect_ex(silent.sockaddr) == errno.EALREADY
        won.stream.close()


def test_the_rest_of_the_network_is_as_it_is(world: KernelWorld) -> None:
    network = world.network
    with socket.socket() as sock:
        stream = AdoptedStream(sock, world.refusing(), 1.0)
        view = adopting(network, stream)
        assert (view.now(), view.tells) == (1.0, network.tells)
        assert view.wall_clock() >= network.wall_clock() - LONG
        world.name("db.test", [])
        view.lookup("db.test", 1, view.waiter())
        assert view.rng("x").random() < 1.0
        stream.shut()
        assert sock.fileno() >= 0
