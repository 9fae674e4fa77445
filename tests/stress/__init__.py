"""Stress: many threads, tasks, loops and processes on one transport, servers that misbehave."""
