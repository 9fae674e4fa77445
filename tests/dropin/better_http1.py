"""Where a client over outlast differs from a plain one in HTTP/1, case by case."""

from __future__ import annotations

from collections.abc import Mapping

from tests.dropin.difference import ASYNCIO, LOOPS, LUCK, SAME, THREADS, Better

__all__ = ["HTTP_1"]

LENGTH = Better(
    "own_errors",
    "h11.LocalProtocolError, 200 | POST /1 | POST /2",
    "LocalProtocolError, 200 | POST /1 | POST /2",
)
ALONE = "POST /1 | GET /2"
PAIRED = "POST /1, GET /2"

SECURED = 87  # bytes of the response that is cut off


def every_byte(error: str) -> str:
    """The same end at every byte of a response over TLS."""
    posts = [f"POST /{number}" for number in range(SECURED)]
    return " | ".join([", ".join([error] * SECURED), *posts])


HTTP_1: Mapping[str, Better] = {
    "requests-too_little_for_the_declared_length": LENGTH,
    "requests-too_much_for_the_declared_length": LENGTH,
    "requests-a_port_that_cannot_be": Better(
        "own_errors", "ExceptionGroup", "ConnectError", ASYNCIO
    ),
    "requests-websocket_schemes": Better(
        "ws", "200, 200 | GET /1 | GET /2", "200, 200 | GET /1, GET /2"
    ),
    "broken-two_responses": Better("surplus", f"200, 200 | {PAIRED}", f"200, 200 | {ALONE}"),
    "broken-bytes_after": Better(
        "surplus",
        f"200, RemoteProtocolError | {PAIRED}",
        f"200, 200 | {ALONE}",
    ),
    "broken-line_after": Better(
        "surplus",
        f"200, RemoteProtocolError | {PAIRED}",
        f"200, 200 | {ALONE}",
    ),
    "broken-body_without_content": Better("surplus", f"204, 200 | {PAIRED}", f"204, 204 | {ALONE}"),
    "broken-body_when_not_modified": Better(
        "surplus",
        f"304, RemoteProtocolError | {PAIRED}",
        f"304, 304 | {ALONE}",
    ),
    "broken-after_the_last_chunk": Better("surplus", f"200, 404 | {PAIRED}", f"200, 200 | {ALONE}"),
    "broken-a_body_for_a_head": Better(
        "surplus", "200, RemoteProtocolError | HEAD /1, GET /2", "200, 200 | HEAD /1 | GET /2"
    ),
    "broken-an_end_without_an_answer": Better(
        "repeat",
        "RemoteProtocolError, 200 | GET /0 | GET /1",
        "200, 200 | GET /0 | GET /0, GET /1",
    ),
    "broken-a_reset_without_an_answer": Better(
        "repeat", "ReadError, 200 | GET /0 | GET /1", "200, 200 | GET /0 | GET /0, GET /1"
    ),
    **dict.fromkeys(
        (
            "secure-wrong_name",
            "secure-self_signed",
            "secure-expired",
            "secure-unknown_authority",
        ),
        Better("alerts", SAME, SAME, LOOPS),
    ),
    "extensions-trace_through_a_tunnel": Better("trace", SAME, SAME),
    "extensions-a_listener_that_fails": Better(
        "trace",
        "LookupError, heard, LookupError, heard, 200 | GET /1 | GET /next",
        "LookupError, heard, LookupError, heard, 200 | nothing | GET /1 | GET /next",
    ),
    "extensions-trace_of_distrust": Better("alerts", SAME, SAME, LOOPS),
    "secure-a_name_that_is_not_there": Better("alerts", SAME, SAME, LOOPS),
    "secure-names": Better("alerts", SAME, SAME, LOOPS),
    **dict.fromkeys(
        ("secure-end_in_the_handshake", "secure-reset_in_the_handshake"),
        Better(
            "redial",
            "ConnectError, ConnectError | nothing | nothing",
            "ConnectError, ConnectError | many without a request",
        ),
    ),
    **dict.fromkeys(
        (
            "secure-alert_in_the_head",
            "secure-alert_in_the_body",
            "secure-noise_in_the_head",
            "secure-noise_in_the_body",
        ),
        Better(
            "own_errors",
            "ssl.SSLError, ssl.SSLError | GET /1 | POST /2",
            "ReadError, ReadError | GET /1 | POST /2",
            ASYNCIO,
        ),
    ),
    "secure-an_alert_for_an_answer": Better(
        "own_errors",
        "ssl.SSLError, ssl.SSLError | POST /1 | POST /2",
        "ReadError, ReadError | POST /1 | POST /2",
        ASYNCIO,
    ),
    **dict.fromkeys(
        ("uploads-reset_bytes", "uploads-reset_stream"),
        Better(
            "worlds",
            "ReadError, 200 | nothing | POST /2",
            "RemoteProtocolError, 200 | nothing | POST /2",
            ASYNCIO,
        ),
    ),
    **{
        f"secure_cuts-{how}_in_the_handshake_{version}": Better("redial", SAME, SAME)
        for how in ("end", "reset")
        for version in ("1_2", "1_3")
    },
    "secure_cuts-reset_at_every_byte": Better(
        "worlds", every_byte("RemoteProtocolError"), every_byte("ReadError"), THREADS
    ),
    "secure-client_certificate_missing": Better(
        "own_errors",
        (
            "ssl.SSLError, ReadError | nothing | nothing",
            "ReadError, ssl.SSLError | nothing | nothing",
            "ssl.SSLError, ssl.SSLError | nothing | nothing",
        ),
        "ReadError, ReadError | nothing | nothing",
        ASYNCIO,
        sometimes=True,
    ),
    **{
        f"limits-{name}_at_most": Better(
            "threads", LUCK, f"200, 200, 200, 200, 200, 200, 200, 200, {most}", THREADS
        )
        for name, most in (("one", 1), ("three", 3))
    },
    "limits-labels_that_cannot_be": Better(
        "own_errors",
        "UnicodeError, UnicodeError, UnicodeError",
        "ConnectError, ConnectError, ConnectError",
        frozenset({"threads", "trio"}),
    ),
    **dict.fromkeys(
        ("uploads-refused_and_stopped_bytes", "uploads-refused_and_stopped_stream"),
        Better("early", "WriteTimeout, 200 | POST /1 | POST /2", "413, 200 | POST /1 | POST /2"),
    ),
    **dict.fromkeys(
        ("uploads-stopped_bytes", "uploads-stopped_stream"),
        Better(
            "early",
            "WriteTimeout, 200 | nothing | POST /2",
            "RemoteProtocolError, 200 | nothing | POST /2",
        ),
    ),
}
