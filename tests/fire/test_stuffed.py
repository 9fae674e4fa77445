"""A machine dies behind a window that it had closed: what the caller of an upload hears."""

from __future__ import annotations

import httpx
import pytest

import outlast
from tests.fire.worlds import URL, cluster, pods_of, report


def test_it_is_given_up_after_the_user_timeout() -> None:
    """By probes that nothing answers, after as long as the user timeout; the kernel itself would
    wait until its next probe is due, twice as long."""
    net = cluster(1)
    (pod,) = pods_of(net)
    pod.freeze()
    net.at(2.0, net.nodes["a"].power_off)
    with net.running(), httpx.Client(transport=outlast.Transport(network=net)) as client:
        with pytest.raises(
            httpx.ReadError, match=r"is dead: \d probes of its closed window"
        ) as caught:
            client.post(URL, content=bytes(20_000_000), timeout=None)
        assert net.elapsed() - 2.0 < 12.0
    assert "not idempotent and maybe sent" in str(report(caught.value))
