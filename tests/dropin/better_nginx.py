"""Where a client over outlast differs from a plain one with nginx, case by case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.dropin.difference import Better

__all__ = ["NGINX"]

RESETS = ("413", "ReadError", "WriteError", "RemoteProtocolError")  # as an event loop hears of it
P = "POST /small_and_rude"
RUDELY = f"{P}/1 | {P}/2 | {P}/3, {P}/4 | POST /3"
FILE = "GET /hello.txt"


def refused(place: str) -> Better:
    """HTTP/2: nginx answers by the head and opens no window any more."""
    first, *rest = (f"POST {place}/{number}" for number in (1, 2, 3, 4))
    return Better(
        "early",
        f"ReadTimeout, 413, 200, 413 | {first} | {', '.join(rest)} | POST /3",
        f"413, 413, 200, 413 | {', '.join([first, *rest])} | POST /3",
    )


OLD = f"{FILE}, GET /up_1_1/slow"
NEW = f"POST /hello.txt, {FILE} | GET /slow"
ENDS = ("ReadError", "WriteError", "RemoteProtocolError", "LocalProtocolError")
CHANGES: Mapping[str, Better | Sequence[Better]] = {
    **dict.fromkeys(
        ("http2_killed_while_idle", "http2_reloaded_while_idle"),
        Better(
            "unseen",
            tuple(f"200, {each}, 200 | {FILE} | {FILE}" for each in ENDS),
            f"200, 405, 200 | {FILE} | POST /hello.txt, {FILE}",
        ),
    ),
    "http2_reloaded_meanwhile": Better(
        "farewell",
        (
            *(f"200, {each}, 200, 200 | {OLD} | {FILE} | GET /slow" for each in ENDS),
            *(f"200, 405, 200, {each} | {OLD} | {NEW}" for each in ENDS),
        ),
        f"200, 405, 200, 200 | {OLD} | {NEW}",
    ),
    **dict.fromkeys(
        ("plain_killed_meanwhile", "http2_killed_meanwhile"),
        Better(
            "repeat",
            f"200, 200, RemoteProtocolError | {FILE} | {FILE} | GET /slow",
            f"200, 200, 200 | {FILE} | GET /up_1_1/slow, {FILE} | GET /slow | GET /slow",
        ),
    ),
}

NGINX: Mapping[str, Better | Sequence[Better]] = {
    "nginx-nobody_upstream": Better(
        "status",
        "502, 502 | POST /nobody/1, GET /nobody/2",
        "502, 502 | POST /nobody/1, GET /nobody/2 | GET /nobody/2 | GET /nobody/2",
    ),
    "nginx-http2_ended_while_idle": Better(
        "unseen",
        tuple(f"200, {each} | {FILE}" for each in ENDS),
        f"200, 405 | {FILE} | POST /hello.txt",
    ),
    "nginx-http2_limited": Better(
        "farewell",
        "200, LocalProtocolError, 200, LocalProtocolError, 200"
        f" | {FILE}, {FILE} | {FILE}, {FILE} | {FILE}",
        f"200, 200, 200, 200, 200 | {FILE}, {FILE} | {FILE}, {FILE} | {FILE}",
    ),
    **dict.fromkeys(
        ("nginx-plain_too_large_rudely", "nginx-secure_too_large_rudely"),
        Better(
            "early",
            tuple(f"{a}, {b}, 200, {c} | {RUDELY}" for a in RESETS for b in RESETS for c in RESETS),
            f"413, 413, 200, 413 | {RUDELY}",
            sometimes=True,
        ),
    ),
    **{f"nginx_changes-{name}": each for name, each in CHANGES.items()},
    "nginx-http2_too_large": refused("/small"),
    "nginx-http2_too_large_rudely": refused("/small_and_rude"),
}
