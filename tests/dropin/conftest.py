"""What the whole session shares."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dropin import hypercorn, real_proxies
from tests.dropin.nginx import shared


@pytest.fixture(scope="session", autouse=True)
def nginx() -> Iterator[None]:
    """The nginx that most of its cases share: begun before, and so no test's own."""
    with shared():
        yield
    hypercorn.stop()
    real_proxies.stop()
