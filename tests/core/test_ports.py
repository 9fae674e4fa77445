"""Local ports that lead nowhere: for how long, on whose evidence, and how many are remembered."""

from __future__ import annotations

from outlast.core.ports import LIFE, MOST_ADDRESSES, MOST_PORTS, SilentPorts


def silent(*marks: tuple[str, int, float]) -> SilentPorts:
    """Those that were left silent at these moments."""
    ports = SilentPorts()
    for address, port, at in marks:
        ports.silent(address, port, at)
    return ports


def test_nothing_is_known_at_first() -> None:
    ports = SilentPorts()
    ports.answered("v", 1.0)
    assert not ports
    assert not ports.leads_nowhere("v", 40_000, 2.0)


def test_a_silent_port_leads_nowhere_once_another_was_answered() -> None:
    ports = silent(("v", 40_000, 1.0))
    assert ports
    assert not ports.leads_nowhere("v", 40_000, 1.5)  # all of it may be silent
    ports.answered("v", 2.0)
    assert ports.leads_nowhere("v", 40_000, 2.5)
    assert not ports.leads_nowhere("v", 40_002, 2.5)
    assert not ports.leads_nowhere("w", 40_000, 2.5)


def test_an_answer_of_before_or_of_another_address_is_no_evidence() -> None:
    ports = silent(("v", 40_000, 1.0), ("w", 50_000, 3.0))
    ports.answered("v", 1.0)
    ports.answered("w", 2.0)
    assert not ports.leads_nowhere("v", 40_000, 4.0)
    assert not ports.leads_nowhere("w", 50_000, 4.0)


def test_it_is_over_after_two_minutes_without_a_further_dial() -> None:
    ports = silent(("v", 40_000, 0.0), ("v", 40_002, 0.0))
    ports.silent("v", 40_000, 100.0)
    ports.answered("v", 101.0)
    assert ports.leads_nowhere("v", 40_002, LIFE - 0.1)
    assert not ports.leads_nowhere("v", 40_002, LIFE)
    assert ports.leads_nowhere("v", 40_000, LIFE + 99.9)
    assert not ports.leads_nowhere("v", 40_000, LIFE + 100.0)


def test_old_ports_are_forgotten_when_others_come() -> None:
    ports = silent(("v", 1, 0.0), ("v", 2, 1.0), ("v", 1, 2.0), ("v", 3, LIFE + 1.0))
    assert list(ports._addresses["v"].since) == [1, 3]


def test_no_more_ports_are_remembered_than_that() -> None:
    ports = silent(*(("v", port, 1.0) for port in range(MOST_PORTS + 2)))
    assert len(ports._addresses["v"].since) == MOST_PORTS
    ports.answered("v", 2.0)
    assert not ports.leads_nowhere("v", 1, 3.0)
    assert ports.leads_nowhere("v", 2, 3.0)


def test_no_more_addresses_are_remembered_than_that() -> None:
    names = [f"v{number}" for number in range(MOST_ADDRESSES)]
    ports = silent(*((name, 40_000, 1.0) for name in names))
    ports.silent("v0", 40_002, 2.0)  # silent of late: it stays
    ports.silent("another", 40_000, 3.0)
    for name in [*names, "another"]:
        ports.answered(name, 4.0)
    known = [name for name in [*names, "another"] if ports.leads_nowhere(name, 40_000, 5.0)]
    assert known == [name for name in [*names, "another"] if name != "v1"]
