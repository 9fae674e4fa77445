"""TLS: names, chains, protocols, client certificates, and peers that break it."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import ssl
from typing import Any

from tests.dropin.authority import (
    client_certificate,
    expired,
    good,
    named,
    self_signed,
    speaking,
    wanting_client_certificate,
)
from tests.dropin.sides import Side, Upload
from tests.dropin.stage import BOUND, Handler, Peer, closing, echo, raw
from tests.dropin.table import add, case

H = b"HTTP/1.1 200 OK\r\n"
OK = H + b"content-length: 2\r\n\r\nok"


@case(echo, tls=good)
async def ordinary(side: Side) -> None:
    payload = bytes(range(256)) * 8192
    await side.get("/1")
    await side.post("/2", payload)
    await side.post("/3", Upload(payload, b"", payload))
    await side.pieces("POST", "/4", content=payload)
    await side.unread("POST", "/5", content=payload)
    await side.request("HEAD", "/6")


async def get_and_post(side: Side) -> None:
    await side.get("/1")
    await side.post("/2")


add("secure-ip_version_6", get_and_post, echo, tls=good, stage={"host": "::1"})
add("secure-wrong_name", get_and_post, echo, tls=functools.partial(named, "elsewhere.test"))
add("secure-self_signed", get_and_post, echo, tls=self_signed)
add("secure-expired", get_and_post, echo, tls=expired)
add("secure-unknown_authority", get_and_post, echo, tls=good, client={"verify": True})
add("secure-verify_off", get_and_post, echo, tls=self_signed, client={"verify": False})
add("secure-http_1_chosen", get_and_post, echo, tls=functools.partial(speaking, "http/1.1"))
add("secure-unknown_protocol", get_and_post, echo, tls=functools.partial(speaking, "spdy/1"))
add(
    "secure-http_2_not_spoken",
    get_and_post,
    echo,
    tls=functools.partial(speaking, "http/1.1"),
    client={"http2": True},
)
add(
    "secure-http_2_wanted_but_unknown",
    get_and_post,
    echo,
    tls=functools.partial(speaking, "spdy/1"),
    client={"http2": True},
)


@case(echo, tls=wanting_client_certificate)
async def client_certificate_missing(side: Side) -> None:
    """TLS 1.3 refuses after the handshake: the client has, or has not, begun to write."""
    await side.post("/1")
    await side.post("/2")


def certified() -> ssl.SSLContext:
    """As `wanting_client_certificate`, but of TLS 1.2: the refusal is part of the handshake."""
    context = wanting_client_certificate()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def tells_the_client(peer: Peer) -> None:
    assert isinstance(peer.sock, ssl.SSLSocket)
    certificate: Any = peer.sock.getpeercert()
    peer.line.said.append(str(certificate["subjectAltName"]))
    echo(peer)


add("secure-client_certificate_missing_1_2", get_and_post, echo, tls=certified)
for _name, _context in (("1_3", wanting_client_certificate), ("1_2", certified)):
    add(
        f"secure-client_certificate_{_name}",
        get_and_post,
        tells_the_client,
        tls=_context,
        client={"verify": client_certificate()},
    )


@case(echo, tls=functools.partial(named, "shop.test"))
async def another_name_asked_for(side: Side) -> None:
    other = {"sni_hostname": "shop.test"}
    await side.get("/1", extensions=other)
    await side.get("/2", extensions=other)


@case(echo, tls=good)
async def a_name_that_is_not_there(side: Side) -> None:
    await side.get("/1", extensions={"sni_hostname": "other.test"})
    await side.get("/2")


@case(echo, tls=good)
async def a_host_header_changes_no_name(side: Side) -> None:
    await side.get("/1", headers={"Host": "other.test"})


HERE = ("127.0.0.1",)


@case(echo, tls=good, names={"shop.test": HERE, "xn--bcher-kva.test": HERE})
async def names(side: Side) -> None:
    port = side.stage.port
    await side.request("GET", f"https://shop.test:{port}/1")
    await side.request("GET", f"https://SHOP.test:{port}/2")
    await side.request("GET", f"https://bücher.test:{port}/3")
    await side.request("GET", f"https://xn--bcher-kva.test:{port}/4")
    await side.request("GET", f"https://shop.test.:{port}/5")


# -- peers that break TLS --------------------------------------------------------------------


def no_tls(peer: Peer) -> None:
    peer.more()
    peer.send(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
    peer.finish()
    peer.until_closed()


async def over_https(side: Side) -> None:
    """The server's listener knows nothing of TLS: its handlers do what they do to the hello."""
    url = side.stage.url.replace("http:", "https:")
    await side.get(f"{url}/1")
    await side.post(f"{url}/2")


