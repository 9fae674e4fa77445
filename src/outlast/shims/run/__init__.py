"""`outlast run`: any Linux program's connects are made by this library, from outside of it.

A seccomp filter tells a supervisor of every connect(2) that the program begins; the supervisor
dials with the race, health and options of this library. `supervisor` is the room's centre; see
docs/run.md for the whole picture.
"""
