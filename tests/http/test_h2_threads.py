"""HTTP/2 under threads: one moves the bytes of all, and everybody's books must be right."""

from __future__ import annotations

import functools
import select
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import h2.config
import h2.connection
import h2.events
import h2.settings
import httpx
import pytest

import outlast
from outlast.core.probe import Probed, Trust
from outlast.http import checkout
from outlast.net.address import Address
from outlast.net.kernel import KernelNetwork, KernelStream
from outlast.net.options import SocketPlan
from outlast.net.seam import READ, Network, Stream, Wait
from tests.http.h2_server import serve_h2
from tests.http.servers import BOUND, Peer, Seen, Server


class Gate:
    """Holds the next thread that is about to send (or to receive), once somebody has closed it."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.held = threading.Event()

    def pass_through(self) -> None:
        if not self.open.is_set() and not self.held.is_set():
            self.held.set()
            assert self.open.wait(BOUND)


class GatedNetwork(KernelNetwork):
    """The kernel's network; whatever is sent goes through a gate, what is received by another."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.inward = Gate()

    def dial(self, address: Address, plan: SocketPlan) -> KernelStream:
        gate, inward = self.gate, self.inward

        class Gated(KernelStream):
            def send(self, data: bytes | memoryview) -> int:
                gate.pass_through()
                return super().send(data)

            def recv(self, size: int) -> bytes | None:
                inward.pass_through()
                return super().recv(size)

        return Gated.dial(address, plan)


def answer_first_then_leave(peer: Peer) -> None:
    """Answers a connection's first request; takes two more and hangs up on both."""
    machine = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    machine.initiate_connection()
    taken = 0
    while taken < 3:
        peer.send(machine.data_to_send())
        data = peer.sock.recv(65_536)
        if not data:
            return
        for event in machine.receive_data(data):
            if isinstance(event, h2.events.StreamEnded):
                taken += 1
                peer.server.note(Seen("POST" if taken > 1 else "GET", "/", {}, b"", peer.number))
                if taken == 1:
                    machine.send_headers(event.stream_id, [(":status", "200")], end_stream=True)


def until(done: Callable[[], Any]) -> None:
    """Wait for other threads, with a bound."""
    for _ in range(int(BOUND / 0.005)):
        if done():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it has not come to that")


def test_what_another_thread_has_sent_was_sent() -> None:
    """A request that waits in the queue while another thread moves bytes goes out all the same:
    when the server hangs up it may have been acted on, so a POST is not repeated."""
    network = GatedNetwork()
    with Server(answer_first_then_leave) as server:
        transport = outlast.Transport(http1=False, http2=True, network=network)
        with httpx.Client(transport=transport, timeout=BOUND) as client:
            client.get(server.url)  # from here on the connection takes several
            outcomes: list[BaseException] = []

            def post() -> None:
                with pytest.raises(httpx.RemoteProtocolError) as caught:
                    client.post(server.url, content=b"order")
                outcomes.append(caught.value)

            network.gate.open.clear()
            threads = [threading.Thread(target=post) for _ in range(2)]
            threads[0].start()
            assert network.gate.held.wait(BOUND)  # it moves bytes
            threads[1].start()
            (connection,) = transport._engine.pool.in_use.busy
            session = connection.session
            assert session is not None
            until(lambda: [each.parked for each in session._all()] == [False, True])
            network.gate.open.set()
            for thread in threads:
                thread.join(BOUND)
                assert not thread.is_alive()
        assert len(outcomes) == 2
        assert server.methods == ["GET", "POST", "POST"]
        for outcome in outcomes:
            assert vars(outcome)["report"].progress is outlast.Progress.SENT


def spoil_the_second(peer: Peer) -> None:
    """Answers a connection's first request, and the second with what no decoder can read."""
    machine = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    machine.initiate_connection()
    while True:
        peer.send(machine.data_to_send())
        data = peer.sock.recv(65_536)
        if not data:
            return
        for event in machine.receive_data(data):
            if isinstance(event, h2.events.StreamEnded) and event.stream_id == 1:
                machine.send_headers(event.stream_id, [(":status", "200")], end_stream=True)
            elif isinstance(event, h2.events.StreamEnded):
                peer.wait(peer.server.gate)
                peer.send(b"\0\0\1\1\4\0\0\0\3\xff")


