"""The speed report: its server speaks, its figures are medians, its page says what was found."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast
from xml.etree import ElementTree

import h2.connection
import h2.events
import pytest

from benchmarks.speed.crew import Found
from benchmarks.speed.figures import cost, rate, ratio, spread
from benchmarks.speed.plan import (
    CLIENTS,
    H1,
    H2,
    LARGE,
    SMALL,
    Cell,
    Memory,
    goals,
    matrix,
)
from benchmarks.speed.report import Circumstances, Findings, page, pictures
from benchmarks.speed.rounds import Pairs, Row, Weights
from benchmarks.speed.server import Http1
from benchmarks.speed.server_h2 import STREAMS, Http2
from benchmarks.speed.stored import dump, load
from benchmarks.speed.worker import FIRST, Window

WHERE = Circumstances("2026-01-02", "a machine", "a 1, b 2", "make it", pinned=True)


class Wire:
    """What a protocol of the server writes to."""

    def __init__(self) -> None:
        self.written = b""
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.aborted = True

    def taken(self) -> bytes:
        data, self.written = self.written, b""
        return data


def connected(protocol: asyncio.Protocol) -> Wire:
    wire = Wire()
    protocol.connection_made(cast(Any, wire))
    return wire


# -- the server ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_the_http2_server_answers_as_the_windows_allow(size: int, piece: int) -> None:
    server, client = Http2(size), h2.connection.H2Connection()
    wire = connected(server)
    client.initiate_connection()
    for stream in (1, 3):
        client.send_headers(stream, [*HEAD.items()], end_stream=True)
    got = {1: 0, 3: 0}
    heads: dict[int, dict[bytes, bytes]] = {}
    ended = set()
    while out := client.data_to_send():
        for at in range(0, len(out), piece):
            server.data_received(out[at : at + piece])
        for event in client.receive_data(wire.taken()):
            if isinstance(event, h2.events.ResponseReceived):
                heads[event.stream_id] = dict(cast(Any, event.headers))
            elif isinstance(event, h2.events.DataReceived):
                got[event.stream_id] += len(event.data or b"")
                client.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                ended.add(event.stream_id)
    assert got == {1: size, 3: size}
    assert ended == {1, 3}
    assert heads[1] == {
        b":status": b"200",
        b"content-length": str(size).encode(),
        b"content-type": b"text/plain",
    }
    assert client.remote_settings.max_concurrent_streams == STREAMS


HEAD = {":method": "GET", ":path": "/", ":scheme": "http", ":authority": "orders"}


def test_what_is_no_http2_is_cut_off() -> None:
    server = Http2(SMALL)
    wire = connected(server)
    server.data_received(b"GET / HTTP/1.1\r\nhost: orders\r\n\r\n")
    assert wire.aborted


def test_the_http1_server_answers_each_head_but_those_it_holds() -> None:
    server = Http1(SMALL)
    wire = connected(server)
    request = b"GET /%b HTTP/1.1\r\nhost: orders\r\n\r\n"
    server.data_received(request % b"")
    assert wire.taken().endswith(b"\r\ncontent-length: 2\r\n\r\n\0\0")
    server.data_received(request % b"hold")
    assert wire.taken() == b""
    other = Http1(SMALL)
    told = connected(other)
    other.data_received(request % b"held")
    assert told.taken().endswith(b"\r\n\r\n1")
    server.connection_lost(None)
    other.data_received(request % b"held")
    assert told.taken().endswith(b"\r\n\r\n0")


# -- measuring -----------------------------------------------------------------------------


def test_a_window_begins_when_all_have_been_served_and_has_its_least() -> None:
    window = Window(at_once=200, seconds=0.0, least=20)
    answers = 0
    while window.go_on():
        answers += 1
    found = window.found()
    assert found["answers"] == 20
    assert answers == max(200, FIRST) + 20 - 1
    assert not window.go_on()
    assert window.found() == found


def test_cells_ask_for_what_clients_can_do() -> None:
    able = {
        client.name: {(c.sync, c.protocol) for c in matrix((1,), (SMALL,)) if client.does(c)}
        for client in CLIENTS
    }
    everything = {(sync, protocol) for sync in (True, False) for protocol in (H1, H2)}
    assert able["outlast"] == able["httpx"] == able["niquests"] == everything
    assert able["aiohttp"] == {(False, H1)}
    assert able["requests"] == able["urllib3"] == {(True, H1)}
    assert len(list(matrix((1, 100, 500), (SMALL, LARGE)))) == 48


def test_a_middle_and_its_ends() -> None:
    assert spread([]) is None
    found = spread([3.0, 1.0, 2.5])
    assert found is not None
    assert found.write(ratio) == "2.50 (1.00–3.00)"
    assert [ratio(37.2), rate(12_345.6), cost(0.000_25), cost(0.0123)] == [
        "37",
        "12,346",
        "0.250",
        "12.30",
    ]


# -- the page ------------------------------------------------------------------------------


def found(milliseconds: float) -> Found:
    return Found(answers=100, seconds=0.1 * milliseconds, cpu=0.1 * milliseconds)


def findings(*, kept: bool = True) -> Findings:
    first = goals()[0]
    one, many = Cell(False), Cell(False, at_once=100)
    rows = [
        Row("outlast", one, [found(1), found(2), found(3)]),
        Row("httpx", one, [found(4), found(5), found(6)]),
        Row("httpx", many, [found(9)]),
        Row("niquests", one, [], "ReadTimeout: too late"),
    ]
    pairs = [(1.0, 2.0 if kept else 1.0)] * 3
    weights = Weights(Memory(sync=True, tls=True, traced=True), [(1024.0, 2048.0)])
    return Findings(WHERE, [Pairs(first, pairs)], [weights], rows)


@pytest.fixture
def lines() -> list[str]:
    return page(findings()).splitlines()


def test_the_page_says_where_and_how(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert "a machine" in text
    assert "`make it`" in text
    assert "a core each" in text


def test_a_bound_is_kept_or_not() -> None:
    assert "| ≤ 0.80 | 0.50 (0.50–0.50) | 1000.00 ms | 2000.00 ms | kept |" in page(findings())
    assert "| ≤ 0.80 | 1.00 (1.00–1.00) | 1000.00 ms | 1000.00 ms | **not kept** |" in page(
        findings(kept=False)
    )
    assert "| ≤ 1.00 | 0.50 | 1.0 KiB | 2.0 KiB | kept |" in page(findings())


def test_a_cell_shows_its_middle_and_what_is_missing(lines: list[str]) -> None:
    ours = "| **outlast** | 2.00 (1.00–3.00) | - | 500 (333–1,000) | - |"
    theirs = "| httpx | 5.00 (4.00–6.00) | 9.00 ×1 | 200 (167–250) | 111 ×1 |"
    assert ours in lines
    assert theirs in lines
    assert "| niquests | failed | - | failed | - |" in lines
    assert any("ReadTimeout: too late" in line for line in lines)
    assert not any(line.startswith("| requests") for line in lines)


def test_pictures_are_drawn_of_what_was_found() -> None:
    drawn = pictures(findings())
    assert set(drawn) == {"speed-cost.svg", "speed-rate.svg"}
    for text in drawn.values():
        root = ElementTree.fromstring(text)
        assert len(root.findall(".//{*}g")) == 2  # one panel for each number at once
        assert "niquests" not in text
    assert all(f"](benchmarks/{name})" in page(findings()) for name in drawn)
    nothing = Findings(WHERE, [], [], [])
    assert pictures(nothing) == {}
    assert "![" not in page(nothing)


def test_a_run_can_be_written_anew() -> None:
    kept = json.loads(json.dumps(dump(findings())))
    assert page(load(kept)) == page(findings())
    assert pictures(load(kept)) == pictures(findings())
