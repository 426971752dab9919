"""What goes beyond the paper: uneven data, persistent stragglers, and how many nodes private learning needs.

Real tables, images, traces and orders have files of their own: `laps`, `images`, `traces` and `orders`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..schedules import Laps
from ..simulation import Result, RunSummary
from .runner import SweepOutcome
from .sweep import Cell, Sweep

BEYOND = ("skew", "stragglers", "traces", "nodes", "order", Laps.name, "rivals", "images")
#: Name -> (x, mean, standard deviation).
Series = dict[str, tuple[list[float], list[float], list[float]]]


def _ends(sweep: Sweep, outcome: SweepOutcome) -> list[tuple[Cell, Result, RunSummary]]:
    """Return all cells with their final metrics."""
    found = [(cell, outcome.results[cell.key]) for cell in sweep.cells if cell.key in outcome.results]
    return [(cell, result, result.summary()) for cell, result in found]


def by_alpha(sweep: Sweep, outcome: SweepOutcome) -> Series:
    """Return the final error against alpha, for each skip probability and noise; evenly dealt classes stand at 100."""
    series: Series = {}
    for cell, result, summary in _ends(sweep, outcome):
        alpha = cell.run.data.alpha if cell.run.data.split == "dirichlet-even" else 100.0
        noise = result.resolved.noise_multiplier
        x, mean, spread = series.setdefault(f"p = {cell.run.delay.skip:g}, noise {noise:.3g}", ([], [], []))
        x.append(alpha)
        mean.append(summary.test_error.mean)
        spread.append(summary.test_error.std)
    return {name: _sorted(*values) for name, values in series.items()}


def _sorted(x: list[float], mean: list[float], spread: list[float]) -> tuple[list[float], list[float], list[float]]:
    order = sorted(range(len(x)), key=x.__getitem__)
    return [x[i] for i in order], [mean[i] for i in order], [spread[i] for i in order]


def best_by_nodes(sweep: Sweep, outcome: SweepOutcome) -> tuple[Series, dict[int, Cell]]:
    """Return the lowest final error for each number of nodes, and the cell that had it.

    It is the lowest by test rows, and so a little below what a choice without them would have reached.
    """
    best: dict[int, tuple[float, float, Cell]] = {}
    for cell, _, summary in _ends(sweep, outcome):
        error = summary.test_error
        nodes = int(cell.run.data.nodes or 0)
        if error.mean < best.get(nodes, (math.inf,))[0]:
            best[nodes] = (error.mean, error.std, cell)
    counts = sorted(best)
    line = ([float(n) for n in counts], [best[n][0] for n in counts], [best[n][1] for n in counts])
    return {"best of the grid": line}, {n: best[n][2] for n in counts}


def best_by_epsilon(sweep: Sweep, outcome: SweepOutcome) -> Sweep:
    """Return the sweep with one cell for each schedule and epsilon: that with the lowest final error by test rows.

    Its `epsilon` is what is promised, or that in the recorded run where one was recorded.
    """
    best: dict[tuple[str, float], tuple[float, Cell]] = {}
    for cell, result, summary in _ends(sweep, outcome):
        seen = result.privacy.in_this_run
        epsilon = result.privacy.epsilon if seen is None else seen.worst
        assert epsilon is not None
        place = cell.run.schedule.name, float(f"{epsilon:.4g}")  # noise is found up to roundings
        if place not in best or summary.test_error.mean < best[place][0]:
            best[place] = summary.test_error.mean, replace(cell, changes={"epsilon": place[1], **cell.changes})
    return replace(sweep, cells=tuple(cell for _, cell in best.values()))


def updates_of_quarters(result: Result) -> tuple[float, float]:
    """Return how often a node updates in a run, on average over the quarter that does so least, and most."""
    counts = np.sort((result.offered - result.skipped) / result.runs)
    quarter = max(1, len(counts) // 4)
    return float(counts[:quarter].mean()), float(counts[-quarter:].mean())


def straggler_names(sweep: Sweep) -> list[str]:
    """Return what to call the cells of the stragglers' sweep."""
    names = []
    for cell in sweep.cells:
        timeout = cell.run.delay.timeout
        patience = cell.run.delay.patient_every
        name = "nobody slow, " if cell.run.stragglers.slow_class is None else ""
        name += "" if cell.run.delay.ready in (None, "fresh") else f"{cell.run.delay.ready}, "
        name += "never skip" if timeout == math.inf else f"timeout {timeout:g}"
        name += "" if patience is None else f", patient every {patience}"
        names.append(name + (", FedAU weights" if "weights" in cell.changes else ""))
    return names
