"""Responses that nobody reads or closes: their places come back when they are collected."""

from __future__ import annotations

import gc

import httpx
import pytest

import outlast
from tests.http.servers import Peer, Server


def serve(peer: Peer) -> None:
    """Answers with more than a buffer takes."""
    while peer.request():
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
        peer.until_closed()


def test_a_response_that_was_dropped_gives_its_place_back() -> None:
    limits = httpx.Limits(max_connections=1)
    with Server(serve, serve, serve) as server:
        transport = outlast.Transport(limits=limits)
        for _ in range(3):
            request = httpx.Request("GET", server.url)
            response = transport.handle_request(request)
            assert response.status_code == 200
            del response
            gc.collect()
        transport.handle_request(httpx.Request("GET", server.url)).close()
        assert "places 0" in repr(transport)
        transport.close()


def test_a_caller_in_line_hears_of_it() -> None:
    """Without anybody else calling: who waits looks by itself."""
    limits = httpx.Limits(max_connections=1)
    with Server(serve, serve) as server:
        transport = outlast.Transport(limits=limits)
        kept = [transport.handle_request(httpx.Request("GET", server.url))]
        timeout = {"connect": 5.0, "read": 5.0, "write": 5.0, "pool": 0.2}
        request = httpx.Request("GET", server.url, extensions={"timeout": timeout})
        with pytest.raises(httpx.PoolTimeout):
            transport.handle_request(request)
        kept.clear()
        gc.collect()
        transport.handle_request(request).close()
        transport.close()
