"""Requests: exchanges over h11, the pool of connections, the engine of a call, the transports.

A call's way: `transport` (the family's shell) -> `engine` (one call, driven by `core.call`) ->
`attempt` (one try) -> `pool` or a dial -> `connection` -> `h1` (bytes) and back.
"""
