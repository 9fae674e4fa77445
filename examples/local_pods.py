"""Two tiny HTTP servers on loopback, for the examples to talk to; nothing of outlast in here."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Pod:
    """One server. `stop` is its sudden end: new connections are refused."""

    def __init__(self, name: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps({"pod": name}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing: the example speaks."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.address}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def stop(self) -> None:
        """End it; may be called again."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def two_pods() -> Iterator[tuple[Pod, Pod]]:
    """Two servers during a block."""
    with ExitStack() as stack:
        pods = Pod("a"), Pod("b")
        for pod in pods:
            stack.callback(pod.stop)
        yield pods
