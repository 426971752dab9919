"""How long the commands take, start-up included, each beside an empty Python process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

COMMANDS = (
    ("timeout", "timeout --delay gamma:0.25,1 --json"),
    (
        "privacy, 10,000 nodes, 1e6 steps, random ring",
        "privacy --schedule random-ring --nodes 10000 --steps 1000000 --skip 0.3 --noise-multiplier 10 --delta 1e-6",
    ),
    (
        "privacy, 10,000 nodes, 1e6 steps, random walk",
        "privacy --schedule random-walk --nodes 10000 --steps 1000000 --skip 0.3 --noise-multiplier 10 --delta 1e-6",
    ),
    ("paper figure 2 (36 curves of 300 points or more)", "paper figure 2"),
    ("plan without figure", "plan --nodes 113 --delay gamma:0.25,1 --time 60 --epsilon 2 --dimension 30 --no-figure"),
)


def seconds(command: list[str], folder: str) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, cwd=folder)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'empty Python process':55s} {seconds([sys.executable, '-c', 'pass'], folder):6.2f} s")
        for name, line in COMMANDS:
            print(f"{name:55s} {seconds([sys.executable, '-m', 'skipring', *line.split()], folder):6.2f} s")


if __name__ == "__main__":
    main()
