"""One connection: socket options, dialling, streams, liveness; and the seam to the network.

The seam (`seam.py`) is everything this library waits by. The kernel is its first implementation
(`kernel.py`). Engine code above is written once, as coroutines that await nothing but `Wait`;
`run.py` drives them in a thread or in an event loop.
"""
