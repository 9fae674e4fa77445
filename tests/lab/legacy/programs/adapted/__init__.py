"""The same programs with the adapter of their library: the one change is how they connect."""

from __future__ import annotations
