"""Races on loopback, for every world that engine code runs in.

A silent address is a listener whose accept queue is full: further SYNs are dropped. Times have
generous bounds; that a race is fast is for virtual time to show.
"""

from __future__ import annotations

import errno
import functools
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pytest

from outlast.net.address import Address
from outlast.net.dial import DialMemory
from outlast.net.options import SocketPlan
from outlast.net.seam import Stream
from outlast.net.tls import TlsStream, handshake
from tests.guards import open_sockets
from tests.net.drivers import Driver
from tests.net.far_side import PATIENCE, read
from tests.net.kernel_world import KernelWorld
from tests.net.racing import race, request
from tests.net.tls_pair import NAME, client_context
from tests.net.tls_server import GREETING, Behaviour, TlsServer, greeting, leaving, mute

Serve: TypeAlias = "Callable[..., TlsServer]"
DELAY = 0.05  # seconds from one dial to the next
LONG = 8.0  # seconds; a timeout that no passing test reaches


class KernelRaces:
    """The dialler on the kernel; `drive` says in which world."""

    @pytest.fixture
    def world(self) -> Iterator[KernelWorld]:
        """The kernel network and a far side on loopback."""
        made = KernelWorld()
        yield made
        made.close()

    @pytest.fixture(params=["sync", "asyncio", "trio"])
    def drive(self, request: pytest.FixtureRequest, world: KernelWorld) -> Driver:
        """Runs engine code on the network under test."""
        return Driver(request.param, world.network)

    @pytest.fixture
    def serve(self) -> Iterator[Serve]:
        """Makes TLS servers, and closes them."""
        servers: list[TlsServer] = []

        def make(*behaviours: Behaviour) -> TlsServer:
            servers.append(TlsServer(behaviours))
            return servers[-1]

        yield make
        for server in servers:
            server.close()

    def won(self, drive: Driver, addresses: Sequence[Address], timeout: float = LONG) -> Stream:
        """The winner of a race to `addresses`."""
        wanted = request(drive.network, addresses=addresses, timeout=timeout, delay=DELAY)
        outcome = race(drive, wanted)
        assert outcome.took < timeout
        return outcome.stream

    # -- addresses -------------------------------------------------------------------------

    def test_a_silent_address_is_overtaken(self, world: KernelWorld, drive: Driver) -> None:
        live = world.listen()
        before = len(open_sockets())
        silent = world.silent()
        held = len(open_sockets()) - before
        stream = self.won(drive, [silent, live.address])
        assert stream.address == live.address
        assert len(open_sockets()) == before + held + 1, "the loser is gone"
        stream.close()

    def test_three_addresses_of_one_family_two_of_them_silent(
        self, world: KernelWorld, drive: Driver
    ) -> None:
        live = world.listen()
        stream = self.won(drive, [world.silent(), world.silent(), live.address])
        assert stream.address == live.address
        stream.close()

    def test_two_families(self, world: KernelWorld, drive: Driver) -> None:
        live = world.listen(socket.AF_INET6)
        stream = self.won(drive, [world.refusing(), world.silent(), live.address])
        assert stream.address == live.address
        stream.close()

    def test_a_name(self, world: KernelWorld, drive: Driver) -> None:
        live = world.listen()
        world.name("db.test", [world.refusing(), live.address])
        outcome = race(drive, request(world.network, name="db.test", timeout=LONG))
        assert outcome.stream.address == live.address
        outcome.stream.close()

    def test_a_refused_dial_is_an_error_at_once(self, world: KernelWorld, drive: Driver) -> None:
        outcome = race(drive, request(world.network, addresses=[world.refusing()], timeout=LONG))
        assert outcome.took < LONG
        assert (outcome.lost.errno, outcome.lost.timed_out) == (errno.ECONNREFUSED, False)

    def test_a_dial_that_meets_itself_is_refused(self, world: KernelWorld, drive: Driver) -> None:
        address = world.refusing()
        for sock in world._kept:
            sock.close()
        plan = SocketPlan(source=("127.0.0.1", address.port))
        wanted = request(world.network, addresses=[address], timeout=LONG, plan=plan)
        assert race(drive, wanted).lost.errno == errno.ECONNREFUSED

    # -- the deadline ----------------------------------------------------------------------

    def test_silence_ends_at_the_deadline(self, world: KernelWorld, drive: Driver) -> None:
        before = len(open_sockets())
        addresses = [world.silent(), world.silent()]
        held = len(open_sockets()) - before
        outcome = race(drive, request(world.network, addresses=addresses, timeout=0.4, delay=DELAY))
        assert outcome.lost.timed_out
        assert 0 <= outcome.late < PATIENCE
        assert len(open_sockets()) == before + held
        assert len(outcome.report.of_phase("connect")) > 2

    def test_a_hung_resolver_ends_at_the_deadline(self, world: KernelWorld, drive: Driver) -> None:
        release = world.name("hung.test", [world.refusing()], held=True)
        outcome = race(drive, request(world.network, name="hung.test", timeout=0.2))
        assert outcome.lost.timed_out
        assert 0 <= outcome.late < PATIENCE
        release()

    # -- TLS -------------------------------------------------------------------------------

    def secure(
        self, drive: Driver, server: TlsServer, *, name: str = NAME, timeout: float = LONG
    ) -> Stream | ssl.SSLError:
        """The winner of a race that ends with a TLS handshake, or why there is none."""
        finish = functools.partial(handshake, context=client_context(), name=name)
        addresses = [server.address]
        wanted = request(drive.network, addresses=addresses, timeout=timeout, finish=finish)
        outcome = race(drive, wanted)
        if outcome.error is not None and isinstance(outcome.error.cause, ssl.SSLError):
            return outcome.error.cause
        return outcome.stream

    def test_the_handshake_is_part_of_the_race(self, drive: Driver, serve: Serve) -> None:
        server = serve(greeting)
        stream = self.secure(drive, server)
        assert isinstance(stream, TlsStream)
        assert drive(functools.partial(read, drive.network, stream)) == GREETING
        stream.close()

    @pytest.mark.parametrize("first", [mute, leaving])
    def test_a_handshake_that_comes_to_nothing_is_dialled_again(
        self, drive: Driver, serve: Serve, first: Behaviour
    ) -> None:
        server = serve(first, greeting)
        stream = self.secure(drive, server)
        assert isinstance(stream, TlsStream)
        stream.close()
        assert server.accepted == 2

    def test_a_wrong_name_ends_it_at_once(self, drive: Driver, serve: Serve) -> None:
        server = serve(greeting)
        error = self.secure(drive, server, name="other.test")
        assert isinstance(error, ssl.SSLCertVerificationError)
        server.close()
        assert server.accepted == 1
        assert "bad certificate" in server.errors[0].lower().replace("_", " ")

    # -- what is learnt --------------------------------------------------------------------

    def test_the_next_race_knows_how_long_a_connect_takes(
        self, world: KernelWorld, drive: Driver
    ) -> None:
        memory = DialMemory(world.network.now())
        live = world.listen()
        world.name("db.test", [live.address])
        wanted = request(world.network, name="db.test", timeout=LONG, memory=memory, delay=None)
        assert (memory.figures()[0], memory.known) == (0.25, False)
        outcome = race(drive, wanted)
        assert outcome.won is not None
        assert 0 < outcome.won.rtt <= outcome.took
        assert memory.figures()[0] < 0.25
        assert memory.known
        outcome.stream.close()
