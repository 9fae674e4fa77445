"""Tests on the real kernel, in network namespaces of their own, in real time."""
