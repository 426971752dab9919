"""The law of the leakage X along a random path, and what it means as (epsilon, delta).

A path of the token costs a pair (target, observer) some leakage X: the number of un-amplified releases that would
tell the observer as much. Given the path, the observer's view is mu-GDP with mu^2 = X (2k/sigma)^2; over random paths

    delta(epsilon) <= E[F(X)],   F(x) = delta of mu-GDP at mu = sqrt(x) 2k/sigma,

because the path is independent of the data and may be given to the observer. Any X that is larger, stochastically or
in the convex order, gives an upper bound, provided that F is replaced by a convex majorant in the second case. The
classes here hold such laws. All of their numbers are upper bounds, floating-point error included.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from .._binomial import binomial_pmf
from ..errors import InvalidInput
from .gaussian import ROUNDING, gdp_delta


@dataclass(frozen=True)
class Terms:
    """A random number of independent terms, each with finitely many values in [0, 1] and the remaining mass at 0.

    ``counts[i]`` is the probability that there are ``fewest + i`` terms and that they have this law.
    """

    values: Floats
    probabilities: Floats
    fewest: int
    counts: Floats


@dataclass(frozen=True)
class Block:
    """Some rounds, independent of each other, whose leakages have the same law: a mixture of sums of terms."""

    mixture: tuple[Terms, ...]
    repeats: int = 1

    @classmethod
    def single(cls, values: Floats, probabilities: Floats, repeats: int = 1) -> Block:
        """Return rounds of one term each."""
        return cls((Terms(values, probabilities, 1, np.ones(1)),), repeats)


@cache
def _chart_exponents() -> Floats:
    """Return the exponents at which every law is charted."""
    return np.geomspace(1e-9, 1e5, 200)


@dataclass(frozen=True)
class _Orders:
    """The Rényi orders alpha of the chart's exponents, and what the conversion to epsilon needs of them."""

    usable: NDArray[np.bool_]
    less_one: Floats  # alpha - 1
    log: Floats
    log_share: Floats  # ln((alpha - 1) / alpha)


@lru_cache(maxsize=1024)
def _orders(release: float) -> _Orders:
    """Return the orders for one release; a search for a noise asks for the same ones again and again."""
    alpha = 0.5 * (1.0 + np.sqrt(1.0 + 8.0 * _chart_exponents() / release))
    usable = (alpha > 1.0 + 1e-6) & (alpha < 1e9)
    alpha = alpha[usable]
    return _Orders(usable, alpha - 1.0, np.log(alpha), np.log1p(-1.0 / alpha))


