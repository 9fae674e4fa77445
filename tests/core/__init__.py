"""Tests of the decisions: exact times, and state machines that look for the unforeseen."""

from __future__ import annotations
