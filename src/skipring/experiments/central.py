"""One learner with all of its rows: noisy gradient descent, the least that learning together must be worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from ..learning import LOGISTIC, LinearModel, StepSizes
from ..privacy import PlannedRun, calibrate, forecast, gdp_mu


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What a search tries: rounds (a learner alone: steps), the rate and its law, and the bound of a row's gradient."""

    rounds: int
    rate: float
    step_size: Literal["constant", "sqrt"]
    gradient_bound: float

    def __str__(self) -> str:
        return f"{self.rounds} rounds, {self.step_size} rate {self.rate:g}, bound {self.gradient_bound:g}"


@lru_cache
def central_noise(steps: int, epsilon: float, delta: float) -> float:
    """Return the noise multiplier with which `steps`, all of them seen, protect a record (or person, or node).

    Replacing it moves the sum of what units contribute by at most twice what one can. The steps are Gaussian
    mechanisms, whose composition is one with the root of their number times as large a mu: nothing is lost.

    >>> gdp_mu(2.0, 1e-4) == 2.0 / central_noise(1, 2.0, 1e-4)
    True
    """
    return 2.0 * math.sqrt(steps) / gdp_mu(epsilon, delta)


@lru_cache(maxsize=4096)
def ring_noise(run: PlannedRun, epsilon: float, delta: float) -> float:
    """Return the noise multiplier with which a run keeps a budget; splits that are alike ask once.

    The run's own noise counts for nothing, but is part of what is asked: give all the same.
    """
    return calibrate(forecast(run).with_noise, epsilon, delta)


def descend(
    x: Floats,
    y: NDArray[Any],
    tunings: Sequence[Tuning],
    noise_multipliers: Sequence[float],
    rng: np.random.Generator,
    *,
    diameter: float,
) -> Floats:
    """Return the last parameters of several logistic regressions on the same rows, a row of numbers for each.

    Every step uses all rows. It is what a node alone would compute if every turn were its own, for many at once.
    """
    models = [
        LinearModel(loss=LOGISTIC, features=x.shape[1], diameter=diameter, clip=one.gradient_bound) for one in tunings
    ]
    bounds = np.array([model.gradient_bound for model in models])[:, None]
    std = bounds[:, 0] * np.asarray(noise_multipliers) / len(x)
    radius, most = models[0].radius, max(one.rounds for one in tunings)
    sizes = np.zeros((len(models), most))  # a descent that is over takes steps of no length
    for row, one in zip(sizes, tunings, strict=True):
        row[: one.rounds] = StepSizes(one.rate, one.step_size).first(one.rounds)
    signed = x * (2.0 * y - 1.0)[:, None]
    limits = bounds / np.maximum(np.sqrt(np.einsum("ij,ij->i", x, x)), 1e-150)
    w = np.zeros((len(models), x.shape[1]))
    for step in range(most):
        slopes = np.clip(LOGISTIC.slope(w @ signed.T), -limits, limits)
        gradient = slopes @ signed / len(x) + std[:, None] * rng.standard_normal(w.shape)
        w -= sizes[:, step, None] * gradient
        w *= np.minimum(1.0, radius / np.maximum(np.linalg.norm(w, axis=1), radius))[:, None]
    return w
