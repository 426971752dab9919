"""Any law of scipy, whose truncated mean is integrated numerically."""

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
from ._numbers import floats, spell
from .base import TAIL, Delay, Size, usable_points


@dataclass(frozen=True)
class ScipyDelay(Delay):
    """Any frozen law of `scipy.stats`, continuous or on the whole numbers, that is never negative.

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
        places = getattr(self.frozen.dist, "xk", np.zeros(1))
        if self._discrete and (np.any(low % 1.0) or np.any(np.asarray(places) % 1.0)):
            reason = "a discrete law must sit on whole numbers; a shift (0.1+scipy:...) may move it"
            raise InvalidInput.because("delay", self, reason)
        if self._discrete and math.isinf(high):
            try:  # laws without a formula add up one term after the other, and cannot
                self._survival(np.full(1, 1e300))
            except (ValueError, MemoryError, OverflowError):
                reason = "scipy cannot compute the tail of this law; use lomax or measured durations"
                raise InvalidInput.because("delay", self, reason) from None

    def __str__(self) -> str:
        dist = self.frozen.dist
        try:
            shapes, loc, scale = dist._parse_args(*self.frozen.args, **self.frozen.kwds)
            trailing = [loc, scale] if scale != 1 else [loc] if loc != 0 else []
            return ",".join([f"scipy:{dist.name}", *(spell(value) for value in [*shapes, *trailing])])
        except (AttributeError, TypeError, ValueError):  # no numbers to spell: arrays, or a law made by hand
            return f"scipy:{dist.name}"

    @property
    def _discrete(self) -> bool:
        return hasattr(self.frozen.dist, "pmf")

    @property
    def support(self) -> tuple[float, float]:
        """The earliest and the latest moment at which a node can become ready."""
        low, high = self.frozen.support()
        return float(low), float(high)

    def sample(self, rng: np.random.Generator, size: Size) -> Doubles:
        """Draw independent delays."""
        return floats(self.frozen.rvs(size=size, random_state=rng))

    def search_points(self) -> Doubles:
        """Return quantiles of a continuous law, the whole numbers that matter for a discrete one."""
        if not self._discrete:
            return super().search_points()
        edges, _ = self._areas
        end = self.upper_quantile(TAIL)
        if end <= edges[-1]:
            return usable_points(edges)
        return usable_points(edges, np.floor(np.geomspace(edges[-1], min(end, 1e300), 2000)))

    @cached_property
    def _areas(self) -> tuple[Doubles, Doubles]:
        """Moments, and the truncated mean at each of them."""
        if self._discrete:
            first = self.quantile(1e-17)
            last = min(max(self.upper_quantile(1e-17), first + 1.0), first + 2.0**17)
            edges = np.unique(np.append(0.0, np.arange(first, last + 1.0)))
            pieces = self._survival(edges[:-1]) * np.diff(edges)
        else:
            points = self.search_points()
            ends = [0.0, *(end for end in self.support if end < math.inf), points[-1]]
            edges = np.unique(np.concatenate([points[::8], ends]))
            pieces = self._area(edges[:-1], edges[1:])
        return edges, np.append(0.0, np.cumsum(pieces))

    def _area(self, low: Doubles, high: Doubles) -> Doubles:
        """Integrate the survival function over [low, high]; low is a whole number for a discrete law."""
        if not self._discrete:
            return _integrate(self._survival, low, high)
        # The sum over whole numbers is the integral of the interpolated survival function plus half its drop.
        whole = np.floor(high)

        def interpolated(t: Doubles) -> Doubles:
            below = np.floor(t)
            start = self._survival(below)
            return start + (t - below) * (self._survival(below + 1.0) - start)

        area = np.zeros_like(low)
        wide = whole > low
        if wide.any():
            area[wide] = _integrate(interpolated, low[wide], whole[wide])
        drop = 0.5 * (self._survival(low) - self._survival(whole))
        return area + drop + self._survival(whole) * (high - whole)

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
            pieces = self._area(beyond[:-1], beyond[1:])
            edges, waits = np.append(edges, beyond[1:]), np.append(waits, waits[-1] + np.cumsum(pieces))
        start = np.searchsorted(edges, t, side="right") - 1
        return waits[start] + self._area(edges[start], t)

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
        if self._discrete:
            return careful(probability)
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