class Leakage(ABC):
    """The law of the leakage X, or of something that is larger in the sense of the module's text."""

    #: Probability of the paths that the law leaves out; it is part of delta.
    failure: float = 0.0

    @abstractmethod
    def expectation(self, epsilon: float, release: float) -> float:
        """Return an upper bound of E[F(X)], where one release has mu^2 = `release`."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """No leakage is larger."""

    def delta(self, epsilon: float, release: float) -> float:
        """Return an upper bound of delta: that of the paths in the law, and the probability of the others."""
        return min(1.0, self.expectation(epsilon, release) + self.failure)

    @abstractmethod
    def log_mgf(self, theta: Floats) -> Floats:
        """Return an upper bound of ln E[exp(theta X)] for each theta >= 0."""

    def blocks(self, factor: float) -> list[Block]:
        """Return the law as independent rounds, their leakages multiplied by a factor of at most 1.

        Laws of a known order are none: which pair is the worst depends on the noise.
        """
        raise InvalidInput.because("forecasts", "a known order", "runs in a known order are not composed with others")

    def but_for(self, failure: float) -> Leakage:
        """Return the same law where, with so much probability more, something else may happen."""
        if failure == 0.0:
            return self
        other = copy.copy(self)
        other.failure = self.failure + failure
        return other

    @cached_property
    def chart(self) -> tuple[Floats, Floats]:
        """Some exponents theta with the log moment generating function there: what quick estimates start from."""
        theta = _chart_exponents()
        # A law that leaves out some paths has a mass a little below 1.
        return theta, np.maximum(self.log_mgf(theta), 0.0)

    def rough_epsilon(self, delta: float, release: float) -> float:
        """Return the epsilon that the Rényi divergences give: a little too large, but quick to find."""
        orders = _orders(release)
        mu = math.sqrt(self.largest * release)
        worst = 0.5 * mu * mu + mu * math.sqrt(-2.0 * math.log(delta))
        if not len(orders.less_one):
            return worst
        divergence = self.chart[1][orders.usable] / orders.less_one
        epsilon = divergence + orders.log_share - (math.log(delta) + orders.log) / orders.less_one
        return min(worst, max(0.0, float(np.min(epsilon))))


@dataclass(frozen=True)
class BinomialLeakage(Leakage):
    """X is the number of the target's own updates: valid always, without any amplification.

    This is the assumption-free bound: it needs nothing but bounded gradients, and holds for every observer and for
    every coalition of observers.
    """

    trials: int
    probability: float

    def but_for(self, failure: float) -> Leakage:
        """Return the law itself: it is about the target alone, whatever the others do."""
        return self

    @cached_property
    def _law(self) -> tuple[Floats, Floats]:
        first, pmf = binomial_pmf(self.trials, self.probability)
        return first + np.arange(len(pmf), dtype=np.float64), pmf

    @property
    def largest(self) -> float:
        """All trials succeed."""
        return float(self.trials)

    def expectation(self, epsilon: float, release: float) -> float:
        """Return E[F(X)], a finite sum."""
        counts, pmf = self._law
        return min(1.0, float(pmf @ gdp_delta(np.sqrt(counts * release), epsilon)) * ROUNDING)

    def blocks(self, factor: float) -> list[Block]:
        """Return one round per trial."""
        return [Block.single(np.array([factor]), np.array([self.probability]), self.trials)]

    def log_mgf(self, theta: Floats) -> Floats:
        """Return trials ln(1 - q + q e^theta)."""
        q = self.probability
        small = theta < 1.0  # either form is exact where it is used
        with np.errstate(over="ignore"):
            low = np.log1p(q * np.expm1(np.minimum(theta, 1.0)))
        high = theta + np.log(q + (1.0 - q) * np.exp(-theta)) if q > 0.0 else np.zeros_like(theta)
        return self.trials * np.where(small, low, high)


@cache
def _value_grid() -> Floats:
    """Return the values on which the law of one round is kept: 0, then geometric from 1e-6 to 1."""
    return np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 900)])


@lru_cache(maxsize=16)  # a megabyte each
def _exponentials(exponents: bytes) -> tuple[Floats, Floats]:
    """Return e^{theta y} - 1 for small theta and e^{theta y - scale} for others: laws are asked at the same ones."""
    theta = np.frombuffer(exponents)
    small = np.abs(theta) < 1.0
    column = theta[~small, None]
    scale = np.maximum(column - 600.0, 0.0)
    return np.expm1(theta[small, None] * _value_grid()), np.exp(column * _value_grid() - scale)


def spread(values: Floats, probabilities: Floats, grid: Floats) -> Floats:
    """Move each atom to its two neighbours on the grid, keeping its mean.

    This is a mean-preserving spread: the expectation of a convex function can only grow (there is no drift, as rounding
    up would have).
    """
    right = np.clip(np.searchsorted(grid, values, side="left"), 1, len(grid) - 1)
    gap = grid[right] - grid[right - 1]
    share = np.clip((values - grid[right - 1]) / gap, 0.0, 1.0)
    size = len(grid)
    moved = np.bincount(right, probabilities * share, size)
    moved = moved + np.bincount(right - 1, probabilities * (1.0 - share), size)
    return np.asarray(moved, dtype=np.float64)


@dataclass(frozen=True)
class _TiltedSum:
    """The law of the sum on a lattice, exponentially tilted so that the mass that decides delta has full precision."""

    theta: float
    log_mgf: float  # ln E exp(theta S) of the sum on the lattice
    points: Floats  # a window of the lattice
    mass: Floats  # the tilted law there
    error: float  # bound of the floating-point error of each mass
    largest: float  # the largest possible sum
    log_below: float  # ln of (Chernoff's bound of) the tilted probability of lying below the window
    log_above: float


class IndependentLeakage(Leakage):
    """X is at most, in the convex order, a sum of independent leakages of the rounds."""

    def __init__(self, blocks: list[Block], *, failure: float = 0.0, lattice: int = 1 << 15) -> None:
        self.failure = failure
        self._lattice = lattice
        self._grid = _value_grid()
        self._blocks = blocks
        terms = [part for block in blocks for part in block.mixture]
        self._rows = np.array([spread(part.values, part.probabilities, self._grid) for part in terms])
        self._rows[:, 0] = np.maximum(0.0, 1.0 - self._rows[:, 1:].sum(axis=1))
        self._tops = np.array([self._grid[np.nonzero(row)[0][-1]] for row in self._rows])
        self._sums: dict[int, _TiltedSum] = {}

    def blocks(self, factor: float) -> list[Block]:
        """Return the rounds that were given."""
        return [
            Block(tuple(replace(part, values=factor * part.values) for part in block.mixture), block.repeats)
            for block in self._blocks
        ]

    def _per_block(self) -> Iterator[tuple[Block, slice]]:
        """Yield each block with the rows of its mixture."""
        first = 0
        for block in self._blocks:
            yield block, slice(first, first + len(block.mixture))
            first += len(block.mixture)

    @cached_property
    def mean(self) -> float:
        """Expected leakage."""
        means = self._rows @ self._grid
        return sum(
            block.repeats
            * sum(
                mean * float(part.counts @ (part.fewest + np.arange(len(part.counts))))
                for mean, part in zip(means[rows], block.mixture, strict=True)
            )
            for block, rows in self._per_block()
        )

    @cached_property
    def largest(self) -> float:
        """The largest possible number of terms."""
        return sum(
            block.repeats * max(part.fewest + len(part.counts) - 1 for part in block.mixture) for block in self._blocks
        )

    def log_mgf(self, theta: Floats) -> Floats:
        """Return the sum of the rounds' log moment generating functions (also for theta < 0)."""
        theta = np.atleast_1d(np.asarray(theta, dtype=np.float64))
        # For small theta ln(1 + E(e^{theta Y} - 1)); else scaled so that nothing overflows, and where that leaves
        # nothing of a round with small values only, theta times its largest value.
        logs = np.empty((len(theta), len(self._rows)))
        small = np.abs(theta) < 1.0
        column = theta[~small, None]
        scale = np.maximum(column - 600.0, 0.0)
        near, far = _exponentials(theta.tobytes())
        logs[small] = np.log1p(near @ self._rows.T)
        means = far @ self._rows.T
        logs[~small] = np.where(means > 1e-280, scale + np.log(np.maximum(means, 1e-280)), column * self._tops)
        total = np.zeros_like(theta)
        for block, rows in self._per_block():
            total += block.repeats * _log_mixture(block.mixture, logs[:, rows])
        return total + np.abs(total) * 1e-12

    def _best_theta(self, epsilon: float, release: float) -> float:
        """Return the tilt of the best Rényi order for this epsilon: where the mass that decides delta lies."""
        theta, log_mgf = self.chart
        alpha = 0.5 * (1.0 + np.sqrt(1.0 + 8.0 * theta / release))
        return float(theta[int(np.argmin(log_mgf - (alpha - 1.0) * epsilon))])

    def _tilted(self, theta: float) -> _TiltedSum:
        """Return the tilted law of the sum; tilts are rounded to a few per octave, so that neighbours share one."""
        key = round(6.0 * math.log2(max(theta, 2.0**-40)))
        if key not in self._sums:
            self._sums[key] = self._convolve(2.0 ** (key / 6.0))
        return self._sums[key]

    def _window(self, theta: float) -> tuple[float, float, float, float]:
        """Return bottom and top of where the tilted sum lies but for e^-40, and the tilts that show it."""
        t = np.geomspace(1e-7, 1e2, 90)
        at, up, down = np.split(self.log_mgf(np.concatenate([[theta], theta + t, theta - t])), [1, 1 + len(t)])
        tops, bottoms = (up - at + 40.0) / t, (at - down - 40.0) / t
        i, j = int(np.argmin(tops)), int(np.argmax(bottoms))
        top = min(float(tops[i]), float(self.largest))
        # From 0 on there is nothing below; the bottom is raised only where the lattice would be too coarse.
        bottom = max(0.0, float(bottoms[j])) if top > 0.01 * self._lattice else 0.0
        return bottom, top, theta + float(t[i]), theta - float(t[j])

    def _convolve(self, theta: float) -> _TiltedSum:
        """Add up the rounds: a product of Fourier transforms of the tilted laws on a lattice."""
        bottom, top, upper_theta, lower_theta = self._window(theta)
        size = self._lattice
        while size - 2 < top - bottom:  # at least one point for each release
            size *= 2
        # The largest value of a round, 1, is a point of the lattice, so that sums end where they should.
        per_unit = math.floor((size - 2) / max(top - bottom, 1.5))
        step = 1.0 / per_unit
        start = math.floor(bottom * per_unit)
        lattice = np.arange(per_unit + 1) / per_unit
        tilts = np.array([theta, upper_theta, lower_theta])
        log_mgfs = np.zeros(3)
        product = np.ones(size // 2 + 1, dtype=np.complex128)
        whole = _growth(tilts, lattice)
        laws, logs = [], np.zeros((3, len(self._rows)))
        for i, row in enumerate(self._rows):
            kept = np.nonzero(row)[0]
            law = spread(self._grid[kept], row[kept], lattice)
            law = law[: int(np.nonzero(law)[0][-1]) + 1]
            growth = whole if len(law) == len(lattice) else _growth(tilts, lattice[: len(law)])
            totals = growth @ law
            logs[:, i] = np.log(totals) + np.maximum(tilts, 0.0) * lattice[len(law) - 1]
            laws.append(law * growth[0] / totals[0])
        transforms = _transforms(laws, size)
        for block, rows in self._per_block():
            block_logs = _log_mixture(block.mixture, logs[:, rows])
            log_mgfs += block.repeats * block_logs
            if _is_one_term(block.mixture):  # as on rings
                mixed = next(transforms)
            else:
                mixed = np.zeros(size // 2 + 1, dtype=np.complex128)
                for part, log_mgf in zip(block.mixture, logs[0, rows], strict=True):
                    counts = part.fewest + np.arange(len(part.counts))
                    weights = part.counts * np.exp(counts * log_mgf - block_logs[0])
                    mixed += _polynomial(weights, next(transforms), part.fewest)
            product *= mixed if block.repeats == 1 else _power(mixed, block.repeats)
        mass = np.maximum(np.fft.irfft(product, size), 0.0)
        others = 1.0 - 1.0 / max(1, self.largest)
        return _TiltedSum(
            theta=theta,
            log_mgf=float(log_mgfs[0]),
            points=step * (start + np.arange(size)),
            # Sums are known modulo `size`; what lies outside of the window wraps around and only adds.
            mass=np.roll(mass, -(start % size)),
            # Every factor is off by some 2^-52; so is a mass, times the mean size of the product without that factor.
            error=2.0**-52 * (4.0 * self.largest + 64.0) * 2.0 * float(np.mean(np.abs(product) ** others)),
            largest=float(self.largest),
            log_below=(float(log_mgfs[2] - log_mgfs[0]) + (theta - lower_theta) * step * start if start else -math.inf),
            log_above=float(log_mgfs[1] - log_mgfs[0]) - (upper_theta - theta) * step * (start + size - 1),
        )

    def expectation(self, epsilon: float, release: float) -> float:
        """Return E[Fhat(X)], where Fhat is a convex majorant of F."""
        law = self._tilted(self._best_theta(epsilon, release))
        majorant = convex_majorant(epsilon, release, self.mean)
        weights = np.exp(np.minimum(law.log_mgf - law.theta * law.points, 700.0)) * majorant(law.points)
        total = float(weights @ law.mass) + law.error * float(weights.sum())
        # Outside of the window, too, E Fhat(S) = M(theta) E_theta[e^{-theta S} Fhat(S)]; there the last bracket is
        # bounded by its largest value, cell by cell.
        for start, end, log_probability in (
            (0.0, law.points[0], law.log_below),
            (law.points[-1], law.largest, law.log_above),
        ):
            if end > start and log_probability > -math.inf:
                cells = np.linspace(start, end, 2001)
                heights = law.log_mgf + min(0.0, log_probability) - law.theta * cells[:-1]
                total += float(np.max(np.exp(np.minimum(heights, 700.0)) * majorant(cells[1:])))
        return total * ROUNDING


def _is_one_term(mixture: tuple[Terms, ...]) -> bool:
    """Say whether this is exactly one term, always."""
    return len(mixture) == 1 and mixture[0].fewest == 1 and mixture[0].counts.tolist() == [1.0]


def _growth(tilts: Floats, lattice: Floats) -> Floats:
    """Return exp(tilt x), scaled by its largest value on the lattice so that it cannot overflow."""
    return np.exp(tilts[:, None] * lattice - np.maximum(tilts, 0.0)[:, None] * lattice[-1])


def _transforms(laws: list[Floats], size: int) -> Iterator[NDArray[np.complex128]]:
    """Yield the Fourier transform of each law, padded with zeros: some at a time, as numpy plans each call anew."""
    for first in range(0, len(laws), 16):
        some = laws[first : first + 16]
        padded = np.zeros((len(some), max(map(len, some))))  # a law of one term is always shorter than `size`
        for row, law in zip(padded, some, strict=True):
            row[: len(law)] = law
        yield from np.fft.rfft(padded, size)


def _log_mixture(mixture: tuple[Terms, ...], logs: Floats) -> Floats:
    """Return ln of the mixture's moment generating function from those of single terms (a column each)."""
    if len(mixture) == 1 and len(mixture[0].counts) == 1:
        only: Floats = mixture[0].fewest * logs[:, 0]
        return only
    exponents = []
    for column, part in zip(logs.T, mixture, strict=True):
        counts = part.fewest + np.arange(len(part.counts))
        exponents.append(np.log(part.counts) + column[:, None] * counts)
    stacked = np.concatenate(exponents, axis=1)
    largest = stacked.max(axis=1)
    result: Floats = largest + np.log(np.exp(stacked - largest[:, None]).sum(axis=1))
    return result


def _polynomial(coefficients: Floats, base: NDArray[np.complex128], lowest: int) -> NDArray[np.complex128] | float:
    """Return sum_i coefficients[i] base**(lowest + i)."""
    total: NDArray[np.complex128] = np.full_like(base, coefficients[-1])
    for coefficient in coefficients[-2::-1]:  # in place: new arrays of this size cost more than the arithmetic
        np.multiply(total, base, out=total)
        total += coefficient
    return np.multiply(total, _power(base, lowest), out=total) if lowest else total


def _power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Return base**exponent by squaring: numpy's complex power is twenty times slower."""
    result: NDArray[np.complex128] | None = None
    base = base.copy()
    while True:
        if exponent & 1:
            if exponent == 1 and result is None:
                return base
            result = base.copy() if result is None else np.multiply(result, base, out=result)
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        np.multiply(base, base, out=base)


def convex_majorant(epsilon: float, release: float, near: float) -> Callable[[Floats], Floats]:
    """Return a convex, nondecreasing function that is nowhere below F.

    In y = mu^2 the function F is convex up to y* = 2 eps^2 / (1 + sqrt(1 + eps^2)) and concave after. The tangent at
    any t >= y*, t > 0, lies above F on the concave part, and on the convex part it crosses F at most once. So the
    larger of F and the tangent is convex and above F. (This also holds at epsilon = 0, where y* = 0 and F has no
    tangent.) `near` is where the mass of X lies; the tangent is taken there if that is in the concave part.
    """
    inflection = 2.0 * epsilon * epsilon / (1.0 + math.sqrt(1.0 + epsilon * epsilon))
    y = max(inflection, near * release, 1e-12)
    mu = math.sqrt(y)
    height = gdp_delta(mu, epsilon)
    # d delta / d mu = phi(eps/mu - mu/2), and d mu / dx = release / (2 mu).
    slope = math.exp(-0.5 * (epsilon / mu - 0.5 * mu) ** 2) / math.sqrt(2.0 * math.pi) * release / (2.0 * mu)

    def majorant(x: Floats) -> Floats:
        tangent = height + slope * (x - y / release)
        return np.maximum(gdp_delta(np.sqrt(x * release), epsilon), tangent)

    return majorant