def test_whoever_comes_while_a_connection_breaks_goes_elsewhere() -> None:
    """One thread has met a broken frame and is about to say goodbye: a request that comes at this
    moment is no protocol error of the caller's, and neither is the rest of an upload."""
    network = GatedNetwork()
    with Server(spoil_the_second, serve_h2) as server:
        transport = outlast.Transport(http1=False, http2=True, network=network)
        with httpx.Client(transport=transport, timeout=BOUND) as client:
            client.get(server.url)
            uploading, go_on = threading.Event(), threading.Event()
            errors: list[BaseException] = []

            def body() -> Iterator[bytes]:
                yield b"first"
                uploading.set()
                assert go_on.wait(BOUND)
                yield b"second"

            def call(**more: Any) -> None:
                with pytest.raises(httpx.TransportError) as caught:
                    client.post(server.url, **more)
                errors.append(caught.value)

            upload = threading.Thread(target=call, kwargs={"content": body()})
            upload.start()
            assert uploading.wait(BOUND)
            spoiled = threading.Thread(target=call, kwargs={"content": b"order"})
            spoiled.start()
            (connection,) = transport._engine.pool.in_use.busy
            session = connection.session
            assert session is not None
            until(lambda: any(each.parked for each in session._all()))
            network.gate.open.clear()
            server.gate.set()
            assert network.gate.held.wait(BOUND)
            assert client.get(f"{server.url}/other").text == "/other"
            go_on.set()
            until(lambda: [each.parked for each in session._all()] == [True, False])
            network.gate.open.set()
            for thread in (upload, spoiled):
                thread.join(BOUND)
                assert not thread.is_alive()
        assert [type(error) for error in errors] == [httpx.RemoteProtocolError] * 2


def one_then_three(peer: Peer) -> None:
    """Takes one request at a time and answers the first one; while the second lasts it takes
    three, waits for the other two, and answers all."""
    config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
    machine = h2.connection.H2Connection(config)
    codes = h2.settings.SettingCodes
    machine.initiate_connection()
    machine.update_settings({codes.MAX_CONCURRENT_STREAMS: 1})
    taken: list[int] = []
    while len(taken) < 4:
        peer.send(machine.data_to_send())
        for event in machine.receive_data(peer.sock.recv(65_536)):
            if not isinstance(event, h2.events.StreamEnded):
                continue
            taken.append(event.stream_id)
            if len(taken) == 1:
                machine.send_headers(event.stream_id, [(":status", "200")], end_stream=True)
            elif len(taken) == 2:
                peer.wait(peer.server.gate)
                machine.update_settings({codes.MAX_CONCURRENT_STREAMS: 3})
    for number in taken[1:]:
        machine.send_headers(number, [(":status", "200")], end_stream=True)
    peer.send(machine.data_to_send())
    peer.until_closed()


@pytest.mark.anyio
async def test_a_server_that_takes_more_serves_those_in_line() -> None:
    """They stand in line while the server takes one request at a time, and that one lasts."""
    with Server(one_then_three) as server:
        transport = outlast.AsyncTransport(
            http1=False, http2=True, limits=httpx.Limits(max_connections=1)
        )
        async with httpx.AsyncClient(transport=transport, timeout=BOUND) as client:
            await client.get(server.url)
            with anyio.fail_after(BOUND):
                async with anyio.create_task_group() as group:
                    for _ in range(3):
                        group.start_soon(client.get, server.url)
                        await anyio.wait_all_tasks_blocked()
                    assert transport._engine.pool.counts()["waiting"] == 2
                    server.gate.set()


def few_at_once(peer: Peer) -> None:
    """Takes three requests at once, and answers what it has when it has seen three or waited."""
    config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
    machine = h2.connection.H2Connection(config)
    codes = h2.settings.SettingCodes
    most = {codes.MAX_CONCURRENT_STREAMS: 3}
    machine.local_settings = h2.settings.Settings(client=False, initial_values=most)
    machine.initiate_connection()
    under_way: list[int] = []
    while True:
        peer.send(machine.data_to_send())
        data = peer.sock.recv(65_536)
        if not data:
            return
        for event in machine.receive_data(data):
            if isinstance(event, h2.events.StreamEnded):
                under_way.append(event.stream_id)
                peer.server.note(Seen("GET", "/", {}, b"", peer.number))
        while len(under_way) == 3 or (under_way and len(peer.server.requests) == CROWD):
            machine.send_headers(under_way.pop(0), [(":status", "200")], end_stream=True)


