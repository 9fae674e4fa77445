"""What is met at an endpoint, by the names that dials and calls have for it.

A base of whoever takes such news, `Service` and its dry run: what follows is theirs to say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from outlast.core.health import Fault, Rule
from outlast.net.address import Address

__all__ = ["BadNews"]


class BadNews(ABC):
    """Each kind of bad news becomes a fault. Thread-safe if `fault` is."""

    __slots__ = ()

    @abstractmethod
    def fault(
        self,
        address: Address,
        fault: Fault,
        now: float,
        dry: frozenset[Rule] = frozenset(),
        *,
        reached: bool = False,
    ) -> None:
        """Something speaks against an endpoint. `dry`: rules that only count it. `reached`: its
        node was, and so speaks for the node."""

    def silent(self, address: Address, now: float) -> None:
        """An endpoint did not answer a dial while another did."""
        self.fault(address, Fault.SILENT, now)

    def failed(self, address: Address, now: float) -> None:
        """A dial to an endpoint has reached nobody."""
        self.fault(address, Fault.CONNECT, now)

    def refused(self, address: Address, now: float) -> None:
        """A dial to an endpoint was refused: that is a living node's word."""
        self.fault(address, Fault.CONNECT, now, reached=True)

    def broken(self, address: Address, now: float) -> None:
        """A connection ended before the response began."""
        self.fault(address, Fault.RESET, now)

    def slow(self, address: Address, now: float) -> None:
        """A good answer has come later than its target's plan allows, or has not come by then."""
        self.fault(address, Fault.SLOW, now)

    def overdue(self, address: Address, now: float) -> None:
        """A response did not come in the time that the caller, or the policy, gives it."""
        self.fault(address, Fault.FIRST_BYTE, now)
