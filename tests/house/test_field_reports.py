"""Reports from the field are tests that go by their ids, so that each can be found and run.

Here those about hanging connects, dead peers, idle connections and HTTP/2; retries, storms and
balance; proxies and TLS, cancellation, leaks and exhausted pools, fork and threads; node ports;
what is observed. (Other loops, 63 and 64, are a file of their own in tests/net.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.house.sources import Source, functions, made_up, suite

REPORTS = (*range(1, 50), *range(51, 63), *range(65, 83))


def untold(sources: Iterable[Source]) -> set[int]:
    """The reports that no test, and no case of a table, is named after."""
    names = (function.name for source in sources for function in functions(source))
    told = {int(number) for name in names for number in re.findall(r"(?:^|_)fr(\d+)", name)}
    return set(REPORTS) - told


def test_every_report_has_a_test_of_its_name() -> None:
    assert untold(suite()) == set()


def test_a_report_without_a_test_is_noticed() -> None:
    text = "async def fr65_a_case(): ...\ndef test_fr66_fr68_two(): ...\ndef offr67(): ...\n"
    assert untold([made_up(text)]) == set(REPORTS) - {65, 66, 68}
