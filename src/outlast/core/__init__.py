"""Decisions. Pure machines: told `now` and what happened, they say what to do next.

Nothing in this room does I/O, reads a clock or draws from a global random generator, so every
decision of the library can be replayed exactly.
"""