CROWD = 20


@pytest.mark.anyio
async def test_a_crowd_before_the_servers_first_word_shares_one_connection() -> None:
    """How many it takes is not known when they all come: those that are too many wait for their
    turn, instead of a connection for each."""
    with Server(few_at_once) as server:
        transport = outlast.AsyncTransport(http1=False, http2=True)
        async with httpx.AsyncClient(transport=transport, timeout=BOUND) as client:
            async with anyio.create_task_group() as group:
                for _ in range(CROWD):
                    group.start_soon(client.get, server.url)
        assert (server.connections, len(server.requests)) == (1, CROWD)


def one_and_away(peer: Peer) -> None:
    """Answers a connection's first request, and hangs up when it is told to."""
    machine = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    machine.initiate_connection()
    answered = False
    while not answered:
        peer.send(machine.data_to_send())
        for event in machine.receive_data(peer.sock.recv(65_536)):
            if isinstance(event, h2.events.StreamEnded):
                machine.send_headers(event.stream_id, [(":status", "200")], end_stream=True)
                answered = True
    peer.send(machine.data_to_send())
    peer.wait(peer.server.gate)


def test_one_finds_an_idle_connection_closed_while_another_begins_to_share_it() -> None:
    """Both are answered elsewhere; whoever is last closes it."""
    network = GatedNetwork()
    with Server(one_and_away, serve_h2) as server:
        transport = outlast.Transport(http1=False, http2=True, network=network)
        with httpx.Client(transport=transport, timeout=BOUND) as client:
            client.get(server.url)
            (idle,) = transport._engine.pool._idle
            session = idle.session
            assert session is not None
            server.gate.set()
            assert select.select([idle.stream.fileno()], [], [], BOUND)[0]
            answers: list[str] = []
            network.inward.open.clear()
            threads = [
                threading.Thread(target=lambda n=n: answers.append(client.get(server.url + n).text))
                for n in ("/finds", "/shares")
            ]
            threads[0].start()
            assert network.inward.held.wait(BOUND)  # it looks whether the server has closed it
            threads[1].start()
            until(lambda: idle.leases == 2 and any(e.parked for e in session._all()))
            network.inward.open.set()
            for thread in threads:
                thread.join(BOUND)
                assert not thread.is_alive()
            assert sorted(answers) == ["/finds", "/shares"]
            assert (idle.stream.fileno(), idle.leases) == (-1, 0)
            counts = transport._engine.pool.counts()
            assert (counts["busy"], counts["places"]) == (0, counts["idle"])


@pytest.mark.anyio
async def test_nobody_shares_a_connection_while_its_peer_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before an unsafe request an idle connection is probed, by a wait on it: a loop takes one
    wait at a time. Whoever comes meanwhile is served elsewhere, or after it."""
    asking, answer = threading.Event(), anyio.Event()

    async def probed(network: Network, streams: Sequence[Stream], _: float) -> list[Probed]:
        asking.set()
        while not answer.is_set():
            await Wait(((streams[0], READ),), network.now() + 0.01)
        return [Probed.ALIVE]

    with Server(serve_h2) as server:
        transport = outlast.AsyncTransport(http1=False, http2=True)
        async with httpx.AsyncClient(transport=transport, timeout=BOUND) as client:
            await client.get(server.url)
            (idle,) = transport._engine.pool._idle
            monkeypatch.setattr(checkout, "probe", probed)
            monkeypatch.setattr(checkout, "trust", lambda *_, **__: Trust.PROBE)
            idle.asked -= 10.0
            async with anyio.create_task_group() as group:
                group.start_soon(functools.partial(client.post, server.url, content=b"order"))
                while not asking.is_set():
                    await anyio.lowlevel.checkpoint()
                with anyio.fail_after(BOUND):
                    for name in ("/one", "/two"):
                        assert (await client.get(server.url + name)).text == name
                assert idle.leases == 1
                answer.set()
            assert server.connections == 2
            assert server.methods == ["GET", "GET", "GET", "POST"]
