"""The curves of the paper's Figures 2, 3 and 6: error bound and privacy against the average latency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from ..convergence import Problem, error_bound
from ..delays import Delay, Exponential, Gamma, Lomax
from ..errors import InvalidInput
from ..privacy import paper_noise_multiplier, theorem_curve
from ..schedules import SCHEDULES, RandomRing, RandomWalk, Ring
from ..timeouts import expected_latency, timeout_for_skip

#: The delay laws, by the name that the figures show.
LAWS: dict[str, Delay] = {"exponential": Exponential(1.0), "gamma": Gamma(0.25, 1.0), "Lomax": Lomax(3.0, 2.0)}
SKIPS = (1e-4, 0.5, 0.7)
FIGURES = (2, 3, 6)

HOP_LATENCY = 0.01
DELTA = 1e-6
#: The noise that the paper calls (1, 1e-6): 10.5976.
NOISE_MULTIPLIER = paper_noise_multiplier(1.0, DELTA)
_PROBLEM = {"dimension": 8, "diameter": 10.0, "gradient_bound": 1.0, "learning_rate": 0.6}
#: The theorem about each schedule's privacy.
THEOREMS = {name: kind.theorem for name, kind in SCHEDULES.items() if kind.theorem is not None}


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
    if figure in (2, 3):
        return [
            _curve(law, nodes, schedule, skip, points)
            for nodes in (10, 500)
            for law in LAWS
            for schedule in (Ring.name, RandomRing.name)
            for skip in SKIPS
        ]
    if figure == 6:
        return [
            _curve("gamma", 100, schedule, skip, points)
            for schedule in (RandomRing.name, RandomWalk.name)
            for skip in SKIPS
        ]
    raise InvalidInput("figure", figure, "one of " + ", ".join(map(str, FIGURES)))


def _curve(law: str, nodes: int, schedule: str, skip: float, points: int) -> TheoryCurve:
    timeout = timeout_for_skip(LAWS[law], skip)
    hop = expected_latency(LAWS[law], timeout, HOP_LATENCY, 1)
    # The formulas are evaluated between whole rounds, too, which shows the paper's stairs; half of the points are
    # spaced geometrically, because everything bends within the first rounds.
    last = longest_latency(law, nodes) / hop
    spaced = np.concatenate([np.linspace(nodes, last, points), np.geomspace(nodes, last, points)])
    steps = np.unique(spaced.astype(np.int64))
    problem = Problem(
        noise_multiplier=NOISE_MULTIPLIER,
        dimension=int(_PROBLEM["dimension"]),
        diameter=_PROBLEM["diameter"],
        gradient_bound=_PROBLEM["gradient_bound"],
        learning_rate=_PROBLEM["learning_rate"],
    )
    return TheoryCurve(
        law=law,
        nodes=nodes,
        schedule=schedule,
        skip=skip,
        steps=steps,
        latency=steps * hop,
        error_bound=np.array(
            [error_bound(problem, schedule=schedule, nodes=nodes, steps=count, skip=skip) for count in steps.tolist()]
        ),
        epsilon=theorem_curve(
            THEOREMS[schedule],
            nodes=nodes,
            steps=steps.tolist(),
            skip=skip,
            noise_multiplier=NOISE_MULTIPLIER,
            delta=DELTA,
            delta_prime=DELTA,
        ),
    )
