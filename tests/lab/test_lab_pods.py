"""Pods do what the request asks, count what they applied, and run other applications."""

from __future__ import annotations

import http.client
import json
import re
import socket

import pytest

from outlast.testing import KernelLab
from outlast.testing.pod import Pod
from tests.lab import handlers
from tests.lab.wire import GET, SILENCE, ask_on, connected, is_silent, request


@pytest.fixture
def pod(lab: KernelLab) -> Pod:
    """A pod with the built-in behaviour."""
    return lab.node("a").pod()


def read_to_end(sock: socket.socket) -> bytes:
    data = b""
    while piece := sock.recv(65536):
        data += piece
    return data


def test_counts(lab: KernelLab, pod: Pod) -> None:
    with lab.running():
        request(pod.address, "GET", "/a/path?i=1", x_request_id="one")
        request(pod.address, "POST", "/", b"xyz", X_Request_ID="two")
        request(pod.address, "POST", "/", b"xyz", x_request_id="two")
        with connected(pod.address) as sock:
            ask_on(sock)
            assert pod.counts()["open"] == 1
            pod.node.power_off()
            assert pod.counts() == {
                "requests": 4,
                "connections": 4,
                "open": 1,
                "methods": {"GET": 2, "POST": 2},
                "ids": {"one": 1, "two": 2},
            }


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_answers_by_hand_and_by_h11_are_alike(lab: KernelLab, pod: Pod, method: str) -> None:
    def answer(target: str) -> tuple[int, dict[str, str], bytes]:
        return request(pod.address, method, target)

    with lab.running():
        status, headers, body = answer("/?status=503&retry_after=7")
        assert (status, headers["retry-after"]) == (503, "7")
        assert json.loads(body)["pod"] == "a-1"
        assert answer("/?size=5")[2] == b"xxxxx"
        assert answer("/?size=0")[2] == b""
        assert answer("/?close=1")[1]["connection"] == "close"
        assert answer("/?status=204")[::2] == (204, b"")
        for bad in ("delay=soon", "delay=-1", "delay=nan", "status=99", "size=-1"):
            status, _, body = answer(f"/?{bad}")
            assert (status, b"right: " in body or b"convert" in body or b"invalid" in body) == (
                400,
                True,
            )


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_delayed_request_counts_when_it_arrives(lab: KernelLab, pod: Pod, method: str) -> None:
    with lab.running(), connected(pod.address) as sock:
        target = b"/?delay=%f" % (SILENCE * 2)
        sock.sendall(GET.replace(b"GET /", method.encode() + b" " + target, 1))
        assert is_silent(sock)
        assert pod.counts()["methods"] == {method: 1}
        assert b'"n": 1' in sock.recv(65536)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_misbehaviour(lab: KernelLab, pod: Pod, method: str) -> None:
    with lab.running():
        with pytest.raises(http.client.RemoteDisconnected):
            request(pod.address, method, "/?drop=1")
        with pytest.raises(ConnectionResetError):
            request(pod.address, method, "/?reset=1")
        with pytest.raises(TimeoutError):
            request(pod.address, method, "/?stall=1&size=100000", timeout=SILENCE)
        with connected(pod.address) as sock:
            sock.sendall(GET.replace(b"GET /", method.encode() + b" /?stall=1", 1))
            assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
            assert is_silent(sock)
    assert pod.counts()["requests"] == 4


def test_bodies(lab: KernelLab, pod: Pod) -> None:
    with lab.running():
        plain = request(pod.address, "POST", "/", b"12345")[2]
        assert json.loads(plain) == {"pod": "a-1", "n": 1, "method": "POST", "length": 5}
        with connected(pod.address) as sock:
            sock.sendall(b"PUT / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nab")
            assert is_silent(sock)
            assert pod.counts()["requests"] == 1
            sock.sendall(b"c\r\n0\r\n\r\n")
            assert b'"length": 3' in sock.recv(65536)
            assert ask_on(sock)["n"] == 3
            sock.sendall(
                b"PUT / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
            )
            assert sock.recv(65536).startswith(b"HTTP/1.1 100 ")
            sock.sendall(b"ok")
            assert b'"length": 2' in sock.recv(65536)
        assert request(pod.address, "HEAD", "/")[::2] == (200, b"")


