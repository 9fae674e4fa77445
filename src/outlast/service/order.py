"""The endpoints of one attempt, the picked one first; the others are put in order when asked for.

Nearly every attempt asks for the first alone: then nothing depends on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from outlast.core.endpoint import Endpoint
from outlast.net.address import Address

__all__ = ["Order"]


class Order(Sequence[Address]):
    """As a list of addresses. One owner; not thread-safe."""

    __slots__ = ("_all", "_ask", "_first", "_size", "trial")

    def __init__(
        self,
        first: Address,
        size: int,
        ask: Callable[[], Sequence[Address]],
        trial: Endpoint[Address] | None,
    ) -> None:
        self._first = first
        self._size = size
        self._ask = ask
        self._all: Sequence[Address] | None = None
        self.trial = trial  # the first, if it is out and this attempt finds out how it is

    def _whole(self) -> Sequence[Address]:
        if self._all is None:
            self._all = self._ask()
        return self._all

    def __len__(self) -> int:
        return self._size if self._all is None else len(self._all)

    @overload
    def __getitem__(self, index: int) -> Address: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Address]: ...
    def __getitem__(self, index: int | slice) -> Address | Sequence[Address]:
        if index == 0:
            return self._first
        if index == FIRST:
            return (self._first,)
        return self._whole()[index]

    def __iter__(self) -> Iterator[Address]:
        yield self._first
        for address in self._whole():
            if address != self._first:
                yield address


FIRST = slice(None, 1)
