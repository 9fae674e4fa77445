"""Tests of what users write down: policies, durations, targets, origins."""
