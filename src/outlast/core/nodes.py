"""What dials say of nodes: two endpoints of one node that are silent together are one dead node.

A pod that does not answer may be alone in that; two of the same node within a second seldom are
(peers, section 4, point 5). Then the node's other endpoints are asked last before anybody has
paid for asking them. Counts silence and "unreachable" only: a refused dial is the word of a living
kernel, and so is an answer, and either speaks for the node. Refuses to guess: an endpoint whose
node is not known is nobody's neighbour. Not thread-safe.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Generic, TypeVar

__all__ = ["NodeEvidence"]

TOGETHER = 1.0  # seconds; DESIGN asks for "together", peers 4.5 for "within a second"

K = TypeVar("K")


class NodeEvidence(Generic[K]):
    """Which nodes have gone silent, by the dials to their endpoints."""

    __slots__ = ("_alive", "_silent")

    def __init__(self) -> None:
        self._alive: dict[str, float] = {}  # when it was heard last
        self._silent: dict[str, tuple[K, float]] = {}  # which endpoint failed last, and when

    def failed(self, node: str, key: K, now: float, *, began: float | None = None) -> bool:
        """A dial to `key` on `node` met silence. True: the node's other endpoints are as dead.

        `began`: when the dial did; a node that was heard after that is alive. None: as `now`.
        """
        if not node or self._alive.get(node, -math.inf) >= (now if began is None else began):
            return False
        other = self._silent.get(node)
        self._silent[node] = key, now
        return other is not None and other[0] != key and now - other[1] <= TOGETHER

    def answered(self, node: str, now: float) -> None:
        """An endpoint on `node` was heard: it connected, answered, or refused."""
        if node:
            self._alive[node] = now
            self._silent.pop(node, None)

    def keep(self, nodes: Collection[str]) -> None:
        """Forget the nodes that are not among `nodes`."""
        for known in (self._alive, self._silent):
            for node in known.keys() - set(nodes):
                del known[node]
