"""FedAU's weights: those of its authors, and a ring whose steps they multiply."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.experiments import Sweep, SweepOutcome, parse_sweep, straggler_names
from skipring.experiments.fedau import fedau_weights, with_fedau
from skipring.runs import parse_run
from skipring.simulation import simulate

RUN: dict[str, dict[str, Any]] = {
    "data": {"name": "breast-cancer", "nodes": 20, "split": "dirichlet-even", "alpha": 0.1},
    "schedule": {"name": "random-ring", "steps": 400},
    "delay": {"law": "exponential:1"},
    "privacy": {"noise_multiplier": 0.5},
    "simulation": {"runs": 3, "evaluate_every": 40},
}
GRID = {"stragglers.slow_class": 1, "stragglers.class_factor": 5.0, "delay.timeout": [0.5, 2.0]}


def sweep_with(cutoff: int, **changes: Any) -> tuple[Sweep, SweepOutcome]:
    values = {"base": RUN | changes, "grid": GRID, "figure": {"fedau": {"case": "timeout 0.5", "cutoff": cutoff}}}
    sweep = parse_sweep(values, name="slow")
    return sweep, SweepOutcome({cell.key: simulate(cell.run) for cell in sweep.cells}, {}, 2, 0)


@pytest.mark.parametrize("cutoff", [1, 3, 50])
def test_a_weight_is_the_mean_interval_between_a_nodes_updates(cutoff: int) -> None:
    rng = np.random.default_rng(7)
    nodes, rounds = 6, 40
    path = np.concatenate([rng.permutation(nodes) for _ in range(rounds)])
    updated = rng.random(nodes * rounds) < np.linspace(0.05, 1.0, nodes)[path]
    expected = np.empty(len(path))
    for node in range(nodes):
        intervals: list[int] = []
        missed = 0
        for hop in np.flatnonzero(path == node):
            expected[hop] = statistics.mean(intervals) if intervals else 1.0
            missed += 1
            if updated[hop] or missed == cutoff:
                intervals.append(missed)
                missed = 0
    np.testing.assert_allclose(fedau_weights(path, updated, nodes, cutoff), expected, rtol=1e-12)
    assert cutoff == 1 or expected.max() > 2.0


def test_weights_of_one_change_nothing() -> None:
    sweep, outcome = sweep_with(1)  # every turn is an interval of its own
    wider, found = with_fedau(sweep, outcome)
    plain, weighted = (found.results[cell.key] for cell in wider.cells[:2])
    assert len(wider.cells) == len(sweep.cells) + 1
    for array in ("points", "test_error", "loss", "latency", "updates", "models", "offered", "skipped"):
        np.testing.assert_array_equal(getattr(plain, array), getattr(weighted, array), err_msg=array)
    assert weighted.privacy.refused == "FedAU's weights are not accounted for"
    assert weighted.summary().privacy.in_this_run is None


def test_an_update_is_a_step_that_is_longer_by_its_weight() -> None:
    sweep, outcome = sweep_with(50)
    wider, found = with_fedau(sweep, outcome)
    assert straggler_names(wider) == ["timeout 0.5", "timeout 0.5, FedAU weights", "timeout 2"]
    assert wider.cells[1].changes["weights"] == "FedAU, cutoff 50"
    plain, weighted = (found.results[cell.key] for cell in wider.cells[:2])
    np.testing.assert_array_equal(plain.latency, weighted.latency)
    np.testing.assert_array_equal(plain.skipped, weighted.skipped)
    assert not np.array_equal(plain.test_error, weighted.test_error)
    # The same steps, written down one by one, for the first run.
    from skipring.simulation import build, run_one

    setup = build(sweep.cells[0].run)
    first = run_one(setup, 0)
    weights = fedau_weights(first.offered, first.updated, 20, 50)[first.updated]
    assert weights.max() > 1.5
    sizes = 0.3 / np.sqrt(np.arange(1, 401))
    sizes[: len(weights)] *= weights
    values = sweep.cells[0].run.model_dump()
    values["learning"] |= {"step_size": "own", "own": sizes.tolist()}
    values["simulation"] |= {"runs": 1}
    np.testing.assert_array_equal(simulate(parse_run(values)).test_error[0], weighted.test_error[0])


def test_intervals_are_counted_in_rounds() -> None:
    sweep, outcome = sweep_with(50, schedule={"name": "random-walk", "steps": 40})
    with pytest.raises(InvalidInput, match=r"schedule.name = random-walk: must be ring or random-ring"):
        with_fedau(sweep, outcome)
    with pytest.raises(ValueError, match="not in list"):  # a case that the sweep does not have
        with_fedau(dataclasses.replace(sweep, figure={"fedau": {"case": "timeout 9", "cutoff": 50}}), outcome)
