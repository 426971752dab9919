"""200 runs of 20 laps among 1000 nodes (16,512 rows, 8 features), beside drawing their delays and noise alone."""

from __future__ import annotations

import time

import numpy as np

from skipring._threads import one_blas_thread
from skipring.data import from_arrays
from skipring.runs import parse_run
from skipring.simulation import build
from skipring.simulation.engine import run_many

RUNS, LAPS, NODES = 200, 20, 1000


def main() -> None:
    run = parse_run(
        {
            "data": {"nodes": NODES},
            "model": {"name": "logistic"},
            "schedule": {"name": "laps"},
            "laps": {"laps": LAPS},
            "delay": {"law": "exponential:1"},
            "simulation": {"evaluate_every": LAPS},
        }
    )
    rng = np.random.default_rng(1)
    x = rng.standard_normal((20_640, 8))
    y = (x @ rng.standard_normal(8) + rng.standard_normal(len(x)) > 0.0).astype(np.int64)
    setup = build(run, from_arrays(x, y))
    list(run_many(setup, [0]))  # what is loaded once
    begun = time.perf_counter()
    with one_blas_thread():  # as `simulate` does
        for _ in run_many(setup, list(range(RUNS))):
            pass
    whole = time.perf_counter() - begun
    begun = time.perf_counter()
    for _ in range(RUNS * LAPS):
        rng.standard_exponential(NODES)
        rng.standard_normal((NODES, setup.model.parameters))
    print(f"{RUNS} runs of {LAPS} laps among {NODES} nodes: {whole:.2f} s")
    print(f"their random numbers alone, one thread: {time.perf_counter() - begun:.2f} s")


if __name__ == "__main__":
    main()
