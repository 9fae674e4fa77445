"""Two endpoints of one node, silent within a second: the node."""

from __future__ import annotations

import pytest

from outlast.core.nodes import NodeEvidence

NOW = 1000.0


@pytest.mark.parametrize(
    ("dials", "dead"),
    [
        ([("a", "1", 0.0)], [False]),
        ([("a", "1", 0.0), ("a", "1", 0.1), ("a", "1", 0.2)], [False] * 3),
        ([("a", "1", 0.0), ("a", "2", 0.0)], [False, True]),
        ([("a", "1", 0.0), ("a", "2", 1.0)], [False, True]),
        ([("a", "1", 0.0), ("a", "2", 1.1)], [False, False]),
        ([("a", "1", 0.0), ("a", "1", 0.9), ("a", "2", 1.5)], [False, False, True]),
        ([("a", "1", 0.0), ("b", "2", 0.0)], [False, False]),
        ([("a", "1", 0.0), ("a", "2", 0.1), ("a", "3", 0.2)], [False, True, True]),
        ([("", "1", 0.0), ("", "2", 0.0)], [False, False]),  # of unknown nodes
    ],
)
def test_two_together_are_the_node(dials: list[tuple[str, str, float]], dead: list[bool]) -> None:
    nodes: NodeEvidence[str] = NodeEvidence()
    assert [nodes.failed(node, key, NOW + at) for node, key, at in dials] == dead


def test_a_node_that_speaks_is_alive() -> None:
    nodes: NodeEvidence[str] = NodeEvidence()
    nodes.failed("a", "1", NOW)
    nodes.answered("a", NOW + 0.1)
    assert not nodes.failed("a", "2", NOW + 0.2)
    assert nodes.failed("a", "1", NOW + 0.3)
    nodes.answered("b", NOW + 0.4)
    nodes.answered("", NOW + 0.4)
    assert nodes.failed("a", "2", NOW + 0.5)


def test_what_began_before_the_node_was_heard_says_nothing() -> None:
    nodes: NodeEvidence[str] = NodeEvidence()
    nodes.answered("a", NOW + 0.1)
    assert not nodes.failed("a", "1", NOW + 0.3, began=NOW)
    assert not nodes.failed("a", "2", NOW + 0.3, began=NOW + 0.2)  # the first that counts
    assert not nodes.failed("a", "1", NOW + 0.4, began=NOW + 0.1)
    assert nodes.failed("a", "1", NOW + 0.5, began=NOW + 0.2)


def test_nodes_that_are_gone_are_forgotten() -> None:
    nodes: NodeEvidence[str] = NodeEvidence()
    nodes.failed("a", "1", NOW)
    nodes.failed("b", "2", NOW)
    nodes.answered("c", NOW)
    nodes.keep({"b"})
    assert not nodes.failed("a", "3", NOW)
    assert nodes.failed("b", "3", NOW)
    assert not nodes.failed("c", "1", NOW)
    assert nodes.failed("c", "2", NOW)
