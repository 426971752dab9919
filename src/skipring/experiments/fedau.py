"""A rival of remembering: nodes that take part seldom weigh more, as FedAU does (Wang and Ji, ICLR 2024).

A node multiplies its update by the mean interval between its updates so far, which estimates the inverse of the rate at
which it takes part. An interval is cut off after some turns without an update. On a ring, an update is a step: its size
is multiplied by the weight, and its noise with it. Weights follow from who was in time alone, never from rows. They are
no option of a run, and no epsilon is stated for them. What hides an update is the noise of later ones, and that is as
uneven as their weights are.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import one_blas_thread
from ..errors import InvalidInput
from ..learning import StepSizes
from ..privacy import PrivacyReport, nothing_promised
from ..schedules import RandomRing, Ring
from ..simulation import Result, build, gather, prepare_runs, run_one
from .beyond import straggler_names
from .runner import SweepOutcome
from .sweep import Cell, Sweep


def fedau_weights(
    path: NDArray[np.integer[Any]], updated: NDArray[np.bool_], nodes: int, cutoff: int
) -> NDArray[np.float64]:
    """Return the weight of each hop's update: the mean of its node's intervals before this hop, at first 1.

    Each round of the path has every node once.

    >>> ready = np.array([True, True, True, False, True, False, True, True])
    >>> fedau_weights(np.array([0, 1, 1, 0, 0, 1, 1, 0]), ready, 2, 50).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5]
    """
    weight, intervals, since = np.ones(nodes), np.zeros(nodes), np.zeros(nodes)
    found = np.empty(len(path))
    for begin in range(0, len(path), nodes):
        who, took = path[begin : begin + nodes], updated[begin : begin + nodes]
        found[begin : begin + nodes] = weight[who]
        since[who] += 1
        ended = who[took | (since[who] >= cutoff)]
        weight[ended] = (intervals[ended] * weight[ended] + since[ended]) / (intervals[ended] + 1)
        intervals[ended] += 1
        since[ended] = 0
    return found


def with_fedau(sweep: Sweep, outcome: SweepOutcome) -> tuple[Sweep, SweepOutcome]:
    """Add a cell to a sweep: the one that `figure.fedau` names in `case`, with weights of that `cutoff`."""
    asked = sweep.figure["fedau"]
    like = sweep.cells[straggler_names(sweep).index(asked["case"])]
    key, weights = f"{like.key}-fedau", {"weights": f"FedAU, cutoff {asked['cutoff']}"}
    cell = Cell(key, f"{like.label}_fedau", {**like.changes, **weights}, like.run)
    result = _weighted(like, outcome.results[like.key], asked["cutoff"])
    place = sweep.cells.index(like) + 1
    cells = (*sweep.cells[:place], cell, *sweep.cells[place:])
    results = {**outcome.results, key: result}
    return dataclasses.replace(sweep, cells=cells), dataclasses.replace(outcome, results=results)


def _weighted(cell: Cell, plain: Result, cutoff: int) -> Result:
    """Simulate a cell's runs with weights: the same nodes are in time, since random numbers are drawn in that order."""
    setup = build(cell.run)
    if not isinstance(setup.schedule, Ring | RandomRing):
        raise InvalidInput("schedule.name", setup.schedule.name, "ring or random-ring: intervals are counted in rounds")
    shared, outputs = prepare_runs(setup), []
    with one_blas_thread():
        unseen = setup.having(run=setup.run.having(simulation={"evaluate_every": setup.steps}))
        for number in range(plain.runs):
            first = run_one(unseen, number, shared)
            weights = fedau_weights(first.offered, first.updated, setup.data.nodes, cutoff)[first.updated]
            sizes = setup.step_sizes.first(setup.steps)
            sizes[: len(weights)] *= weights
            own = StepSizes(setup.step_sizes.rate, "own", sizes.tolist())
            outputs.append(run_one(setup.having(step_sizes=own), number, shared))
            assert np.array_equal(outputs[-1].updated, first.updated)
    why, delta = "FedAU's weights are not accounted for", plain.privacy.delta
    promised = nothing_promised(plain.privacy.promised.protects, delta, why)
    unstated = PrivacyReport(delta=delta, promised=promised, refused=why)
    return gather(outputs, setup.points, plain.settings, plain.resolved, plain.versions, unstated)