def alert(number: int) -> Handler:
    """Answers the hello by a fatal alert."""

    def handler(peer: Peer) -> None:
        peer.more()
        peer.send(bytes((21, 3, 3, 0, 2, 2, number)))
        peer.finish()
        peer.until_closed()

    return handler


def gone(peer: Peer) -> None:
    peer.more()
    peer.finish()
    peer.until_closed()


def reset(peer: Peer) -> None:
    peer.more()
    peer.reset()


def garbage(peer: Peer) -> None:
    peer.more()
    peer.send(b"\x16\x03\x03\xff\xff" + b"garbage" * 100)
    peer.finish()
    peer.until_closed()


for _name, _handler in {
    "plain_http_for_https": no_tls,
    "alert_handshake_failure": alert(40),
    "alert_unrecognized_name": alert(112),
    "alert_internal_error": alert(80),
    "end_in_the_handshake": gone,
    "reset_in_the_handshake": reset,
    "garbage_in_the_handshake": garbage,
}.items():
    add(f"secure-{_name}", over_https, _handler, cut=True)


@case(echo, tls=good, cut=True)
async def plain_http_to_https(side: Side) -> None:
    url = side.stage.url.replace("https:", "http:")
    await side.request("POST", f"{url}/1")


def under_tls(peer: Peer, data: bytes) -> None:
    """Send past the TLS session, on the same connection."""
    with socket.socket(fileno=os.dup(peer.sock.fileno())) as below:
        below.settimeout(BOUND)
        below.sendall(data)


def late_alert(*before: bytes) -> Handler:
    """Answers a request by this much, and then by an alert in plain text, which breaks TLS."""

    def handler(peer: Peer) -> None:
        peer.request()
        peer.send(*before)
        under_tls(peer, bytes((21, 3, 3, 0, 2, 2, 80)))
        peer.until_closed()

    return handler


def noise(*before: bytes) -> Handler:
    """Answers a request by this much, and then by bytes that are no record."""

    def handler(peer: Peer) -> None:
        peer.request()
        peer.send(*before)
        under_tls(peer, b"noise" * 20)
        peer.until_closed()

    return handler


for _name, _made in (("alert", late_alert), ("noise", noise)):
    add(f"secure-{_name}_in_the_head", get_and_post, _made(H), tls=good)
    add(f"secure-{_name}_in_the_body", get_and_post, _made(OK[:-1]), tls=good)


@case(late_alert(), tls=good)
async def an_alert_for_an_answer(side: Side) -> None:
    await side.post("/1")
    await side.post("/2")


def goodbye(peer: Peer) -> None:
    """Ends the TLS session in good order, and waits for nothing."""
    assert isinstance(peer.sock, ssl.SSLSocket)
    peer.sock.settimeout(0)
    with contextlib.suppress(OSError):  # the client has not answered yet, or is gone
        peer.sock.unwrap()
    peer.sock.settimeout(BOUND)


def leaving(answer: bytes, *, politely: bool) -> Handler:
    def handler(peer: Peer) -> None:
        peer.request()
        peer.send(answer)
        try:
            if politely:
                goodbye(peer)
            peer.finish()  # the client may be gone already
        finally:
            peer.act.signal.set()
        peer.until_closed()

    return handler


async def get_wait_post(side: Side) -> None:
    """The POST comes when the server has left."""
    await side.get("/1")
    await side.until_signal()
    await side.post("/2")


for _name, _answer in {
    "until_the_end": H + b"\r\nall of it",
    "half_of_the_length": H + b"content-length: 10\r\n\r\nhalf",
    "half_a_head": H,
    "half_a_chunk": H + b"transfer-encoding: chunked\r\n\r\n5\r\nha",
    "whole": OK,
}.items():
    add(f"secure-{_name}_closed", get_wait_post, leaving(_answer, politely=True), tls=good)
    add(f"secure-{_name}_cut_off", get_wait_post, leaving(_answer, politely=False), tls=good)


@case(raw(OK), tls=good)
async def kept_over_tls(side: Side) -> None:
    for number in range(5):
        await side.get(f"/{number}")


@case(closing(OK), tls=good)
async def ended_over_tls(side: Side) -> None:
    await side.get("/1")
