"""A pod's careful way to serve a connection: any request, through h11, and ASGI applications.

Used for everything that `pod_http` does not answer by hand: bodies, chunked framing, `Expect`,
requests in pieces, pipelining, applications.

Source: RFC 9112 through h11; the ASGI specification 3.0, HTTP part. Refuses WebSocket: a request's
scope is of type `http`, and other messages raise ValueError. For lifespan see `pod_lifespan`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from typing import Any
from urllib.parse import unquote

import h11

from outlast.testing.pod_http import AsgiApp, Tally, answer, behaviour_of, misbehave


class Exchange:
    """The server side of one connection, driven by the bytes that the protocol feeds it."""

    def __init__(self, transport: asyncio.Transport, tally: Tally, app: AsgiApp | None) -> None:
        self._transport = transport
        self._tally = tally
        self._app = app
        self._conn = h11.Connection(h11.SERVER)
        self._more = asyncio.Event()
        self._stopping = False

    def stop(self) -> None:
        """Serve no further request: close now, or after the answer under way."""
        self._stopping = True
        if self._conn.their_state is h11.IDLE and not self._conn.trailing_data[0]:
            self._transport.close()

    def feed(self, data: bytes) -> None:
        """Take what arrived; empty bytes are the end."""
        self._conn.receive_data(data)
        self._more.set()

    async def run(self) -> None:
        """Serve requests until the connection ends."""
        try:
            while await self._one_request() and not self._stopping:
                self._conn.start_next_cycle()
        except h11.RemoteProtocolError as error:
            self._refuse(f"{error}\n", error.error_status_hint)
        except h11.LocalProtocolError:  # the application broke the protocol
            traceback.print_exc(file=sys.stderr)
        self._transport.close()

    async def _one_request(self) -> bool:
        """Serve one request; False when there will be no other."""
        request = await self._event()
        if not isinstance(request, h11.Request):
            return False
        if self._app is None:
            await self._answer(request)
        else:
            await AsgiCall(self, self._app, request).run()
        return self._conn.our_state is h11.DONE and self._conn.their_state is h11.DONE

    async def _answer(self, request: h11.Request) -> None:
        length = 0
        while (piece := await self.next_data()) is not None:
            length += len(piece)
        method, target = request.method.decode("ascii"), request.target.decode("latin-1")
        try:
            wanted = behaviour_of(target)
        except ValueError as error:
            self._refuse(f"the query of {target} makes no sense: {error}\n", 400)
            return
        facts: dict[str, object] = {"pod": self._tally.pod, "n": self.apply(request)}
        if method not in ("GET", "HEAD"):
            facts |= {"method": method, "length": length}
        await asyncio.sleep(wanted.delay)
        if misbehave(self._transport, wanted):
            return
        headers, body = answer(wanted, json.dumps(facts).encode())
        if wanted.close:
            headers.append((b"connection", b"close"))
        body = b"" if method == "HEAD" else body
        head = h11.Response(status_code=wanted.status, headers=headers)
        if wanted.stall:
            self.send(head, h11.Data(data=body[: len(body) // 2]))
            await asyncio.get_running_loop().create_future()  # until the client gives up
        self.send(head, h11.Data(data=body), h11.EndOfMessage())

    def apply(self, request: h11.Request) -> int:
        """Count a request; returns its number."""
        ids = [value for name, value in request.headers if name == b"x-request-id"]
        request_id = ids[0].decode("latin-1") if ids else None
        return self._tally.apply(request.method.decode("ascii"), request_id)

    async def next_data(self) -> bytes | None:
        """The next piece of the request's body; None at its end."""
        event = await self._event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    def send(self, *events: Any) -> None:
        """Send some of h11's events, as one piece."""
        data = b"".join(self._conn.send(event) or b"" for event in events)
        if data:
            self._transport.write(data)

    async def _event(self) -> Any:
        while True:
            event = self._conn.next_event()
            if event is h11.PAUSED:  # what follows this request waits for its answer
                return None
            if event is not h11.NEED_DATA:
                return event
            if self._conn.they_are_waiting_for_100_continue:
                self.send(h11.InformationalResponse(status_code=100, headers=[]))
            self._more.clear()
            await self._more.wait()

    def _refuse(self, why: str, status: int) -> None:
        if self._conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = why.encode()
            headers = [(b"content-length", b"%d" % len(body)), (b"connection", b"close")]
            head = h11.Response(status_code=status, headers=headers)
            self.send(head, h11.Data(data=body), h11.EndOfMessage())


class AsgiCall:
    """One request served by an ASGI application."""

    def __init__(self, exchange: Exchange, app: AsgiApp, request: h11.Request) -> None:
        self._exchange = exchange
        self._app = app
        self._request = request
        self._received = False
        self._started = False

    async def run(self) -> None:
        """Call the application, and read what it left of the request."""
        self._exchange.apply(self._request)
        try:
            await self._app(self._scope(), self._receive, self._send)
        except h11.RemoteProtocolError:  # the client's doing: it left in the middle of its request
            raise
        except Exception:  # noqa: BLE001  the application's failure, told on stderr as servers do
            traceback.print_exc(file=sys.stderr)
            if self._started:
                return
            await self._send({"type": "http.response.start", "status": 500})
            await self._send({"type": "http.response.body"})
        while not self._received:
            self._received = await self._exchange.next_data() is None

    def _scope(self) -> dict[str, Any]:
        path, _, query = bytes(self._request.target).partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": self._request.http_version.decode("ascii"),
            "method": self._request.method.decode("ascii"),
            "scheme": "http",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": [(bytes(name), bytes(value)) for name, value in self._request.headers],
        }

    async def _receive(self) -> dict[str, Any]:
        if self._received:
            # The client's going away cancels the call; there is nothing else to tell.
            await asyncio.get_running_loop().create_future()
        piece = await self._exchange.next_data()
        self._received = piece is None
        return {"type": "http.request", "body": piece or b"", "more_body": not self._received}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            headers = list(message.get("headers", ()))
            self._exchange.send(h11.Response(status_code=message["status"], headers=headers))
        elif message["type"] == "http.response.body":
            self._exchange.send(h11.Data(data=message.get("body", b"")))
            if not message.get("more_body", False):
                self._exchange.send(h11.EndOfMessage())
        else:
            raise ValueError(f"ASGI message {message['type']!r} is not served by a pod")
