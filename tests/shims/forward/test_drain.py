"""How a forwarder ends: who is let in yet, who may finish, and who is cut."""

from __future__ import annotations

import contextlib
import threading

from outlast.shims.forward import Forwarder
from tests.shims.forward.ends import (
    PATIENCE,
    accepted,
    connect,
    deaf_server,
    ends,
    is_reset,
    read,
    refuses,
    target_of,
    until,
    upstream,
)


def test_a_drain_lets_open_connections_end_and_takes_no_more() -> None:
    with ends() as both:
        both.forwarder.drain(PATIENCE)
        until(lambda: refuses(both.forwarder))
        both.client.sendall(b"still")
        assert read(both.far, 5) == b"still"
        both.client.close()
        both.far.close()
        both.forwarder.stop(PATIENCE)
        counts = both.forwarder.counts
        assert (counts.closed, counts.cut, counts.open) == (1, 0, 0)


def test_a_drain_is_bounded_and_then_resets() -> None:
    with ends() as both:
        both.forwarder.stop(drain=0.2)
        assert is_reset(both.client)
        assert is_reset(both.far)
        assert both.forwarder.counts.cut >= 1


def test_a_second_word_ends_the_drain_at_once() -> None:
    with ends() as both:
        both.forwarder.drain(3600.0)
        both.forwarder.stop()
        assert is_reset(both.client)


def test_a_drain_ends_dials_too() -> None:
    with deaf_server() as target, Forwarder("127.0.0.1:0", target) as forwarder:
        with contextlib.closing(connect(forwarder)) as client:
            until(lambda: forwarder.counts.accepted == 1)
            forwarder.stop()
            assert is_reset(client)
            assert (forwarder.counts.cut, forwarder.counts.open) == (1, 0)


def test_who_waits_in_the_queue_is_taken_before_it_is_closed() -> None:
    with upstream() as server:
        forwarder = Forwarder("127.0.0.1:0", target_of(server))
        forwarder.open()
        with contextlib.closing(connect(forwarder)) as client:
            forwarder.drain(PATIENCE)
            thread = threading.Thread(target=forwarder.run)
            thread.start()
            with contextlib.closing(accepted(server)) as far:
                client.sendall(b"in time")
                assert read(far, 7) == b"in time"
            client.close()
            thread.join(PATIENCE)
        assert not thread.is_alive()
        assert forwarder.counts.accepted == 1


def test_timers_of_those_who_have_left_do_not_pile_up() -> None:
    with ends(idle_timeout=3600.0) as both:
        for _ in range(600):
            client = connect(both.forwarder)
            accepted(both.server).close()
            client.close()
        until(lambda: both.forwarder.counts.open == 1)
        assert both.forwarder._engine is not None
        assert len(both.forwarder._engine._timers) < 400
