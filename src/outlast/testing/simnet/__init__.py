"""The simulated network: hosts, links and TCP as the kernel has it, in virtual time."""

from __future__ import annotations
