"""Binomial laws to full relative precision, also deep in their tails."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ._arrays import Floats


def binomial_pmf(trials: int, probability: float, *, log_cut: float = 745.0) -> tuple[int, Floats]:
    """Return the first count whose probability matters, and the probabilities from there on.

    Probabilities below exp(-log_cut) are left out (745: what a double cannot hold). The terms are built
    outwards from the mode by their exact ratios and normalised, so that errors do not grow with `trials` as
    those of log-gamma differences do.

    >>> first, pmf = binomial_pmf(3, 0.5)
    >>> first, pmf.tolist()
    (0, [0.125, 0.375, 0.375, 0.125])
    """
    if probability <= 0.0 or trials == 0:
        return 0, np.ones(1)
    if probability >= 1.0:
        return trials, np.ones(1)
    mode = min(trials, int((trials + 1) * probability))
    # Bernstein: P(|K - mean| >= t) <= 2 exp(-t^2 / (2 variance + 2 t / 3)).
    variance = trials * probability * (1.0 - probability)
    reach = log_cut / 3.0 + math.sqrt(log_cut * log_cut / 9.0 + 2.0 * variance * log_cut) + 2.0
    low = max(0, math.floor(trials * probability - reach))
    high = min(trials, math.ceil(trials * probability + reach))
    log_odds = math.log(probability) - math.log1p(-probability)
    up = np.arange(mode, high, dtype=np.float64)
    down = np.arange(mode, low, -1.0)
    log_up = np.cumsum(np.log((trials - up) / (up + 1.0)) + log_odds)
    log_down = np.cumsum(np.log(down / (trials - down + 1.0)) - log_odds)
    log_pmf = np.concatenate([log_down[::-1], [0.0], log_up])
    pmf = np.exp(log_pmf)
    return low, pmf / pmf.sum()


def binomial_tails(trials: int, probability: float) -> Floats:
    """Return P(K >= k) for k = 0..trials+1."""
    first, pmf = binomial_pmf(trials, probability)
    tails = np.zeros(trials + 2)
    tails[: first + 1] = 1.0
    tails[first : first + len(pmf)] = np.minimum(1.0, np.cumsum(pmf[::-1])[::-1])
    tails[: first + 1] = 1.0
    return tails


def binomial_floor(trials: int, probability: float, failure: float) -> int:
    """Return the largest k with P(K < k) <= failure: a floor that K keeps except with that probability.

    >>> binomial_floor(10, 1.0, 1e-9), binomial_floor(10, 0.5, 1e-9), binomial_floor(100, 0.5, 1e-3)
    (10, 0, 35)
    """
    return int(binomial_floors(trials, probability, np.array([failure]))[0])


def binomial_floors(trials: int, probability: float, failures: Floats) -> NDArray[np.int64]:
    """Return `binomial_floor` for several failure probabilities at once."""
    if probability >= 1.0 or trials == 0:
        return np.full(len(failures), trials, dtype=np.int64)
    if probability <= 0.0:
        return np.zeros(len(failures), dtype=np.int64)
    if trials > 1_000_000:
        return np.array([_chernoff_floor(trials, probability, float(f)) for f in failures], dtype=np.int64)
    first, pmf = binomial_pmf(trials, probability, log_cut=60.0 - math.log(float(failures.min())))
    below = np.cumsum(pmf)  # below[i] = P(K <= first + i) = P(K < first + i + 1)
    # A hair of slack keeps rounding, and what was cut off on the left, on the safe side.
    return first + np.searchsorted(below, failures * (1.0 - 1e-9), side="right")


def _chernoff_floor(trials: int, probability: float, failure: float) -> int:
    """Return a floor from P(K <= trials x) <= exp(-trials KL(x, probability)): as good for many trials, and O(1)."""
    target = -math.log(failure) / trials

    def divergence(x: float) -> float:
        first = x * math.log(x / probability) if x > 0.0 else 0.0
        return first + (1.0 - x) * (math.log1p(-x) - math.log1p(-probability))

    low, high = 0.0, probability
    if divergence(low) < target:
        return 0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if divergence(middle) >= target * (1.0 + 1e-4):
            low = middle
        else:
            high = middle
    return math.floor(low * trials) + 1 if low > 0.0 else 0
