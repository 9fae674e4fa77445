"""HTTP/2 flow control, seen from the caller: credit is returned only where it is of use."""

from __future__ import annotations

import h2.config
import h2.connection
import h2.events
import httpx
import pytest

import outlast
from outlast.http.h2 import CREDIT
from tests.http.servers import BOUND, Peer, Server

PIECE = 16_384  # the largest frame that needs no agreement (RFC 9113 section 4.2)
SIZE = CREDIT + PIECE


def serve_large(peer: Peer) -> None:
    """Answers each request with SIZE bytes, as far as the client's windows let it at once."""
    machine = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    machine.initiate_connection()
    while True:
        peer.send(machine.data_to_send())
        data = peer.sock.recv(65_536)
        if not data:
            return
        for event in machine.receive_data(data):
            if isinstance(event, h2.events.StreamEnded):
                machine.send_headers(event.stream_id, [(":status", "200")])
                for _ in range(SIZE // PIECE):
                    machine.send_data(event.stream_id, bytes(PIECE))
                machine.end_stream(event.stream_id)


@pytest.mark.parametrize("others", [0, 2])
def test_a_response_may_be_read_long_after_its_stream_has_ended(others: int) -> None:
    """Its end has come, and other streams have begun since: h2 has forgotten the stream."""
    transport = outlast.Transport(http1=False, http2=True)
    with Server(serve_large) as server, httpx.Client(transport=transport, timeout=BOUND) as client:
        first = client.send(client.build_request("GET", server.url), stream=True)
        for _ in range(others):
            assert len(client.get(server.url).content) == SIZE
        assert len(first.read()) == SIZE
        assert transport._engine.pool.counts()["places"] == 1
