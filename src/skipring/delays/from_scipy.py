"""Any continuous law of scipy, whose truncated mean is integrated numerically."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from .._arrays import Doubles
from ..errors import InvalidInput
from .base import Delay, Size, floats, spell


@dataclass(frozen=True)
class ScipyDelay(Delay):
    """Any frozen law of `scipy.stats`, that is continuous and never negative.

    >>> from scipy import stats
    >>> law = ScipyDelay(stats.weibull_min(0.5))
    >>> print(law, round(law.truncated_mean(1.0), 6), law.mean)
    scipy:weibull_min,0.5 0.528482 2.0
    """

    frozen: Any

    def __post_init__(self) -> None:
        if not hasattr(self.frozen, "dist") or not hasattr(self.frozen, "support"):
            raise InvalidInput("delay", self.frozen, "a frozen law, such as scipy.stats.weibull_min(0.5)")
        low, high = self.frozen.support()
        if np.ndim(low) > 0:
            raise InvalidInput.because("delay", self, "its parameters must be single numbers, not arrays")
        if np.isnan(low) or np.isnan(high):
            raise InvalidInput.because("delay", self, "scipy does not allow these parameters for this law")
        if low < 0.0:
            reason = f"its support starts at {spell(low)}, but negative delays are impossible"
            raise InvalidInput.because("delay", self, reason)
        if hasattr(self.frozen.dist, "pmf"):
            raise InvalidInput.because("delay", self, "is a law of whole numbers, and durations have any size")

    def __str__(self) -> str:
        dist = self.frozen.dist
        try:
            shapes, loc, scale = dist._parse_args(*self.frozen.args, **self.frozen.kwds)
            trailing = [loc, scale] if scale != 1 else [loc] if loc != 0 else []
            return ",".join([f"scipy:{dist.name}", *(spell(value) for value in [*shapes, *trailing])])
        except (AttributeError, TypeError, ValueError):  # no numbers to spell: arrays, or a law made by hand
            return f"scipy:{dist.name}"

    @property
    def support(self) -> tuple[float, float]:
        """The earliest and the latest moment at which a node can become ready."""
        low, high = self.frozen.support()
        return float(low), float(high)

    def sample(self, rng: np.random.Generator, size: Size) -> Doubles:
        """Draw independent delays."""
        return floats(self.frozen.rvs(size=size, random_state=rng))

    @cached_property
    def _areas(self) -> tuple[Doubles, Doubles]:
        """Moments, and the truncated mean at each of them."""
        points = self.search_points()
        ends = [0.0, *(end for end in self.support if end < math.inf), points[-1]]
        edges = np.unique(np.concatenate([points[::8], ends]))
        return edges, np.append(0.0, np.cumsum(_integrate(self._survival, edges[:-1], edges[1:])))

    def _survival(self, t: Doubles) -> Doubles:
        with np.errstate(all="ignore"):
            return floats(self.frozen.sf(t))

    def _cdf(self, t: Doubles) -> Doubles:
        with np.errstate(all="ignore"):
            return floats(self.frozen.cdf(t))

    def _truncated_mean(self, t: Doubles) -> Doubles:
        edges, waits = self._areas
        longest = t.max(initial=0.0)
        if longest > edges[-1]:  # far in the tail: doubling pieces, each of them smooth
            beyond = edges[-1] * 2.0 ** np.arange(math.ceil(math.log2(longest / edges[-1])))
            pieces = _integrate(self._survival, beyond[:-1], beyond[1:])
            edges, waits = np.append(edges, beyond[1:]), np.append(waits, waits[-1] + np.cumsum(pieces))
        start = np.searchsorted(edges, t, side="right") - 1
        return waits[start] + _integrate(self._survival, edges[start], t)

    def _mean(self) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mean = float(self.frozen.mean())
        return math.inf if math.isnan(mean) else mean  # scipy's word for a mean that does not exist

    def _quantile(self, probability: Doubles) -> Doubles:
        return self._inverse(self.frozen.ppf, self._cdf, super()._quantile, probability)

    def _upper_quantile(self, probability: Doubles) -> Doubles:
        return self._inverse(self.frozen.isf, self._survival, super()._upper_quantile, probability)

    def _inverse(
        self,
        inverse: Callable[[Doubles], Any],
        function: Callable[[Doubles], Doubles],
        careful: Callable[[Doubles], Doubles],
        probability: Doubles,
    ) -> Doubles:
        # Many scipy laws invert the survival function as ppf(1 - p), which is wrong for tiny p.
        with np.errstate(all="ignore"):
            found = floats(inverse(probability))
        wrong = ~(np.abs(function(found) - probability) <= 1e-9 * probability)
        if wrong.any():
            found[wrong] = careful(probability[wrong])
        return found


@cache
def _gauss() -> tuple[Doubles, Doubles]:
    nodes, weights = np.polynomial.legendre.leggauss(8)
    return nodes, weights


def _integrate(function: Callable[[Doubles], Doubles], low: Doubles, high: Doubles) -> Doubles:
    """Integrate a survival function over every [low, high] at once, halving pieces until they are exact."""
    nodes, weights = _gauss()

    def rule(a: Doubles, b: Doubles) -> Doubles:
        half = 0.5 * (b - a)
        return floats(half * (function((a + half)[:, None] + half[:, None] * nodes) @ weights))

    total, owner, whole = np.zeros(low.shape), np.arange(len(low)), rule(low, high)
    scale = np.abs(whole)
    for _ in range(40):
        middle = 0.5 * (low + high)
        left, right = rule(low, middle), rule(middle, high)
        # Survival functions computed as 1 - cdf are noise below 1e-15: no halving would improve them.
        open_ = np.abs(left + right - whole) > 1e-12 * scale[owner] + 1e-15 * (high - low)
        np.add.at(total, owner[~open_], (left + right)[~open_])
        owner, low = np.tile(owner[open_], 2), np.append(low[open_], middle[open_])
        high, whole = np.append(middle[open_], high[open_]), np.append(left[open_], right[open_])
        if not owner.size or owner.size > 200_000:
            break
    np.add.at(total, owner, whole)
    return total
