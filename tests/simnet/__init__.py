"""Tests of the simulated network: its timeline, its drivers, its face."""
