"""How well two Gaussians can be told apart: mu-GDP as (epsilon, delta)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, ndtr

from .._arrays import Floats
from ..errors import InvalidInput, require_delta, require_non_negative

_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
#: Formulas here are good to some 1e-11, and sums and transforms of them lose little. Bounds are raised by this much,
#: which is more than rounding can take (tests/privacy/test_rounding.py has interval arithmetic look).
ROUNDING = 1.0 + 1e-9
#: Below this mu the two Mills ratios agree to nearly all digits, so that their difference is expanded instead.
_SMALL_MU = 1e-3


@overload
def _mills(a: float) -> float: ...
@overload
def _mills(a: Floats) -> Floats: ...
def _mills(a: float | Floats) -> float | Floats:
    """Return the Mills ratio Phi(-a)/phi(a)."""
    ratio: float | Floats = _SQRT_HALF_PI * erfcx(a * _SQRT_HALF)
    return ratio


def _delta(mu: Floats, epsilon: float) -> Floats:
    """Return delta(epsilon) of mu-GDP for many mu > 0, to about 11 digits, down to 1e-300.

    Balle & Wang (2018): delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu). With a = eps/mu - mu/2 the second
    term is phi(a) times the Mills ratio at a + mu, so that nothing overflows and, for a >= 0, one factor phi(a)
    carries all the smallness.
    """
    a = epsilon / mu - 0.5 * mu
    delta = np.zeros_like(a)  # far out (a > 40) it is below 1e-300
    small = mu < _SMALL_MU
    # Each form is computed only where it is used: these functions are what accountants spend their time in.
    upper = ((a >= 0.0) | small) & (a <= 40.0)
    b, width, tiny = a[upper], mu[upper], small[upper]
    difference = _mills(b) - _mills(b + width)
    if tiny.any():
        difference[tiny] = _small_difference(b[tiny], width[tiny])
    delta[upper] = np.exp(-0.5 * b * b - _LOG_SQRT_2PI) * difference
    lower = (a < 0.0) & ~small
    b = a[lower]
    delta[lower] = ndtr(-b) - np.exp(-0.5 * b * b - _LOG_SQRT_2PI) * _mills(b + mu[lower])
    return np.clip(delta, 0.0, 1.0)


def _one_delta(mu: float, epsilon: float) -> float:
    """Return what `_delta` does for a single mu: a search for a root asks a thousand times."""
    mu = min(max(mu, 1e-300), 1e150)
    a = epsilon / mu - 0.5 * mu
    if a > 40.0:
        return 0.0
    density = np.exp(-0.5 * a * a - _LOG_SQRT_2PI)
    if mu < _SMALL_MU:
        delta = density * _small_difference(a, mu)
    elif a >= 0.0:
        delta = density * (_mills(a) - _mills(a + mu))
    else:
        delta = ndtr(-a) - density * _mills(a + mu)
    return min(max(float(delta), 0.0), 1.0)


@overload
def _small_difference(a: float, mu: float) -> float: ...
@overload
def _small_difference(a: Floats, mu: Floats) -> Floats: ...
def _small_difference(a: float | Floats, mu: float | Floats) -> float | Floats:
    """Return R(a) - R(a + mu) for small mu, R being the Mills ratio, whose derivative is R' = a R - 1.

    Around the middle m it is mu (-R'(m)) + mu^3/24 (-R'''(m)), up to terms of order mu^5.
    """
    m = a + 0.5 * mu
    ratio = _mills(m)
    first = m * ratio - 1.0
    third = 2.0 * first + m * (ratio + m * first)
    return -mu * first - mu**3 / 24.0 * third


@overload
def gdp_delta(mu: float, epsilon: float) -> float: ...
@overload
def gdp_delta(mu: Floats, epsilon: float) -> Floats: ...
def gdp_delta(mu: ArrayLike, epsilon: float) -> float | Floats:
    """Return the smallest delta for which mu-GDP implies (epsilon, delta)-DP.

    >>> round(gdp_delta(1.0, 1.0), 6)
    0.126937
    """
    require_non_negative("epsilon", epsilon)
    values = np.asarray(mu, dtype=np.float64)
    if not np.all(values >= 0.0):
        raise InvalidInput("mu", mu, "a number of at least 0")
    if values.ndim == 0:
        return _one_delta(float(values), float(epsilon)) if values > 0.0 else 0.0
    positive = np.clip(values, 1e-300, 1e150)
    with np.errstate(over="ignore"):
        delta: Floats = np.where(values > 0.0, _delta(positive, float(epsilon)), 0.0)
    return delta


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon for which mu-GDP implies (epsilon, delta)-DP, rounded up; infinity if mu is.

    >>> round(gdp_epsilon(1.0, 1e-6), 4)
    4.8866
    """
    require_delta(delta)
    if mu == math.inf:  # no noise: nothing is hidden
        return math.inf
    require_non_negative("mu", mu)
    mu, delta = float(mu), float(delta)
    if mu == 0.0 or gdp_delta(mu, 0.0) <= delta:
        return 0.0
    ceiling = 0.5 * mu * mu + mu * math.sqrt(2.0 * math.log(1.0 / delta)) + 1e-12
    return smallest(lambda epsilon: _one_delta(mu, epsilon) <= delta, 0.0, ceiling)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP implies (epsilon, delta)-DP, rounded down.

    >>> round(gdp_mu(1.0, 1e-6), 5)
    0.2367
    """
    require_delta(delta)
    require_non_negative("epsilon", epsilon)
    epsilon, delta = float(epsilon), float(delta)
    low, high = 0.0, 1.0
    while high < 1e150 and _one_delta(high, epsilon) <= delta:  # beyond, all mu are taken for one
        low, high = high, 2.0 * high
    for _ in range(2000):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if _one_delta(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def smallest(holds: Callable[[float], bool], low: float, high: float, *, relative: float = 1e-13) -> float:
    """Return the upper end of a bracket around the point from which `holds` is true; `high` is known to hold."""
    for _ in range(2000):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high or high - low <= relative * high:
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
