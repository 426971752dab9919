"""What the README's network typically ends with: eight real nodes, many times over, each time with fresh noise.

    python benchmarks/network_example.py [--runs 25] [--delay gamma:0.25,0.05] [--run examples/network.toml]

Each run is what a reader does: `skipring network init`, then `skipring network up`, in a new folder. It shows quartiles
over the runs, and what `up` printed in the run whose test error is the median: a single run shows luck.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

NODES = 8


@dataclass(frozen=True)
class Ended:
    """What a run ended with; `shown` is what its reader saw."""

    test_error: float
    epsilon: float
    updates: int
    refused: int
    shown: str


def free_port() -> int:
    """Return the first of some neighbouring ports that nobody uses, nor those a thousand above them."""
    rng = np.random.default_rng()
    while True:
        first = int(rng.integers(10_000, 19_000))
        try:
            for port in (*range(first, first + NODES), *range(first + 1000, first + 1000 + NODES)):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first


def skipring(folder: Path, *words: str) -> str:
    """Run a command in a folder and a terminal of 80 columns; return what it prints."""
    command = [sys.executable, "-m", "skipring", *words]
    environment = os.environ | {"COLUMNS": "80"}
    done = subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def one_run(run: Path, delay: str) -> Ended:
    """Make a network, run it to its end, and say what came out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ports = ["--port", str(free_port())]
        skipring(folder, "network", "init", "demo", "--nodes", str(NODES), "--run", str(run), "--delay", delay, *ports)
        shown = skipring(folder, "network", "up", "demo")
        told = json.loads(skipring(folder, "network", "status", "demo", "--json"))
    nodes: list[dict[str, Any]] = [node["status"] for node in told["nodes"]]
    assert all(node["over"] for node in nodes)
    assert len({node["model"] for node in nodes}) == 1
    return Ended(
        test_error=float(np.mean([node["test_error"] for node in nodes])),
        epsilon=max(node["epsilon"] for node in nodes),
        updates=nodes[0]["updates"],
        refused=sum(node["refused_for_budget"] for node in nodes),
        shown=shown,
    )


def main() -> None:
    """Run the network `--runs` times, and print quartiles and the median run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--delay", default="gamma:0.25,0.05")
    parser.add_argument("--run", type=Path, default=Path(__file__).parent.parent / "examples" / "network.toml")
    given = parser.parse_args()
    if given.runs < 1:
        parser.error("--runs: at least 1")
    ended = []
    for number in range(1, given.runs + 1):
        ended.append(one_run(given.run.absolute(), given.delay))
        last = ended[-1]
        print(
            f"run {number}: test error {last.test_error:.3f}, worst epsilon {last.epsilon:.3f}, {last.updates} updates,"
            f" {last.refused} turns refused for a budget",
            file=sys.stderr,
            flush=True,
        )
    print(f"{given.runs} runs                25 %   median     75 %")
    for what in ("test_error", "epsilon", "updates", "refused"):
        low, middle, high = np.quantile([getattr(one, what) for one in ended], [0.25, 0.5, 0.75])
        print(f"{what:<20} {low:8.3f} {middle:8.3f} {high:8.3f}")
    errors = [one.test_error for one in ended]
    median = ended[int(np.argsort(errors, kind="stable")[(given.runs - 1) // 2])]
    print(f"\nThe run whose test error is the median:\n{median.shown}")


if __name__ == "__main__":
    main()
