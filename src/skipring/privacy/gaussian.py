"""How well two Gaussians can be told apart: mu-GDP as (epsilon, delta), and accountants that answer from one mu."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, ndtr

from .._arrays import Floats
from ..errors import LEAST_DELTA, InvalidInput, require_delta, require_non_negative

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


def narrow(
    excess: Callable[[float], float], low: float, at_low: float, high: float, at_high: float, *, width: float
) -> float:
    """Return the upper end of a bracket of at most this width around where a falling `excess` reaches 0.

    `at_low` is above 0 and `at_high` is not; so is `excess` at every lower and every upper end, which is what makes the
    answer a bound. Regula falsi, for logarithms of delta are nearly parabolas; an end that stays where it is counts
    less and less (Anderson and Björck), lest the other end do all the way. (scipy.optimize would do, but loading it
    takes longer than the calculation.)

    >>> round(narrow(lambda x: 2.0 - x * x, 1.0, 1.0, 2.0, -2.0, width=1e-9), 6)
    1.414214
    """
    moved = 0
    for turn in range(100):
        if high - low <= width:
            break
        share = at_low / (at_low - at_high) if turn % 6 < 5 else 0.5
        # Next to an end, a step that passes the root ends the search. It passes it by next to nothing: asked for the
        # noise of a budget, and then for the budget of that noise, the answers should agree.
        middle = min(max(low + share * (high - low), low + 1e-3 * width), high - 1e-3 * width)
        if not low < middle < high:
            break
        value = excess(middle)
        if value <= 0.0:
            at_low *= _weight(value, at_high) if moved > 0 else 1.0
            high, at_high, moved = middle, value, 1
        else:
            at_high *= _weight(value, at_low) if moved < 0 else 1.0
            low, at_low, moved = middle, value, -1
    return high


def _weight(value: float, before: float) -> float:
    """Return what the value at the other end counts after an end has moved twice in a row."""
    share = 1.0 - value / before if before != 0.0 else 0.5
    return share if share > 0.0 else 0.5


class GaussianAccountant(ABC):
    """Answers what an `Accountant` is asked for from `_worst_mu`; who inherits gives that, and a `guarantee`."""

    @abstractmethod
    def _worst_mu(self) -> float:
        """Return mu of the observer and the target for whom it is largest; 0 if nobody has learned anything."""

    def epsilon(self, delta: float) -> float:
        """Return epsilon of the observer who knows most."""
        return gdp_epsilon(self._worst_mu(), delta)

    def delta(self, epsilon: float) -> float:
        """Return delta of the observer who knows most; unless it is 0, it is at least `LEAST_DELTA`."""
        mu = self._worst_mu()
        return max(gdp_delta(mu, float(epsilon)), LEAST_DELTA if mu > 0.0 else 0.0)

    def kinds(self, delta: float) -> int:
        """Return 1: the worst unit is found at once."""
        return 1

    def excess(self, epsilon: float, delta: float, kind: int = 0) -> float:
        """Return the logarithm of how many times larger than its budget delta is."""
        return math.log(max(self.delta(epsilon), 1e-320)) - math.log(delta)
