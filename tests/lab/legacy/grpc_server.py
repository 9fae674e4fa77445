"""A gRPC server with one call, `/shop.Orders/Stock`, on bytes: no generated code, no protobuf.

python grpc_server.py HOST:PORT
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

__all__ = ["main"]

_THREADS = 8


def main(address: str) -> None:
    """Serve until the end of the process."""
    server: Any = grpc.server(ThreadPoolExecutor(_THREADS))
    stock = grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"7")
    handler = grpc.method_handlers_generic_handler("shop.Orders", {"Stock": stock})
    server.add_generic_rpc_handlers((handler,))
    if not server.add_insecure_port(address):
        raise OSError(f"cannot listen on {address}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main(sys.argv[1])
