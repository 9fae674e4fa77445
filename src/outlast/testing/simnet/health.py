"""The health check node port: a small HTTP answer on every node, of who has an endpoint there.

200 if the node has a local endpoint and its proxy is healthy, else 503, with a JSON body. It is a
program of the node's own user space, so a frozen node is mute.

Source: kubernetes pkg/proxy/healthcheck/service_health.go, linux-tcp facts 9.3. Any request is
answered alike, as there; a request with a body is not understood.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from outlast.testing.simnet.sockets import Listener, SimSocket

if TYPE_CHECKING:
    from outlast.testing.simnet.node import Node
    from outlast.testing.simnet.service import Service

__all__ = ["HealthCheck"]

_REASONS = {200: "OK", 503: "Service Unavailable"}


class HealthCheck:
    """The answer of one node for one Service."""

    def __init__(self, node: Node, service: Service, port: int) -> None:
        self._node = node
        self._service = service
        self._port = port
        self._buffers: dict[SimSocket, bytearray] = {}

    def boot(self) -> None:
        """Begin to listen: the node has power."""
        self._buffers.clear()
        listener = self._node.kernel.listen((self._node.host, self._port), owner=self)
        listener.on_change = partial(self._later, partial(self._accept, listener))

    def thaw(self) -> None:
        """Go on: the node's programs were stopped."""
        for sock in tuple(self._buffers):
            self._serve(sock)

    def _later(self, action: Callable[[], None]) -> None:
        self._node.kernel.timeline.after(0, action, "health check")

    def _accept(self, listener: Listener) -> None:
        while (sock := listener.accept()) is not None:
            self._buffers[sock] = bytearray()
            sock.on_change = partial(self._later, partial(self._serve, sock))
            self._serve(sock)

    def _serve(self, sock: SimSocket) -> None:
        if sock not in self._buffers or self._node.frozen or not self._node.on:
            return
        try:
            goes_on = self._exchange(sock, self._buffers[sock])
        except OSError:
            goes_on = False
        if not goes_on:
            del self._buffers[sock]
            sock.close()

    def _exchange(self, sock: SimSocket, buffer: bytearray) -> bool:
        """Answer what has come; False if that was all."""
        data = sock.recv(65536)
        while data:
            buffer += data
            data = sock.recv(65536)
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(buffer[:end]).lower()
            del buffer[: end + 4]
            sock.send(self._answer())
            if b"connection: close" in head:
                return False
        return data is None

    def _answer(self) -> bytes:
        count = self._service.local_endpoints(self._node.kernel)
        healthy = self._node.proxy_healthy
        status = 200 if count and healthy else 503
        name, _, rest = self._service.name.partition(".")
        facts = {
            "service": {"namespace": rest.partition(".")[0] or "default", "name": name},
            "localEndpoints": count,
            "serviceProxyHealthy": healthy,
        }
        body = json.dumps(facts).encode()
        return (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\n"
            "content-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        ).encode() + body
