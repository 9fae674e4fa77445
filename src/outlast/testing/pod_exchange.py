"""A pod's careful way to serve a connection: any request, through h11, and ASGI applications.

Used for everything that `pod_http` does not answer by hand: bodies, chunked framing, `Expect`, requests
in pieces, pipelining, applications.

Source: RFC 9112 through h11; the ASGI specification 3.0, HTTP part. Refuses ASGI lifespan and WebSocket:
an application that needs them is told so by its own protocol's means (it never sees those scopes).
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from typing import Any
from urllib.parse import unquote

import h11

from outlast.testing.pod_http import (
    AsgiApp,
    Tally,
    answer_body,
    answer_headers,
    behaviour_of,
    misbehave,
)


class H11Side:
    """The server side of one connection, driven by bytes fed from the protocol."""

    def __init__(self, transport: asyncio.Transport, tally: Tally, app: AsgiApp | None) -> None:
        self._transport = transport
        self._tally = tally
        self._app = app
        self._conn = h11.Connection(h11.SERVER)
        self._more = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Take what arrived; empty bytes are the end."""
        self._conn.receive_data(data)
        self._more.set()

    async def run(self) -> None:
        """Serve requests until the connection ends."""
        try:
            while await self._one_request():
                self._conn.start_next_cycle()
        except h11.RemoteProtocolError as error:
            self._refuse(error)
        except h11.LocalProtocolError:
            traceback.print_exc(file=sys.stderr)  # the application broke the protocol
        self._transport.close()

    async def _one_request(self) -> bool:
        """Serve one request; False when there will be no other."""
        request = await self._event()
        if not isinstance(request, h11.Request):
            return False
        body = await self._body() if self._app is None else b""
        if self._app is None:
            keep = await self._answer(request, len(body))
        else:
            keep = await AsgiCall(self, self._app, request).run()
        return keep and self._conn.our_state is h11.DONE and self._conn.their_state is h11.DONE

    async def _answer(self, request: h11.Request, length: int) -> bool:
        method = request.method.decode("ascii")
        wanted = behaviour_of(request.target.decode("ascii", "replace"))
        number = self.apply(request)
        await asyncio.sleep(wanted.delay)
        if misbehave(self._transport, wanted):
            return False
        more = {} if method in ("GET", "HEAD") else {"method": method, "length": length}
        body = answer_body(self._tally, wanted, number, **more)
        headers = answer_headers(wanted, body)
        if wanted.close:
            headers.append((b"connection", b"close"))
        self.send(h11.Response(status_code=wanted.status, headers=headers))
        if method != "HEAD":
            self.send(h11.Data(data=body[: len(body) // 2] if wanted.stall else body))
        if wanted.stall:
            await asyncio.get_running_loop().create_future()  # until the client gives up
        self.send(h11.EndOfMessage())
        return True

    def apply(self, request: h11.Request) -> int:
        """Count a request; returns its number."""
        ids = [value for name, value in request.headers if name == b"x-request-id"]
        request_id = ids[0].decode("latin-1") if ids else None
        return self._tally.apply(request.method.decode("ascii"), request_id)

    async def next_data(self) -> bytes | None:
        """The next piece of the request's body; None at its end or when the client is gone."""
        event = await self._event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    def send(self, event: Any) -> None:
        """Send one of h11's events."""
        data = self._conn.send(event)
        if data:
            self._transport.write(data)

    async def _body(self) -> bytes:
        pieces = []
        while (piece := await self.next_data()) is not None:
            pieces.append(piece)
        if self._conn.their_state is not h11.DONE:
            raise h11.RemoteProtocolError("the request ended early")
        return b"".join(pieces)

    async def _event(self) -> Any:
        while True:
            event = self._conn.next_event()
            if event is h11.PAUSED:
                return h11.ConnectionClosed()
            if event is not h11.NEED_DATA:
                return event
            if self._conn.they_are_waiting_for_100_continue:
                self.send(h11.InformationalResponse(status_code=100, headers=[]))
            self._more.clear()
            await self._more.wait()

    def _refuse(self, error: h11.RemoteProtocolError) -> None:
        if self._conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = f"bad request: {error}\n".encode()
        headers = [("content-length", str(len(body))), ("connection", "close")]
        self.send(h11.Response(status_code=error.error_status_hint, headers=headers))
        self.send(h11.Data(data=body))
        self.send(h11.EndOfMessage())


class AsgiCall:
    """One request served by an ASGI application."""

    def __init__(self, side: H11Side, app: AsgiApp, request: h11.Request) -> None:
        self._side = side
        self._app = app
        self._request = request
        self._received = False
        self._started = False
        self._ended = False

    async def run(self) -> bool:
        """Call the application; False when its answer did not come to an end."""
        self._side.apply(self._request)
        try:
            await self._app(self._scope(), self._receive, self._send)
        except Exception:  # the application's own failure: reported, and 500 where still possible
            traceback.print_exc(file=sys.stderr)
            if self._started:
                return False
            await self._send({"type": "http.response.start", "status": 500})
            await self._send({"type": "http.response.body"})
        while not self._received and (await self._side.next_data()) is not None:
            pass
        return self._ended

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
            await asyncio.get_running_loop().create_future()  # a disconnect cancels the call
        piece = await self._side.next_data()
        self._received = piece is None
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            headers = list(message.get("headers", ()))
            self._side.send(h11.Response(status_code=message["status"], headers=headers))
        elif message["type"] == "http.response.body":
            self._side.send(h11.Data(data=message.get("body", b"")))
            if not message.get("more_body", False):
                self._side.send(h11.EndOfMessage())
                self._ended = True
        else:
            raise ValueError(f"ASGI message {message['type']!r} is not served by a pod")
