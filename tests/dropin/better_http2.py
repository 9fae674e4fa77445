"""Where a client over outlast differs from a plain one in HTTP/2, case by case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.dropin.difference import LUCK, SAME, THREADS, Better

__all__ = ["HTTP_2"]

LOCAL, REMOTE = "LocalProtocolError", "RemoteProtocolError"
ENDS = (LOCAL, REMOTE, "ReadError", "WriteError")  # what httpx may take the same end for


def blamed(*plain: str) -> Better:
    """httpx blames the caller for what the peer did, or lets h2's own error out."""
    alone = "POST /1 | POST /2"
    found = plain or (f"{LOCAL}, {LOCAL}",)
    return Better(
        "blame", tuple(f"{each} | {alone}" for each in found), f"{REMOTE}, {REMOTE} | {alone}"
    )


WRONG = (
    *("data_on_stream_0", "data_before_the_head", "data_on_an_unknown_stream", "broken_hpack"),
    *("continuation_missing", "continuation_of_nothing", "short_settings"),
    *("settings_on_a_stream", "window_too_large", "window_of_nothing", "unwanted_push"),
    *("short_ping", "short_farewell"),
)
AMID = "200, 200, 200 | GET /0, POST /a, POST /a | POST /a"
STAYED = "POST /1, POST /2"


def shared(ours: str) -> Better:
    """httpx changes h2's state from several threads without a lock: anything may come of it."""
    return Better("shared", LUCK, ours, THREADS)


def crowd(count: int) -> str:
    posts = ", ".join(sorted(f"POST /{number}" for number in range(count)))
    return f"{', '.join(['200'] * (count + 1))} | GET /first, {posts}"


def uploads(count: int) -> str:
    posts = ", ".join(sorted(f"POST /echo/{number}" for number in range(count)))
    return f"{', '.join(['200'] * (count + 1))} | GET /echo/first, {posts}"


BROKEN: Mapping[str, Better | Sequence[Better]] = {
    **dict.fromkeys(WRONG, blamed()),
    "frame_too_large": blamed("h2.FrameTooLargeError, h2.FrameTooLargeError"),
    "padding_too_long": blamed(
        f"{LOCAL}, {LOCAL}",
        f"{LOCAL}, h2.ProtocolError",
        "h2.ProtocolError, h2.ProtocolError",
        f"h2.ProtocolError, {LOCAL}",
    ),
    **dict.fromkeys(
        ("length_too_small", "length_too_large"),
        blamed(
            f"{LOCAL}, {LOCAL}",
            f"{LOCAL}, h2.InvalidBodyLengthError",
            f"h2.InvalidBodyLengthError, {LOCAL}",
            "h2.InvalidBodyLengthError, h2.InvalidBodyLengthError",
        ),
    ),
    "no_status": Better("no_status", f"200, 200 | {STAYED}", f"{REMOTE}, {REMOTE} | {STAYED}"),
    "status_in_words": Better(
        "no_status", f"ValueError, ValueError | {STAYED}", f"{REMOTE}, {REMOTE} | {STAYED}"
    ),
    "reset_refused_stream": Better(
        "unprocessed",
        f"{REMOTE}, 200, {REMOTE} | POST /1, GET /2, POST /3",
        f"{REMOTE}, 200, {REMOTE} | POST /1 | POST /1 | POST /1, GET /2, POST /3"
        " | POST /3 | POST /3",
    ),
    "refused_once": Better(
        "unprocessed", f"{REMOTE}, 200 | POST /1, GET /2", "200, 200 | POST /1 | POST /1, GET /2"
    ),
    "an_answer_before_the_body": Better(
        "early",
        ("ReadTimeout, 413 | POST /1 | GET /2", f"{LOCAL}, 413 | POST /1, GET /2"),
        "413, 413 | POST /1, GET /2",
    ),
    "a_request_that_cannot_be": Better(
        "spoiled", f"200, {LOCAL}, {REMOTE} | GET /1", f"200, {LOCAL}, 200 | GET /1 | GET /3"
    ),
    "the_callers_code_fails": Better("reset", SAME, SAME),
    "left_unread": Better("reset", SAME, SAME),
    "read_timeout": Better(
        "reset",
        "ReadTimeout, 200, 200 | GET /ok, GET /mute | GET /ok",
        "ReadTimeout, 200, 200 | GET /ok, GET /mute, GET /ok",
    ),
    "read_timeout_in_the_body": Better(
        "reset", "ReadTimeout, 200 | GET /half | GET /ok", "ReadTimeout, 200 | GET /half, GET /ok"
    ),
    "write_timeout": Better(
        "window",
        ("200, ReadTimeout | GET /1, POST /2", f"200, {LOCAL} | GET /1, POST /2"),
        "200, WriteTimeout | GET /1, POST /2",
    ),
    "a_window_that_shrinks": Better(
        "window",
        (f"200, {LOCAL} | GET /1, POST /2", "200, ReadTimeout | GET /1, POST /2"),
        "200, 200 | GET /1, POST /2",
        families=frozenset({"httpx"}),
    ),
}

