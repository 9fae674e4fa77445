"""What failures mean and what may be repeated."""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.classify import (
    IDEMPOTENT_METHODS,
    ConnectFault,
    Progress,
    answer_fault,
    connect_fault,
    may_repeat_after_failure,
    may_repeat_after_status,
    parse_retry_after,
)
from outlast.core.health_plan import Fault

LISTED = frozenset({429, 502, 503, 504})
BOTH = [True, False]
CONSUMED = "nothing was sent, but the body was partly consumed"


def test_progress_in_words_and_in_order() -> None:
    words = ["nothing sent", "sent, no response", "response begun", "body under way"]
    assert [str(progress) for progress in sorted(Progress)] == words


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"])
def test_idempotent_methods(method: str) -> None:
    assert method in IDEMPOTENT_METHODS


@pytest.mark.parametrize("method", ["POST", "PATCH", "CONNECT", "get", "PURGE", ""])
def test_other_methods_are_not(method: str) -> None:
    assert method not in IDEMPOTENT_METHODS


# --- dials ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("ECONNREFUSED", ConnectFault.REFUSED),
        ("ECONNRESET", ConnectFault.REFUSED),
        ("ECONNABORTED", ConnectFault.REFUSED),
        ("EPIPE", ConnectFault.REFUSED),
        ("EHOSTUNREACH", ConnectFault.UNREACHABLE),
        ("EHOSTDOWN", ConnectFault.UNREACHABLE),
        ("ENETUNREACH", ConnectFault.UNREACHABLE),
        ("ENOPROTOOPT", ConnectFault.UNREACHABLE),  # an ICMP answer, linux-tcp facts 3.4
        ("ETIMEDOUT", ConnectFault.SILENT),
        ("EINVAL", ConnectFault.LOCAL),
        ("EADDRNOTAVAIL", ConnectFault.LOCAL),
        ("EACCES", ConnectFault.LOCAL),
        ("EPERM", ConnectFault.LOCAL),
        ("EMFILE", ConnectFault.LOCAL),
    ],
)
def test_the_kind_of_a_failed_dial(name: str, fault: ConnectFault) -> None:
    assert connect_fault(getattr(errno, name)) is fault


@pytest.mark.parametrize("code", [None, 0, -2, 99_999])
def test_what_is_not_known_is_this_machines_own_refusal(code: int | None) -> None:
    assert connect_fault(code) is ConnectFault.LOCAL


def test_which_faults_another_port_may_cure() -> None:
    worth = {fault for fault in ConnectFault if fault.worth_another_port}
    assert worth == {ConnectFault.REFUSED, ConnectFault.UNREACHABLE, ConnectFault.SILENT}


# --- repeating --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("progress", "safe", "replayable", "repeat", "why"),
    [
        (Progress.NOT_SENT, True, True, True, "nothing was sent"),
        (Progress.NOT_SENT, False, True, True, "nothing was sent"),
        (
            Progress.NOT_SENT,
            True,
            False,
            False,
            "nothing was sent, but the body was partly consumed",
        ),
        (
            Progress.NOT_SENT,
            False,
            False,
            False,
            "nothing was sent, but the body was partly consumed",
        ),
        (Progress.SENT, True, True, True, "idempotent and unanswered"),
        (Progress.SENT, True, False, False, "the body cannot be replayed"),
        (Progress.SENT, False, True, False, "not idempotent and maybe sent"),
        (Progress.SENT, False, False, False, "not idempotent and maybe sent"),
    ],
)
def test_repeating_after_a_failure(
    progress: Progress, safe: bool, replayable: bool, repeat: bool, why: str
) -> None:
    verdict = may_repeat_after_failure(progress, safe=safe, replayable=replayable)
    assert (verdict.repeat, verdict.why) == (repeat, why)


@pytest.mark.parametrize("progress", [Progress.RESPONSE_BEGUN, Progress.BODY])
@pytest.mark.parametrize("safe", BOTH)
@pytest.mark.parametrize("replayable", BOTH)
def test_a_response_that_has_begun_is_never_repeated(
    progress: Progress, safe: bool, replayable: bool
) -> None:
    verdict = may_repeat_after_failure(progress, safe=safe, replayable=replayable)
    assert (verdict.repeat, verdict.why) == (False, "the response had begun")


@pytest.mark.parametrize(
    ("status", "safe", "replayable", "repeat", "why"),
    [
        (200, True, True, False, "an answer"),
        (500, True, True, False, "an answer"),
        (503, True, True, True, "status 503"),
        (503, False, True, False, "status 503, but not idempotent"),
        (503, True, False, False, "status 503, but the body cannot be replayed"),
        (429, False, False, False, "status 429, but not idempotent"),
    ],
)
def test_repeating_after_a_status(
    status: int, safe: bool, replayable: bool, repeat: bool, why: str
) -> None:
    verdict = may_repeat_after_status(status, listed=LISTED, safe=safe, replayable=replayable)
    assert (verdict.repeat, verdict.why) == (repeat, why)


# --- Retry-After ------------------------------------------------------------------------------

NOV_6 = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110 section 5.6.7


@pytest.fixture(params=["UTC", "Asia/Kathmandu", "America/New_York"])
def zone(request: pytest.FixtureRequest) -> Iterator[None]:
    """The machine stands somewhere else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("120", 120.0),
        ("  7 \t", 7.0),
        ("0010", 10.0),
        ("9" * 400, math.inf),
        ("", None),
        ("   ", None),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("1e3", None),
        ("٣", None),
        ("²", None),
        ("soon", None),
    ],
)
def test_retry_after_in_seconds(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, 0.0) == seconds


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(
    "date",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",  # RFC 850
        "Sun Nov  6 08:49:37 1994",  # asctime, which is in GMT too
        "Sun, 06 Nov 1994 08:49:37 -0000",
        "Sun, 06 Nov 1994 09:49:37 +0100",
    ],
)
def test_retry_after_as_a_date_wherever_the_machine_stands(date: str) -> None:
    assert parse_retry_after(date, NOV_6 - 30.0) == 30.0
    assert parse_retry_after(date, NOV_6 + 30.0) == 0.0


@pytest.mark.parametrize(
    "date",
    [
        "Sun, 99 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 06 Nov 99999999999999999999 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 +9999999999999",
        ", , ,",
    ],
)
def test_a_date_that_is_none_asks_for_nothing(date: str) -> None:
    assert parse_retry_after(date, 0.0) in (None, 0.0)


WORDS = ["Sun,", "Sunday,", "Nov", "06", "94", "1994", "08:49:37", "GMT", "-", "+", "-0000"]
WORDS += [
    "+9999",
    "-2359",
    "25:61",
    "8.49",
    "-06-Nov-94",
    "31",
    "Feb",
    "0",
    ",",
    ":",
    "(",
    "T",
    "am",
]


@given(st.one_of(st.text(max_size=40), st.lists(st.sampled_from(WORDS)).map(" ".join)))
def test_whatever_a_server_says_is_a_wait_or_nothing(value: str) -> None:
    wait = parse_retry_after(value, NOV_6)
    assert wait is None or wait >= 0.0


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        *((200, None), (404, None), (429, None), (499, None)),
        *((500, Fault.ERROR), (501, Fault.ERROR), (502, Fault.GATEWAY)),
        *((503, Fault.GATEWAY), (504, Fault.GATEWAY), (505, Fault.ERROR)),
    ],
)
def test_what_a_status_tells_against_the_endpoint(status: int, fault: Fault | None) -> None:
    assert answer_fault(status) is fault
