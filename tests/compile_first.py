"""Compile the simulator's loops once: numba keeps them, and several test processes need not each compile the same."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import numpy as np

from skipring import simulate


def small_runs(schedules: tuple[str, ...]) -> None:
    """Simulate a few hops of every kind of model, whose privacy is accounted for by compiled loops as well."""
    x, node = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 4
    labels = {"logistic": node % 2, "squared": x[:, 0], "softmax": node % 3}
    for schedule in schedules:
        for model, y in labels.items():
            run = {
                "model": {"name": model},
                "schedule": {"name": schedule, "steps": 8},
                "learning": {"gradient_bound": 1.0, "rate": 0.1},
                "privacy": {"noise_multiplier": 1.0},
                "simulation": {"runs": 1},
            }
            simulate(run, x, y, node)
    if "random-ring" in schedules:  # the clock of nodes that remember
        quiet = {"delay": {"ready": "kept"}, "simulation": {"runs": 1}, "privacy": {"noise_multiplier": 1.0}}
        simulate(quiet | {"schedule": {"name": "random-ring", "steps": 8}}, x, labels["logistic"], node)


if __name__ == "__main__":
    # What each process compiles takes about as long.
    with ProcessPoolExecutor(2) as processes:
        list(processes.map(small_runs, [("random-ring", "federated"), ("gossip",)]))
