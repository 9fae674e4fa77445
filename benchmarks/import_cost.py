"""What `import outlast` adds to `import httpx`, in fresh interpreters, rounds alternating.

Run: python benchmarks/import_cost.py [rounds]
"""

from __future__ import annotations

import statistics
import subprocess
import sys

PROGRAM = """
import time
import httpx
begin = time.perf_counter()
{code}
print(time.perf_counter() - begin)
"""
CASES = {
    "nothing": "pass",
    "import outlast": "import outlast",
    "and outlast.Transport()": "import outlast; outlast.Transport()",
}


def measure(code: str) -> float:
    """Milliseconds that `code` takes after `import httpx`."""
    program = PROGRAM.format(code=code)
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return float(run.stdout) * 1e3


def main(rounds: int) -> None:
    """Print median and spread of each case."""
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(rounds + 1):  # the first round compiles
        for name, code in CASES.items():
            times[name].append(measure(code))
    for name, found in times.items():
        counted = sorted(found[1:])
        print(
            f"{name:<26} median {statistics.median(counted):6.1f} ms   "
            f"min {counted[0]:6.1f}   max {counted[-1]:6.1f}   ({rounds} rounds)"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
