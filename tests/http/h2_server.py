"""A small HTTP/2 server, as a handler of a `Server`: answers with the body, or with the path.

/mute is not answered; of /half the second half never comes.
"""

from __future__ import annotations

import contextlib

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from tests.http.servers import Peer, Seen


def serve_h2(peer: Peer) -> None:
    """Serve one connection to its end. Speaks first, as servers may."""
    config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
    machine = h2.connection.H2Connection(config)
    machine.initiate_connection()
    heads: dict[int, dict[str, str]] = {}
    bodies: dict[int, bytes] = {}
    while True:
        peer.send(machine.data_to_send())
        data = peer.sock.recv(65_536)
        if not data:
            return
        for event in machine.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                heads[event.stream_id] = {str(k): str(v) for k, v in event.headers or []}
                bodies[event.stream_id] = b""
            elif isinstance(event, h2.events.DataReceived):
                bodies[event.stream_id] += event.data or b""
                machine.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                head, body = heads.pop(event.stream_id), bodies.pop(event.stream_id)
                with contextlib.suppress(h2.exceptions.ProtocolError):  # it was let go meanwhile
                    answer(peer, machine, event.stream_id, head, body)


def answer(
    peer: Peer,
    machine: h2.connection.H2Connection,
    stream: int,
    head: dict[str, str],
    body: bytes,
) -> None:
    """With the body, or the path."""
    headers = {"host": head[":authority"], **{k: v for k, v in head.items() if k[0] != ":"}}
    peer.server.note(Seen(head[":method"], head[":path"], headers, body, peer.number))
    if head[":path"] == "/mute":
        return
    machine.send_headers(stream, [(":status", "200"), ("x-scheme", head[":scheme"])])
    half = head[":path"] == "/half"
    machine.send_data(stream, body or head[":path"].encode(), end_stream=not half)
