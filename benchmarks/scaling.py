"""How a simulation grows with nodes, steps, runs and cells: time and memory, each in a process of its own.

    python benchmarks/scaling.py [--most 1000000]

Synthetic rows (8 features, one per node or more), so that any number of nodes can be dealt to.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

_CHILD = """
import json, resource, sys, time
from skipring.simulation import simulate
values = json.load(open(sys.argv[1]))
small = json.loads(json.dumps(values))
small["data"] = {"name": "breast-cancer", "nodes": 20}
small["schedule"]["steps"] = 20
small["simulation"] = {"runs": 1, "record_path": False}
simulate(small)  # compile, or load what was compiled
began = time.perf_counter()
simulate(values, keep_models=False)
seconds = time.perf_counter() - began
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0]))
"""


def write_rows(folder: Path, rows: int) -> Path:
    """Write a table of rows with two classes, and return its path."""
    path = folder / f"rows-{rows}.npz"
    if not path.exists():
        rng = np.random.default_rng(1)
        x = rng.standard_normal((rows, 8))
        label = (x @ rng.standard_normal(8) + rng.standard_normal(rows) > 0.0).astype(np.int64)
        np.savez(path, X=x, y=label)
    return path


def measure(folder: Path, schedule: str, nodes: int, steps: int, runs: int) -> tuple[float, float]:
    """Return seconds and megabytes of a simulation in a fresh process, reading of the rows included."""
    values: dict[str, Any] = {
        "data": {"path": str(write_rows(folder, max(20_000, 5 * nodes // 4))), "label": "y", "nodes": nodes},
        "schedule": {"name": schedule, "steps": steps},
        "gossip": {"slots": 300.0},
        "delay": {"law": "exponential:1", "skip": 0.5},
        "privacy": {"noise_multiplier": 5.0},
        "simulation": {"runs": runs, "record_path": False, "evaluate_every": max(1, steps // 10)},
    }
    file = folder / "values.json"
    file.write_text(json.dumps(values))
    done = subprocess.run([sys.executable, "-c", _CHILD, str(file)], check=True, capture_output=True, text=True)
    seconds, megabytes = json.loads(done.stdout)
    return float(seconds), float(megabytes)


def sweep_seconds(folder: Path, cells: int, workers: int) -> float:
    """Return the seconds that a sweep of small cells takes, start-up included."""
    file = folder / "cells.toml"
    rates = ", ".join(f"{0.1 + 0.001 * i:.3f}" for i in range(cells))
    file.write_text(
        '[base.data]\nname = "breast-cancer"\n[base.simulation]\nruns = 20\nrecord_path = false\n'
        f'[[grid]]\n"learning.rate" = [{rates}]\n'
    )
    out = folder / f"sweep-{cells}-{workers}"
    words = [sys.executable, "-m", "skipring", "sweep", str(file), "--out", str(out), "--workers", str(workers)]
    began = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, default=1_000_000, help="largest number of nodes")
    most = parser.parse_args().most
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{os.cpu_count()} cores")
        print("schedule     nodes    steps     runs   seconds        MB")
        cases = [("random-ring", nodes, 2 * nodes, 2) for nodes in (1_000, 10_000, 100_000, 1_000_000)]
        cases += [("random-ring", 1_000, steps, 2) for steps in (10_000, 100_000, 1_000_000)]
        cases += [("random-ring", 1_000, 10_000, runs) for runs in (20, 200, 2_000)]
        cases += [("gossip", nodes, 20, 2) for nodes in (1_000, 10_000, 100_000, 1_000_000)]
        cases += [("federated", nodes, 20, 2) for nodes in (1_000, 10_000, 100_000, 1_000_000)]
        for schedule, nodes, steps, runs in cases:
            if nodes <= most:
                seconds, megabytes = measure(folder, schedule, nodes, steps, runs)
                print(f"{schedule:<12}{nodes:>8}{steps:>9}{runs:>9}{seconds:>10.2f}{megabytes:>10.0f}", flush=True)
        for cells in (1, 10, 40):
            one, two = sweep_seconds(folder, cells, 1), sweep_seconds(folder, cells, 2)
            print(f"sweep of {cells:>3} cells: {one:.1f} s in one process, {two:.1f} s in two", flush=True)


if __name__ == "__main__":
    main()
