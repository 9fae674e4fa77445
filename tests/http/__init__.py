"""Tests of the pool, the exchange, the attempts and the transports."""

from __future__ import annotations

import pytest

# The cases are shared by several test modules; their asserts should speak as a test's do.
pytest.register_assert_rewrite("tests.http.cases", "tests.http.fake_network")
