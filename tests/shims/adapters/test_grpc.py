"""gRPC by address lists and channel arguments: what its core makes of them."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import grpc.aio
import pytest
import trustme

from outlast import Policy, Target
from outlast.shims.adapters import grpc as adapter
from tests.net.pairs import PATIENCE
from tests.shims.adapters.looks import LINUX, both
from tests.shims.adapters.site import carry, go_dead
from tests.shims.adapters.site import serving as tcp


def echo(request: bytes, context: grpc.ServicerContext) -> bytes:
    return request


begun = threading.Event()  # a call that waits has arrived
ended = threading.Event()  # and may go


def wait(request: bytes, context: grpc.ServicerContext) -> bytes:
    begun.set()
    ended.wait(PATIENCE)
    return request


@contextlib.contextmanager
def serving(credentials: Any = None) -> Iterator[int]:
    """A server that echoes; its port."""
    begun.clear()
    ended.clear()
    made = grpc.server(futures.ThreadPoolExecutor(2))
    handlers = {
        "Say": grpc.unary_unary_rpc_method_handler(echo),
        "Wait": grpc.unary_unary_rpc_method_handler(wait),
    }
    made.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Echo", handlers),))
    if credentials is None:
        port = made.add_insecure_port("127.0.0.1:0")
    else:
        port = made.add_secure_port("127.0.0.1:0", credentials)
    made.start()
    try:
        yield port
    finally:
        ended.set()
        made.stop(0).wait(PATIENCE)


def said(channel: Any, wait: bool = True) -> Any:
    return channel.unary_unary("/t.Echo/Say")(b"a", timeout=PATIENCE, wait_for_ready=wait)


@pytest.mark.parametrize(
    ("where", "targets", "told"),
    [
        ("orders.svc:50051", None, "dns:///orders.svc:50051"),
        ("10.0.0.1:50051", None, "ipv4:10.0.0.1:50051"),
        ("[fd00::1]:50051", None, "ipv6:[fd00::1]:50051"),
        (
            "orders.svc:50051",
            {"orders.svc:50051": "static://1.2.3.4:80,5.6.7.8:80"},
            "ipv4:1.2.3.4:80,5.6.7.8:80",
        ),
        ("orders.svc:50051", {"*.svc": "dns://pods.svc:80"}, "dns:///pods.svc:80"),
        ("orders.svc:50051", {"*.svc": Target("static://[::1]:80")}, "ipv6:[::1]:80"),
    ],
)
def test_targets(where: str, targets: dict[str, str | Target] | None, told: str) -> None:
    assert adapter.target(where, targets) == told


@pytest.mark.parametrize(
    ("where", "targets", "text"),
    [
        ("orders.svc", None, "no port"),
        ("a:1", {"a:1": "static://1.2.3.4:80,[::1]:80"}, "list those of one"),
        ("a:1", {"a:1": "ftp://b"}, "unknown scheme"),
    ],
)
def test_what_is_malformed_is_refused(
    where: str, targets: dict[str, str | Target] | None, text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        adapter.target(where, targets)


def test_options_are_the_policys() -> None:
    policy = Policy(connect_timeout=2, keepalive=(7, 2, 3))
    told = dict(adapter.options(policy, server="a.svc:1", pings=True))
    assert json.loads(told["grpc.service_config"])["loadBalancingConfig"] == [{"round_robin": {}}]
    assert told["grpc.min_reconnect_backoff_ms"] == 2000
    assert told["grpc.keepalive_time_ms"] == 7000
    assert told["grpc.keepalive_timeout_ms"] == 6000
    assert told["grpc.default_authority"] == "a.svc:1"
    assert told["grpc.ssl_target_name_override"] == "a.svc"
    told = dict(adapter.options(policy))
    assert told["grpc.keepalive_time_ms"] > 5 * 60_000, "what servers tolerate (gRFC A8)"
    assert told["grpc.keepalive_timeout_ms"] == 13_000
    assert "grpc.keepalive_time_ms" not in dict(adapter.options(Policy(keepalive=None)))


def test_a_silent_endpoint_costs_nothing(silent: int) -> None:
    with serving() as port:
        targets = {"orders.svc:50051": both(silent, port)}
        with adapter.channel("orders.svc:50051", targets=targets) as channel:
            assert [said(channel) for _ in range(3)] == [b"a"] * 3


def test_calls_go_round_those_that_stand(refusing: int) -> None:
    """The one that goes is left at once, and taken up again when it is back."""
    with serving() as first:
        with serving() as second:
            targets = {"orders.svc:50051": both(first, second)}
            channel = adapter.channel("orders.svc:50051", targets=targets)
            assert said(channel) == b"a"
        assert [said(channel) for _ in range(5)] == [b"a"] * 5
        channel.close()
    targets = {"orders.svc:50051": f"static://127.0.0.1:{refusing}"}
    with adapter.channel("orders.svc:50051", targets=targets) as lost:
        with pytest.raises(grpc.RpcError) as caught:
            said(lost, wait=False)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.skipif(not LINUX, reason="needs a socket filter")
@pytest.mark.incident("FR-23")
@pytest.mark.parametrize("pings", [False, True])
def test_fr23_a_call_whose_server_is_lost_ends(pings: bool) -> None:
    """It has been received, and no deadline is set: the watch ends it, or a ping."""
    with serving() as port, tcp(lambda sock: relay(sock, port)) as lost:
        targets = {"orders.svc:50051": f"static://127.0.0.1:{lost.port}"}
        made: dict[str, Any] = {"policy": Policy(keepalive=(1, 1, 2)), "pings": pings}
        with adapter.channel("orders.svc:50051", targets=targets, **made) as channel:
            assert said(channel) == b"a"
            call = channel.unary_unary("/t.Echo/Wait").future(b"a")
            assert begun.wait(PATIENCE)
            go_dead(lost.accepted[0])
            assert call.code() is grpc.StatusCode.UNAVAILABLE
            assert b"a" in [answer(channel) for _ in range(3)]


def answer(channel: Any) -> Any:
    """What a call right after is told, if the connection is not yet known to have ended."""
    try:
        return said(channel)
    except grpc.RpcError:
        return None


def relay(sock: socket.socket, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as far:
        back = threading.Thread(target=carry, args=(far, sock))
        back.start()
        carry(sock, far)
        back.join(PATIENCE)


def test_the_callers_arguments_win() -> None:
    with serving() as port:
        targets = {"orders.svc:50051": f"static://127.0.0.1:{port}"}
        mine = [("grpc.max_receive_message_length", 0)]
        with adapter.channel("orders.svc:50051", targets=targets, options=mine) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                said(channel)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_tls_verifies_the_name_that_was_written(authority: trustme.CA) -> None:
    made = authority.issue_cert("orders.svc")
    pair = made.private_key_pem.bytes(), made.cert_chain_pems[0].bytes()
    root = authority.cert_pem.bytes()
    with serving(grpc.ssl_server_credentials([pair])) as port:
        target = f"static://127.0.0.1:{port}"
        targets = {"orders.svc:443": target, "others.svc:443": target}
        trust = {"credentials": grpc.ssl_channel_credentials(root), "targets": targets}
        with adapter.channel("orders.svc:443", **trust) as channel:
            assert said(channel) == b"a"
        with adapter.channel("others.svc:443", **trust) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                said(channel, wait=False)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_async_channels(silent: int) -> None:
    with serving() as port:
        targets = {"orders.svc:50051": both(silent, port)}
        async with adapter.aio_channel("orders.svc:50051", targets=targets) as channel:
            assert await said(channel) == b"a"
