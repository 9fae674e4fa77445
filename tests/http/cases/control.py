"""Control per transport, per block and per call; and the report that always comes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

import outlast
from outlast import Backoff, Policy
from tests.http.callers import Caller, report_of, words
from tests.http.cases.table import Open, case
from tests.http.servers import Server, answering, hang_up, mute, raw, serve

ONE = {"outlast": {"attempts": 1}}
AT_ONCE = Policy(backoff=Backoff(0.0, 0.0))


async def tries(caller: Caller, server: Server, **more: Any) -> int:
    """How many requests one call to an unwilling server makes."""
    before = len(server.requests)
    await caller.get(server.url, **more)
    return len(server.requests) - before


@case
async def a_block_beats_the_transport_and_a_call_beats_both(open_caller: Open) -> None:
    with Server(answering(503)) as server:
        async with open_caller(policy=AT_ONCE) as caller:
            assert await tries(caller, server) == 3
            with outlast.override(attempts=1):
                assert await tries(caller, server) == 1
                assert await tries(caller, server, extensions={"outlast": {"attempts": 2}}) == 2
            assert await tries(caller, server) == 3


@case
async def blocks_nest_and_merge(open_caller: Open) -> None:
    with Server(answering(500)) as server:
        async with open_caller(policy=AT_ONCE) as caller:
            with outlast.override(attempts=2, retry_status={500}):
                assert await tries(caller, server) == 2
                with outlast.override(attempts=1):
                    assert await tries(caller, server) == 1
                with outlast.override(retry_status=()):
                    assert await tries(caller, server) == 1
                assert await tries(caller, server) == 2
            assert await tries(caller, server) == 1


@case
async def a_block_ends_when_its_code_fails(open_caller: Open) -> None:
    with Server(answering(503)) as server:
        async with open_caller(policy=AT_ONCE) as caller:
            with pytest.raises(KeyError), outlast.override(attempts=1):
                raise KeyError
            assert await tries(caller, server) == 3


@case
async def a_block_is_its_own_task_and_thread(open_caller: Open) -> None:
    with Server(answering(503)) as one, Server(answering(503)) as two:
        async with open_caller(policy=AT_ONCE) as caller:
            found: dict[str, int] = {}

            async def inside() -> None:
                with outlast.override(attempts=1):
                    found["inside"] = await tries(caller, one)

            async def outside() -> None:
                found["outside"] = await tries(caller, two)

            await caller.together(inside, outside)
    assert found == {"inside": 1, "outside": 3}


@case
async def an_unknown_key_is_named(open_caller: Open) -> None:
    with Server(serve) as server:
        async with open_caller() as caller:
            with pytest.raises(ValueError, match=r"unknown field 'atempts'.*attempts, deadline"):
                await caller.get(server.url, extensions={"outlast": {"atempts": 1}})
            with pytest.raises(ValueError, match="unknown field 7"):
                await caller.get(server.url, extensions={"outlast": {7: 1}})
    assert server.connections == 0


@case
async def a_wrong_value_is_named(open_caller: Open) -> None:
    wrong: list[tuple[Any, str]] = [
        ({"attempts": 0}, "attempts: 0 is not a whole number from 1 to 100"),
        ({"deadline": "soon"}, "deadline: 'soon' is no duration"),
        ({"idempotent": "yes"}, "idempotent: 'yes' is not True or False"),
        ("attempts=1", "no mapping of policy fields"),
        (["attempts"], "no mapping of policy fields"),
    ]
    with Server(serve) as server:
        async with open_caller() as caller:
            for value, text in wrong:
                with pytest.raises(ValueError, match=text):
                    await caller.get(server.url, extensions={"outlast": value})
                assert caller.counts()["places"] == 0
    assert server.connections == 0


@case
async def an_empty_mapping_changes_nothing(open_caller: Open) -> None:
    with Server(answering(503)) as server:
        async with open_caller(policy=AT_ONCE) as caller:
            assert await tries(caller, server, extensions={"outlast": {}}) == 3
            assert await tries(caller, server, extensions={"outlast": None}) == 3


@case
async def durations_may_be_written_with_units(open_caller: Open) -> None:
    with Server(mute) as server:
        async with open_caller() as caller:
            with pytest.raises(httpx.ReadTimeout, match=r"deadline of 0.1 s"):
                await caller.get(server.url, extensions={"outlast": {"deadline": "100ms"}})


# -- the report ----------------------------------------------------------------------------


@case
async def a_report_rides_on_every_response(open_caller: Open) -> None:
    with Server(serve) as server:
        async with open_caller() as caller:
            response = await caller.get(server.url)
            report = report_of(response)
            assert [event.phase for event in report] == ["connect", "pool"]
            assert report_of(await caller.get(server.url)) is not report
            async with caller.stream("GET", server.url) as streamed:
                assert words(streamed) == ["reused"]
    assert server.address in str(report)


@case
async def a_report_rides_on_every_exception(open_caller: Open) -> None:
    short = httpx.Timeout(5.0, read=0.05)
    with Server(serve) as gone:
        refused = gone.url
    with (
        Server(hang_up) as closing,
        Server(mute) as silent,
        Server(raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")) as cut,
        Server(raw(b"what?\r\n\r\n")) as garbage,
    ):
        failing: list[tuple[type[httpx.TransportError], str, str, dict[str, Any]]] = [
            (httpx.ConnectError, "GET", refused, {}),
            (httpx.RemoteProtocolError, "POST", closing.url, {}),
            (httpx.ReadTimeout, "GET", silent.url, {"timeout": short}),
            (httpx.RemoteProtocolError, "GET", cut.url, {}),
            (httpx.RemoteProtocolError, "GET", garbage.url, {}),
            (httpx.LocalProtocolError, "GET", silent.url, {"headers": {"a b": "c"}}),
        ]
        async with open_caller() as caller:
            for kind, method, url, more in failing:
                with pytest.raises(kind) as caught:
                    await caller.request(method, url, **more)
                assert type(caught.value) is kind
                assert caught.value.request.method == method
                assert len(report_of(caught.value)) >= 1
                assert "not repeated" in str(report_of(caught.value)) or kind is not None


@case
async def a_foreign_scheme_is_an_unsupported_protocol(open_caller: Open) -> None:
    async with open_caller() as caller:
        for url in ("ftp://orders/x", "orders/x", "http:///x"):
            with pytest.raises(httpx.UnsupportedProtocol, match="http:// or https://") as caught:
                await caller.handle(httpx.Request("GET", url))
            assert len(report_of(caught.value)) == 0