LEAVING: Mapping[str, Better | Sequence[Better]] = {
    **dict.fromkeys(
        ("left_before_the_first", "left_before_the_first_open"),
        Better(
            "unprocessed",
            f"{REMOTE}, 200 | POST /1 | GET /2",
            "200, 200 | POST /1 | POST /1, GET /2",
        ),
    ),
    **dict.fromkeys(
        (
            "left_with_the_first",
            "left_with_the_first_open",
            "left_beyond_all",
            "left_beyond_all_open",
        ),
        Better(
            "farewell",
            (f"{LOCAL}, 200 | POST /1 | GET /2", f"{REMOTE}, 200 | POST /1 | GET /2"),
            "200, 200 | POST /1 | GET /2",
        ),
    ),
    "left_while_idle": Better(
        "unseen",
        (
            *(f"200, {each} | POST /1" for each in ENDS),
            *(f"200, {each} | POST /1, POST /2" for each in ENDS),
            "200, 200 | POST /1, POST /2 | POST /2",
        ),
        "200, 200 | POST /1 | POST /2",
        sometimes=True,
    ),
    "left_amid_streams": (
        shared(AMID),
        Better(
            "farewell",
            (
                *(f"200, {a}, {b} | GET /0, POST /a, POST /a" for a in ENDS for b in ENDS),
                *(f"200, {each}, 200 | GET /0, POST /a, POST /a | POST /a" for each in ENDS),
            ),
            AMID,
        ),
    ),
    "an_end_without_an_answer": Better(
        "repeat", f"200, {REMOTE} | GET /1, GET /2", "200, 200 | GET /1, GET /2 | GET /2"
    ),
    "a_reset_without_an_answer": Better(
        "repeat", "200, ReadError | GET /1, GET /2", "200, 200 | GET /1, GET /2 | GET /2"
    ),
}

ONE = (
    *(LOCAL, "h2.ProtocolError", "h2.FlowControlError", "h2.FrameDataMissingError"),
    "h2.InvalidSettingsValueError",
)
FLOW: Mapping[str, Better | Sequence[Better]] = {
    **{
        f"{name}{when}": blamed(*(f"{a}, {b}" for a in ONE for b in ONE))
        for name in (
            *("nothing_for_all", "nothing_for_one", "too_much_for_all", "too_much_in_two_steps"),
            *("too_large_from_the_start", "too_large_by_settings", "half_an_increment"),
            "reserved_bit",
        )
        for when in ("", "_after_the_head")
    },
    "beyond_the_window": Better(
        "blame",
        f"200, {REMOTE}, {LOCAL} | GET /flood, POST /next | POST /after",
        f"200, {REMOTE}, {REMOTE} | GET /flood, POST /next | POST /after",
    ),
}

HYPERCORN: Mapping[str, Better | Sequence[Better]] = {
    "http2_shut_down_while_idle": Better(
        "unseen",
        tuple(f"200, {each}, 200 | POST /echo/1 | GET /echo/3" for each in ENDS),
        "200, 200, 200 | POST /echo/1 | POST /echo/2, GET /echo/3",
        sometimes=True,
    ),
    "http2_shut_down_meanwhile": Better(
        "unseen",
        tuple(f"200, {each}, 200 | GET /echo/1, GET /steps/2" for each in ENDS),
        "200, 200, 200 | GET /echo/1, GET /steps/2 | POST /echo/3",
        sometimes=True,
    ),
}

HTTP_2: Mapping[str, Better | Sequence[Better]] = {
    **{f"http2_broken-{name}": each for name, each in BROKEN.items()},
    **{f"http2_leaving-{name}": each for name, each in LEAVING.items()},
    **{f"http2_flow-{name}": each for name, each in FLOW.items()},
    "extensions-trace_of_settings": Better("trace", "200, True | GET /1", "200, False | GET /1"),
    **{f"hypercorn-{name}": each for name, each in HYPERCORN.items()},
    "hypercorn-http2_crowd": shared(uploads(40)),
    "hypercorn-http2_crowd_of_uploads": shared(uploads(8)),
    "http2-ten_streams": shared(crowd(10)),
    "http2-many_streams": shared(crowd(60)),
    **{f"http2-{most}_at_most": shared(", ".join(["200"] * 9)) for most in (1, 3)},
}
