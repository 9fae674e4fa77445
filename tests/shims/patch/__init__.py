"""Tests of `outlast.install()`."""
