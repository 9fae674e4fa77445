"""The invariants can be broken: a library with a defect is found out, and the finding is small.

Each defect is one that somebody might build in; the incidents are those of the suite.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import h11
import httpx
import pytest

import outlast.core.call
import outlast.http.shell
import outlast.net.dial
from outlast.core.budget import RedialBucket, RetryBudget
from outlast.core.call import Call
from outlast.core.classify import Progress, Verdict
from outlast.core.deadline import Deadline
from outlast.core.race import Race
from outlast.http.engine import Engine
from outlast.http.h1 import H1Exchange
from outlast.http.h2_session import H2Session
from outlast.http.message import BytesBody, StreamBody
from outlast.net.race_driver import _Driver as Racer
from outlast.testing.simnet.stream import SimStream
from tests.fire.incident import Ask, Incident, draw, read
from tests.fire.report import account, breaches, differences, number_of
from tests.fire.shrink import shrink

Patch = pytest.MonkeyPatch
MANY = 300  # incidents that may go by before a defect is found

pytestmark = pytest.mark.filterwarnings("ignore:Async generator .* was garbage collected")


def repeats_all(patch: Patch) -> None:
    """What was sent is sent again, whatever it is."""

    def may(progress: Progress, *, safe: bool, replayable: bool) -> Verdict:
        return Verdict(progress < Progress.BODY and replayable, "why not")

    patch.setattr(outlast.core.call, "may_repeat_after_failure", may)


def forgets_the_deadline(patch: Patch) -> None:
    patch.setattr(Deadline, "earlier", lambda deadline, other: deadline)


def keeps_places(patch: Patch) -> None:
    """A dial that fails keeps its place in the pool."""
    patch.setattr(Engine, "free_place", lambda *_: None)


def leaves_sockets_open(patch: Patch) -> None:
    """A connection that nobody wants is not closed."""
    patch.setattr(Racer, "_discard", lambda *_, **__: None)


def suspects_nobody(patch: Patch) -> None:
    """The kernel's word on a connection is not heard."""
    patch.setattr(SimStream, "state", lambda _: None)


def waits_for_the_first_dial(patch: Patch) -> None:
    """A dial is not raced."""
    patch.setattr(outlast.net.dial, "attempt_delay", lambda _: 10.0)


def counts_nothing(patch: Patch) -> None:
    """Attempts are not counted."""
    patch.setattr(Call, "written", lambda _: None)


def has_no_budget(patch: Patch) -> None:
    patch.setattr(RetryBudget, "take", lambda *_: True)


def dials_without_end(patch: Patch) -> None:
    """A race has room for any number of dials."""
    patch.setattr(Race, "_full", lambda _: False)


def dials_for_nothing(patch: Patch) -> None:
    """The re-dial bucket is never empty."""
    patch.setattr(RedialBucket, "take", lambda *_: True)


def keeps_what_is_unfinished(patch: Patch) -> None:
    """A connection is used again though its answer is still to come."""

    def leave(exchange: H1Exchange) -> bool:
        exchange._h11 = h11.Connection(h11.CLIENT)
        return True

    patch.setattr(H1Exchange, "leave", leave)
    patch.setattr(Engine, "discard", Engine.release)


def floods_the_server(patch: Patch) -> None:
    """HTTP/2: more streams at once than the server takes."""
    patch.setattr(H2Session, "_takes_one", lambda _: True)


def streams_every_body(patch: Patch) -> None:
    """In an event loop a body that stands in memory is taken for one that can be sent but once."""

    def body(request: httpx.Request, _family: Any) -> BytesBody | StreamBody:
        pieces = [request.content] if request.method == "PUT" else []

        async def pull() -> bytes | None:
            return pieces.pop() if pieces else None

        async def end() -> None:
            return

        return StreamBody(pull, end) if pieces else BytesBody(request.content)

    patch.setattr(outlast.http.shell, "async_body", body)


# A defect, how the breach that it leads to begins (the invariant's number), and about where in the
# suite.
DEFECTS: list[tuple[Callable[[Patch], None], str, int]] = [
    (repeats_all, "1:", 0),
    (forgets_the_deadline, "2:", 0),
    (keeps_places, "3:", 0),
    (leaves_sockets_open, "3:", 0),
    (suspects_nobody, "4:", 0),
    (waits_for_the_first_dial, "4:", 0),
    (counts_nothing, "5:", 0),
    (has_no_budget, "5:", 220),
    (dials_without_end, "5: race", 35),
    (dials_for_nothing, "5: bucket", 35),
    (streams_every_body, "6:", 0),
    (keeps_what_is_unfinished, "7:", 0),
    (floods_the_server, "8:", 200),
]


@pytest.mark.parametrize(("defect", "told", "first"), DEFECTS)
def test_a_defect_is_found_out(
    defect: Callable[[Patch], None], told: str, first: int, monkeypatch: Patch
) -> None:
    defect(monkeypatch)
    for seed in range(first, first + MANY):
        incident = draw(seed)
        found = differences(incident) if told == "6:" else breaches(incident)[0]
        if any(breach.startswith(told) for breach in found):
            return
    pytest.fail(f"{MANY} incidents have gone by")


def test_what_is_found_is_told_in_few_words(monkeypatch: Patch) -> None:
    repeats_all(monkeypatch)
    incident = next(one for one in map(draw, range(MANY)) if breaks(one, "1"))
    text = account(incident, breaches(incident)[0])
    assert f"python -m tests.fire --seed {incident.seed}" in text
    found = re.search(r'python -m tests.fire "(.*)"', text)
    assert found is not None
    small = read(found[1])
    assert breaks(small, "1")
    assert sum(map(len, small.asks)) <= 3
    assert len(small.blows) <= 1
    assert len(found[1]) < 300


def breaks(incident: Incident, number: str) -> bool:
    """Whether it breaks an invariant."""
    return number in map(number_of, breaches(incident)[0])


def test_an_incident_is_its_text() -> None:
    for seed in range(20):
        assert read(repr(draw(seed))) == draw(seed)
    with pytest.raises(ValueError, match="no incident; right: Incident"):
        read("Ask()")


def test_shrinking_ends() -> None:
    """Also where everything fails: then nothing is left."""
    assert shrink(draw(0), lambda _: True, most=5000) == Incident(asks=((Ask(),),))
    assert shrink(draw(0), lambda _: False) == draw(0)
