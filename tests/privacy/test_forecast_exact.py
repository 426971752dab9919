"""The forecast against the truth: all paths of small runs one by one, and simulated paths of larger ones.

The oracle below is slow and shares no code with the library. It writes a path as a word, cuts it where the observer
looks, and solves each interval by the max-min formula of isotonic regression.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import ndtr

from skipring.privacy import Composition, Forecast, PlannedRun, forecast
from skipring.privacy._walk import _gap_law, _gap_laws, _HopKinds
from skipring.privacy.record import ScheduleName, StepSizeLaw

Floats = NDArray[np.float64]
EPSILONS = (0.0, 1e-6, 0.05, 0.5, 2.0, 6.0)
NOISES = (2.0, 6.0, 20.0)


# ---------------------------------------------------------------------------------------------- the oracle


@dataclass(frozen=True)
class Observer:
    """How often the observer takes part, and whether it is sent the token although it will be skipped."""

    ready: float
    sees_when_skipped: bool

    def outcomes(self) -> list[tuple[str, float]]:
        """L: it looks. W: it looks, then updates."""
        return [("W", self.ready), ("L" if self.sees_when_skipped else "", 1.0 - self.ready)]


@dataclass(frozen=True)
class Truth:
    """The exact law of the leakage of one pair."""

    leakages: Floats
    probabilities: Floats

    def delta(self, epsilon: float, noise_multiplier: float) -> float:
        return float(self.probabilities @ gaussian_delta(np.sqrt(self.leakages) * 2.0 / noise_multiplier, epsilon))


def gaussian_delta(mu: Floats, epsilon: float) -> Floats:
    """The textbook formula; plain differences are good enough for the large deltas of small runs."""
    safe = np.maximum(mu, 1e-12)
    delta = ndtr(0.5 * safe - epsilon / safe) - math.exp(epsilon) * ndtr(-0.5 * safe - epsilon / safe)
    return np.where(mu > 0.0, np.maximum(delta, 0.0), 0.0)


def step_size(update: int, law: StepSizeLaw) -> float:
    return 1.0 if law == "constant" else 1.0 / math.sqrt(update)


def isotonic_cost(shifts: list[float], variances: list[float]) -> float:
    """sum_i m_i^2 V_i, m the isotonic regression of S_i/V_i with weights V_i: m_i = max_{j<=i} min_{k>=i} mean(j..k)."""
    steps = range(len(shifts))
    cost = 0.0
    for i in steps:
        slope = max(
            min(sum(shifts[j : k + 1]) / sum(variances[j : k + 1]) for k in steps if k >= i) for j in steps if j <= i
        )
        cost += slope * slope * variances[i]
    return cost


@lru_cache(maxsize=None)
def interval_leakage(updates: str, before: int, law: StepSizeLaw) -> float:
    """What updates by the target (U) and others (N), the first of them number `before` + 1, tell at the next look."""
    if "U" not in updates:
        return 0.0
    sizes = [step_size(before + 1 + i, law) for i in range(len(updates))]
    shifts = [size if letter == "U" else 0.0 for size, letter in zip(sizes, updates, strict=True)]
    return isotonic_cost(shifts, [size * size for size in sizes])


def path_leakage(path: str, law: StepSizeLaw) -> float:
    """Everyone sees the final model; the observer knows its own noise, which therefore hides nothing."""
    total, counter, since = 0.0, 0, ""
    for letter in path + "L":
        if letter in "LW":
            total += interval_leakage(since, counter - len(since), law)
            since = ""
            counter += letter == "W"
        else:
            since += letter
            counter += 1
    return total


def word_law(parts: Iterable[dict[str, float]]) -> dict[str, float]:
    """The law of the words that independent parts (rounds or hops) make together."""
    law = {"": 1.0}
    for part in parts:
        longer: defaultdict[str, float] = defaultdict(float)
        for word, probability in law.items():
            for end, chance in part.items():
                longer[word + end] += probability * chance
        law = dict(longer)
    return law


def round_law(orders: list[tuple[int, ...]], ready: list[float], observer: Observer) -> dict[str, float]:
    """All orders of the nodes and all ways to take part in one round. Node 0 is the target, node 1 the observer."""
    outcomes = [[("U", ready[0]), ("", 1.0 - ready[0])], observer.outcomes()]
    outcomes += [[("N", chance), ("", 1.0 - chance)] for chance in ready[2:]]
    law: defaultdict[str, float] = defaultdict(float)
    for order in orders:
        for what in itertools.product(*outcomes):
            word = "".join(what[node][0] for node in order)
            law[word] += math.prod(chance for _, chance in what) / len(orders)
    return {word: probability for word, probability in law.items() if probability > 0.0}


def hop_law(ready: list[float], observer: Observer) -> dict[str, float]:
    nodes = len(ready)
    law: defaultdict[str, float] = defaultdict(float)
    law["U"] += ready[0] / nodes
    law[""] += (1.0 - ready[0]) / nodes
    for letter, chance in observer.outcomes():
        law[letter] += chance / nodes
    for chance in ready[2:]:
        law["N"] += chance / nodes
        law[""] += (1.0 - chance) / nodes
    return {word: probability for word, probability in law.items() if probability > 0.0}


def ring_order(nodes: int, position: int, distance: int) -> tuple[int, ...]:
    """The fixed order with the target in place `position` (from 1) and the observer `distance` hops later."""
    order = [-1] * nodes
    order[position - 1] = 0
    order[(position - 1 + distance) % nodes] = 1
    others = iter(range(2, nodes))
    return tuple(node if node >= 0 else next(others) for node in order)


def truth_of(run: PlannedRun, observer: Observer, *, position: int | None = None) -> Truth:
    """Enumerate all paths. A pair of the fixed ring has a place, whether or not the forecast was told."""
    ready = [run.target_ready, math.nan] + [1.0 - run.skip] * (run.nodes - 2)
    if run.schedule == "random-walk":
        words = word_law([hop_law(ready, observer)] * run.steps)
    else:
        if run.schedule == "ring":
            place = position or run.position
            assert place is not None
            orders = [ring_order(run.nodes, place, run.distance or 1)]
        else:
            orders = list(itertools.permutations(range(run.nodes)))
        words = word_law([round_law(orders, ready, observer)] * run.rounds)
    law: defaultdict[float, float] = defaultdict(float)
    for word, probability in words.items():
        law[path_leakage(word, run.step_size)] += probability
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    return Truth(np.array(list(law)), np.array(list(law.values())))


def observers_of(run: PlannedRun) -> dict[str, Observer]:
    """Every observer that the record's view speaks about (for `offered`: whatever it does)."""
    if run.view == "participants":
        return {
            "as ready as stated": Observer(run.observer_sees, False),
            "less ready": Observer(0.5 * run.observer_sees, False),
        }
    return {
        "always ready": Observer(1.0, True),
        "never ready": Observer(0.0, True),
        "skipped now and then": Observer(0.5, True),
    }
