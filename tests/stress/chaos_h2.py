"""The HTTP/2 side of the server that misbehaves: streams that are refused, reset or left, GOAWAY,
connections that end in the middle, limits that change."""

from __future__ import annotations

import asyncio
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from tests.stress.chaos_server import DRIP, Talk, body_of

CODES = h2.errors.ErrorCodes
MOST = h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS
PIECE = 16_000  # bytes of one frame; a body is longer than the window at times


class H2Talk:
    """One connection of HTTP/2 over a `Talk`."""

    def __init__(self, below: Talk) -> None:
        self.below = below
        self.town = below.town
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self.machine = h2.connection.H2Connection(config)
        most = self.town.rng.choice([1, 3, 100])
        self.machine.local_settings = h2.settings.Settings(
            client=False, initial_values={MOST: most}
        )
        self.machine.initiate_connection()
        self.acknowledged = False  # the client has taken the settings
        self.highest = 0  # of the streams that were acted on
        self.last = 0  # of a farewell: what comes after it is not acted on
        self.heads: dict[int, dict[str, str]] = {}
        self.bodies: dict[int, bytes] = {}
        self.unsent: dict[int, bytes] = {}
        self.flush()

    def _allow(self, most: int) -> None:
        """Take so many at once from now on. h2 counts any acknowledgement as the latest one's, so
        one change at a time."""
        if self.acknowledged:
            self.acknowledged = False
            self.machine.update_settings({MOST: most})

    def flush(self) -> None:
        if not self.below.transport.is_closing():
            self.below.transport.write(self.machine.data_to_send())

    def received(self, data: bytes) -> None:
        try:
            for event in self.machine.receive_data(data):
                self._event(event)
        except h2.exceptions.ProtocolError as error:
            self.town.counts[f"protocol error: {error}"] += 1
            self.flush()
            self.below.transport.close()
        self._pump()

    def _event(self, event: Any) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self.heads[event.stream_id] = {str(k): str(v) for k, v in event.headers or []}
            self.bodies[event.stream_id] = b""
        elif isinstance(event, h2.events.DataReceived):
            self.machine.acknowledge_received_data(
                event.flow_controlled_length or 0, event.stream_id
            )
            if event.stream_id in self.bodies:
                self.bodies[event.stream_id] += event.data or b""
        elif isinstance(event, h2.events.SettingsAcknowledged):
            self.acknowledged = True
        elif isinstance(event, h2.events.StreamReset):
            self._forget(event.stream_id)
        elif isinstance(event, h2.events.StreamEnded) and event.stream_id in self.heads:
            head, body = self.heads.pop(event.stream_id), self.bodies.pop(event.stream_id)
            if self.last and event.stream_id > self.last:
                return
            try:
                self._answer(event.stream_id, head, body)
            except h2.exceptions.ProtocolError:  # the client has let go of it meanwhile
                self._forget(event.stream_id)

    def _forget(self, stream: int) -> None:
        self.heads.pop(stream, None)
        self.bodies.pop(stream, None)
        self.unsent.pop(stream, None)

    def _answer(self, stream: int, head: dict[str, str], sent: bytes) -> None:
        town, path = self.town, head[":path"].encode()
        turn = town.turn()
        if turn == "refuse":  # before it is acted on: any method may come again
            self.machine.reset_stream(stream, CODES.REFUSED_STREAM)
            return
        town.note(head[":method"].encode(), path)
        self.highest = max(self.highest, stream)
        if turn == "kill":
            town.kill_one()
        elif turn == "say_close":
            self._farewell()
        elif turn == "chunked":
            self._allow(town.rng.choice([1, 2, 10, 100]))
        if not (self._instead(turn, stream) or self.below.transport.is_closing()):
            self._head(stream)
            self.unsent[stream] = body_of(path, sent)
            self._after(turn)

    def _instead(self, turn: str, stream: int) -> bool:
        """What comes in the place of an answer, if anything does."""
        if turn == "reset":
            self.below.cut()
        elif turn == "hang_up":
            self.below.transport.close()
        elif turn == "garbage":  # a head that no decoder can read
            self.below.transport.write(b"\0\0\1\1\4\0\0\0\1\xff")
        elif turn == "half":
            self._head(stream)
            self.machine.reset_stream(stream, CODES.INTERNAL_ERROR)
        return turn in ("mute", "reset", "hang_up", "garbage", "half")

    def _after(self, turn: str) -> None:
        """What follows an answer that has begun."""
        if turn == "half_reset":
            self.flush()
            self.below.cut()
        elif turn == "drip":
            asyncio.get_running_loop().call_later(DRIP, self._pump)
        elif turn in ("close_after", "reset_after"):
            self._pump()
            self.below.transport.close()

    def _farewell(self) -> None:
        """GOAWAY past h2, which would answer nothing more; what is under way is answered."""
        self.last = self.highest
        frame = b"\0\0\x08\x07\0\0\0\0\0" + self.last.to_bytes(4, "big") + b"\0\0\0\0"
        self.flush()
        self.below.transport.write(frame)

    def _head(self, stream: int) -> None:
        self.machine.send_headers(stream, [(":status", "200")])

    def _pump(self) -> None:
        """Send what the client's windows allow."""
        for stream in list(self.unsent):
            try:
                self._send(stream)
            except h2.exceptions.ProtocolError:  # the client has let go of it
                self._forget(stream)
        self.flush()

    def _send(self, stream: int) -> None:
        while True:
            data = self.unsent[stream]
            room = min(self.machine.local_flow_control_window(stream), PIECE)
            if data and room <= 0:
                return
            piece, self.unsent[stream] = data[:room], data[room:]
            self.machine.send_data(stream, piece, end_stream=not self.unsent[stream])
            if not self.unsent[stream]:
                del self.unsent[stream]
                return