def test_requests_on_one_connection_are_served_in_turn(lab: KernelLab, pod: Pod) -> None:
    last = GET.replace(b"/", b"/?close=1", 1)
    with lab.running():
        with connected(pod.address) as sock:
            sock.sendall(GET + GET + last)
            assert read_to_end(sock).count(b"HTTP/1.1 200") == 3
        with connected(pod.address) as sock:
            sock.sendall(GET.replace(b"/", b"/?delay=%f" % (SILENCE * 3), 1))
            assert is_silent(sock)
            sock.sendall(GET)
            sock.sendall(last)
            assert is_silent(sock)
            assert pod.counts()["requests"] == 4
            assert re.findall(rb'"n": (\d)', read_to_end(sock)) == [b"4", b"5", b"6"]
        with connected(pod.address) as sock:
            for byte in last:
                sock.sendall(bytes([byte]))
            assert read_to_end(sock).endswith(b'{"pod": "a-1", "n": 7}')
        with connected(pod.address) as sock:
            sock.sendall(b"no such thing\r\n\r\n")
            assert read_to_end(sock).startswith(b"HTTP/1.1 400 ")
    assert pod.counts()["requests"] == 7


def test_half_closed_clients_get_their_answer(lab: KernelLab, pod: Pod) -> None:
    with lab.running(), connected(pod.address) as sock:
        sock.sendall(GET.replace(b"/", b"/?delay=0.1", 1))
        sock.shutdown(socket.SHUT_WR)
        assert b'"n": 1' in sock.recv(65536)


def test_an_asgi_application(lab: KernelLab, capfd: pytest.CaptureFixture[str]) -> None:
    a = lab.node("a")
    shout, broken = a.pod(app=handlers.shout), a.pod(app="tests.lab.handlers:broken")
    with lab.running():
        status, headers, body = request(shout.address, "POST", "/a%20b?c", b"hello")
        assert (status, headers["x-path"], body) == (201, "/a b", b"HELLO")
        assert request(broken.address, "GET", "/")[0] == 500
    assert (shout.counts()["methods"], broken.counts()["requests"]) == ({"POST": 1}, 1)
    assert "no such order" in capfd.readouterr().err


def test_a_raw_handler(lab: KernelLab) -> None:
    pod = lab.node("a").pod(raw=handlers.echo, port=5432)
    with lab.running():
        with connected(pod.address) as sock:
            sock.sendall(b"select 1")
            assert sock.recv(100) == b"select 1"
    assert pod.counts()["connections"] == 1


@pytest.mark.parametrize("given", ["handlers", "no.such:thing", "json:nothing", "json:__name__"])
def test_what_a_pod_cannot_import_is_refused(lab: KernelLab, given: str) -> None:
    a = lab.node("a")
    with pytest.raises(ValueError, match=r"right: app='package\.module:name'"):
        a.pod(app=given)
    with pytest.raises(ValueError, match="right: raw="):
        a.pod(raw=lambda reader, writer: None)
    assert a.pods == ()


def test_bad_pods_are_refused(lab: KernelLab) -> None:
    a = lab.node("a")
    with pytest.raises(ValueError, match="exclude each other"):
        a.pod(app=handlers.shout, raw=handlers.echo)
    for port in (0, 65536):
        with pytest.raises(ValueError, match="right: port=8080"):
            a.pod(port=port)
    a.power_off()
    with pytest.raises(RuntimeError, match="power_on"):
        a.pod()


def test_a_pod_that_dies_by_itself_is_noticed(
    lab: KernelLab, capfd: pytest.CaptureFixture[str]
) -> None:
    a = lab.node("a")
    dead = Pod(a, "x", "10.244.99.99", 80, None, None)  # not an address of this node
    dead.launch()
    with pytest.raises(RuntimeError, match="its process has ended"):
        dead.wait_ready()
    assert "Cannot assign requested address" in capfd.readouterr().err
    dead.end()
    assert not dead.running
    with pytest.raises(RuntimeError, match=r"start\(\) it first"):
        dead.freeze()
