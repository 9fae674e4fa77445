"""What two records of a case say: the same, a difference that `BETTER` has, or a fault."""

from __future__ import annotations

from tests.dropin.difference import Better
from tests.dropin.record import Record, difference

__all__ = ["judge"]


def judge(plain: Record | None, ours: Record, better: Better | None) -> str:
    """What is wrong, as a text; empty if nothing is. `plain`: None where httpx was not asked."""
    if plain is None:
        assert better is not None
        expected = f"outlast: {ours.words()}\nexpected {better.ours}"
        return "" if ours.words() == better.ours else expected
    found = difference(plain, ours)
    said = f"httpx:   {plain.words()}\noutlast: {ours.words()}\n{found}"
    if better is None:
        return said if found else ""
    if not found:
        none = f"no difference any more: take it out of BETTER\n{said}"
        return "" if better.sometimes else none
    fits = better.fits(plain.words(), ours.words())
    return "" if fits else f"another difference than BETTER has\n{said}"
