"""What outlast costs when nothing is wrong, beside the clients that people use today.

`python -m benchmarks.speed` measures and writes a report (see `__main__`). Nothing here is a test:
timings do not pass or fail, they are printed with the bound that the project has set itself.
"""
