"""The paper's theory: the curves of Figures 2, 3 and 6, and tables of its numbers beside those that are proven here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from ..convergence import Problem, error_bound
from ..delays import Delay, Exponential, Gamma, Lomax
from ..errors import InvalidInput
from ..privacy import PaperBound, ScheduleName, forecast, paper_noise_multiplier, planned_run, theorem_curve
from ..schedules import SCHEDULES, RandomRing, RandomWalk, Ring
from ..timeouts import choose_timeout, expected_latency, timeout_for_skip

#: The delay laws, by the name that the figures show.
LAWS: dict[str, Delay] = {"exponential": Exponential(1.0), "gamma": Gamma(0.25, 1.0), "Lomax": Lomax(3.0, 2.0)}
SKIPS = (1e-4, 0.5, 0.7)
#: The theorem about each schedule's privacy.
THEOREMS = {name: kind.theorem for name, kind in SCHEDULES.items() if kind.theorem is not None}

_HOP_LATENCY = 0.01
_DELTA = 1e-6
#: The noise is what the paper calls (1, 1e-6): 10.5976.
_PROBLEM = Problem(
    noise_multiplier=paper_noise_multiplier(1.0, _DELTA),
    dimension=8,
    diameter=10.0,
    gradient_bound=1.0,
    learning_rate=0.6,
)
#: (nodes, steps, delta') of the paper's theory figures and of its experiment with 1000 nodes.
_SIZES = ((10, 1000, 1e-6), (500, 5000, 1e-6), (500, 50_000, 1e-6), (1000, 24_000, 1e-12))


@dataclass(frozen=True)
class TheoryCurve:
    """One curve: the bounds along the average latency, for a delay law, a schedule and a skip probability."""

    law: str
    nodes: int
    schedule: str
    skip: float
    steps: NDArray[np.int64]
    latency: Floats
    error_bound: Floats
    epsilon: Floats


def longest_latency(law: str, nodes: int) -> float:
    """Return where the paper's x-axis ends: gamma delays are short, so their axis is, too."""
    return 1000.0 if nodes <= 100 or law == "gamma" else 6000.0


def figure_curves(figure: int, *, points: int = 300) -> list[TheoryCurve]:
    """Return all curves of Figure 2 (= those of Figure 3, drawn against each other) or of Figure 6.

    >>> len(figure_curves(2, points=3)), len(figure_curves(6, points=3))
    (36, 6)
    """
    if figure not in (2, 3, 6):
        raise InvalidInput("figure", figure, "one of 2, 3, 6")
    if figure == 6:
        panels, schedules = [(100, "gamma")], (RandomRing.name, RandomWalk.name)
    else:
        panels, schedules = [(nodes, law) for nodes in (10, 500) for law in LAWS], (Ring.name, RandomRing.name)
    return [_curve(law, n, name, skip, points) for n, law in panels for name in schedules for skip in SKIPS]


def _curve(law: str, nodes: int, schedule: str, skip: float, points: int) -> TheoryCurve:
    hop = expected_latency(LAWS[law], timeout_for_skip(LAWS[law], skip), _HOP_LATENCY, 1)
    # The formulas are evaluated between whole rounds, too, which shows the paper's stairs; half of the points are
    # spaced geometrically, because everything bends within the first rounds.
    last = longest_latency(law, nodes) / hop
    spaced = np.concatenate([np.linspace(nodes, last, points), np.geomspace(nodes, last, points)])
    steps = np.unique(spaced.astype(np.int64))
    bounds = [error_bound(_PROBLEM, schedule=schedule, nodes=nodes, steps=count, skip=skip) for count in steps.tolist()]
    epsilon = theorem_curve(
        THEOREMS[schedule],
        nodes=nodes,
        steps=steps.tolist(),
        skip=skip,
        noise_multiplier=_PROBLEM.noise_multiplier,
        delta=_DELTA,
        delta_prime=_DELTA,
    )
    return TheoryCurve(law, nodes, schedule, skip, steps, steps * hop, np.array(bounds), epsilon)


@dataclass(frozen=True)
class TheoryTable:
    """A table with a title, column heads, and a sentence that says how to read it."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]


def theory_tables(progress: Callable[[int], None] = lambda _: None) -> list[TheoryTable]:
    """Return the timeouts of Lemma 2 and the privacy of all three schedules, paper and tight side by side."""
    return [_timeouts(), _privacy(progress)]


def table_cells() -> int:
    """Return how many rows `theory_tables` reports progress on."""
    return len(_SIZES) * len(SKIPS)


def _timeouts() -> TheoryTable:
    rows: list[tuple[str | float, ...]] = []
    for name, law in LAWS.items():
        best = choose_timeout(law, _HOP_LATENCY)
        wanted = (timeout_for_skip(law, skip) for skip in SKIPS)
        rows.append((name, *wanted, best.timeout, best.skip_probability, best.time_between_updates))
    return TheoryTable(
        title="Timeouts",
        note=f"Hop latency {_HOP_LATENCY}. best: the timeout of Lemma 2, its skip probability, time between updates.",
        columns=("delay", *(f"p={skip:g}" for skip in SKIPS), "best", "best p", "time"),
        rows=tuple(rows),
    )


def _privacy(progress: Callable[[int], None]) -> TheoryTable:
    rows: list[tuple[str | float, ...]] = []
    for nodes, steps, delta_prime in _SIZES:
        for skip in SKIPS:
            pairs = (_pair(schedule, nodes, steps, skip, delta_prime) for schedule in THEOREMS)
            rows.append((f"{nodes}", f"{steps}", f"{skip:g}", *(epsilon for pair in pairs for epsilon in pair)))
            progress(len(rows))
    return TheoryTable(
        title="Epsilon for the same noise",
        note=(
            f"Noise multiplier {_PROBLEM.noise_multiplier:.4f}; delta = 2e-6 (1000 nodes: 1e-6 + 1e-12). paper:"
            " Theorems 2, 3, 4 as stated; tight: proven here, worst pair, observer always ready, final model counted."
        ),
        columns=("nodes", "steps", "p", "ring paper", "tight", "rand. ring paper", "tight", "walk paper", "tight"),
        rows=tuple(rows),
    )


def _pair(schedule: ScheduleName, nodes: int, steps: int, skip: float, delta_prime: float) -> tuple[float, float]:
    """Return epsilon by the paper's theorem, and the proven one."""
    noise = _PROBLEM.noise_multiplier
    run = planned_run(schedule=schedule, nodes=nodes, steps=steps, skip=skip, noise_multiplier=noise, protects="node")
    return PaperBound(run, delta_prime=delta_prime).epsilon(_DELTA), forecast(run).epsilon(_DELTA + delta_prime)
