"""When a connection was heard from last: what its kernel says, not when its answer was read.

An answer that lies in the client's own buffers may be read long after its machine has died.
"""

from __future__ import annotations

import httpx
import pytest

import outlast
from outlast.testing import SimNet
from tests.fire.worlds import URL, cluster, report


@pytest.mark.parametrize("size", [10, 50_000])
def test_an_answer_that_is_read_late_says_nothing_of_its_machine_now(size: int) -> None:
    """It is read ten seconds after it has come; meanwhile the machine has lost power. A POST right
    after it must not go out on that connection."""
    net: SimNet = cluster(2)
    with net.running(), httpx.Client(transport=outlast.Transport(network=net)) as client:
        with client.stream("GET", f"{URL}?size={size}") as answer:
            net.sleep(1.0)
            holder = next(n for n in net.nodes.values() if n.pods[0].counts()["requests"])
            holder.power_off()
            net.sleep(9.0)
            assert len(answer.read()) == size
        begun = net.elapsed()
        posted = client.post(URL)
        assert posted.status_code == 200
        assert net.elapsed() - begun < 0.5
    assert "not trusted" in str(report(posted))


def test_a_slow_answer_that_has_just_come_is_word_enough() -> None:
    """One look at the socket, and no probe."""
    net = cluster(1)
    with net.running(), httpx.Client(transport=outlast.Transport(network=net)) as client:
        client.get(f"{URL}?delay=3")
        begun = net.elapsed()
        posted = client.post(URL)
        assert net.elapsed() - begun < 0.002
    assert [event.what for event in report(posted)] == ["reused"]
