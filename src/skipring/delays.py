"""How long a node takes before it is ready: laws with closed forms, measured durations, and any law of scipy.

A delay may be infinite: a dead node never answers. Only numpy and `scipy.special` are imported with this
module; `scipy.stats` takes longer to load than most plans take to compute, so it waits until asked for.
"""

from __future__ import annotations

import csv
import math
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import special

from skipring.errors import InvalidInput

__all__ = [
    "Delay",
    "Empirical",
    "Exponential",
    "Gamma",
    "Lomax",
    "Mixture",
    "Never",
    "ScipyDelay",
    "Shifted",
    "parse_delay",
]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Size = int | tuple[int, ...]
Numbers = TypeVar("Numbers", float, Floats)  # one number in, one out; an array in, an array out

TAIL = 1e-12  # how deep into both tails a search for a timeout looks at first


class Delay(ABC):
    """The law of the time a node takes, possibly forever.

    Subclasses describe it for arrays of moments t >= 0; the public methods take floats or arrays alike.
    """

    def survival(self, t: Numbers) -> Numbers:
        """Return the probability that the node is not ready by time t; at infinity: that it never is."""
        moments = _moments(t)
        return _like(t, np.where(moments < 0.0, 1.0, self._survival(np.maximum(moments, 0.0))))

    def cdf(self, t: Numbers) -> Numbers:
        """Return the probability that the node is ready by time t, to full precision when it is tiny."""
        moments = _moments(t)
        return _like(t, np.where(moments < 0.0, 0.0, self._cdf(np.maximum(moments, 0.0))))

    def quantile(self, probability: Numbers) -> Numbers:
        """Return the first moment by which the node is ready with this probability (infinite if none).

        For probability 0 it is the earliest moment at which a node can be ready.
        """
        given = _probabilities(probability)
        return _like(probability, np.where(given == 0.0, self.support[0], self._quantile(given)))

    def upper_quantile(self, probability: Numbers) -> Numbers:
        """Return the first moment that the node misses with at most this probability, however tiny.

        >>> round(Exponential(1.0).upper_quantile(1e-12), 6)
        27.631021
        """
        given = _probabilities(probability)
        found = np.where(given == 1.0, self.support[0], self._upper_quantile(given))
        if self.mass_at_infinity == 0.0:
            found = np.where(given == 0.0, self.support[1], found)
        return _like(probability, found)

    def truncated_mean(self, t: Numbers) -> Numbers:
        """Return how long one waits on average if one never waits longer than t: E[min(T, t)].

        >>> round(Gamma(0.25, 1.0).truncated_mean(1.0), 6), Gamma(0.25, 1.0).truncated_mean(float("inf"))
        (0.199474, 0.25)
        """
        moments = _moments(t)
        finite = np.where(np.isinf(moments), 1.0, np.maximum(moments, 0.0))
        waits = np.where(moments < 0.0, moments, self._truncated_mean(finite))
        return _like(t, np.where(np.isposinf(moments), self._mean(), waits))

    @cached_property
    def mean(self) -> float:
        """The average delay; infinite for heavy tails, and if a node may never be ready."""
        return self._mean()

    @property
    def mass_at_infinity(self) -> float:
        """The probability that a node is never ready."""
        return 0.0

    @property
    def support(self) -> tuple[float, float]:
        """The earliest and the latest finite moment at which a node can become ready."""
        return 0.0, math.inf

    def search_points(self) -> Floats:
        """Return the moments that a search for a timeout starts from: dense in both tails, all atoms."""
        tail = np.geomspace(TAIL, 0.5, 1000)
        return _positive(self.quantile(tail), self.upper_quantile(tail))

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: Size) -> Floats:
        """Draw independent delays; some may be infinite."""

    # What a law provides, for arrays of t >= 0 and of probabilities in [0, 1].

    @abstractmethod
    def _survival(self, t: Floats) -> Floats: ...

    @abstractmethod
    def _cdf(self, t: Floats) -> Floats: ...

    @abstractmethod
    def _truncated_mean(self, t: Floats) -> Floats: ...

    @abstractmethod
    def _mean(self) -> float: ...

    def _quantile(self, probability: Floats) -> Floats:
        return _first_moment(lambda t: self._cdf(t) >= probability, probability.shape)

    def _upper_quantile(self, probability: Floats) -> Floats:
        return _first_moment(lambda t: self._survival(t) <= probability, probability.shape)


@dataclass(frozen=True)
class Exponential(Delay):
    """A delay without memory: how long one has waited says nothing about how long it still takes.

    >>> law = Exponential(2.0)
    >>> print(law, law.survival(0.0), round(law.quantile(0.5), 6))
    exponential:2 1.0 1.386294
    """

    # `field()` hides the inherited `mean` from the dataclass, which would take it for a default value.
    mean: float = field()

    def __post_init__(self) -> None:
        _positive_parameters(self, "mean")

    def __str__(self) -> str:
        return f"exponential:{_spell(self.mean)}"

    def sample(self, rng: np.random.Generator, size: Size) -> Floats:
        """Draw independent delays."""
        return rng.exponential(self.mean, size)

    def _survival(self, t: Floats) -> Floats:
        return _floats(np.exp(-t / self.mean))

    def _cdf(self, t: Floats) -> Floats:
        return _floats(-np.expm1(-t / self.mean))

    def _truncated_mean(self, t: Floats) -> Floats:
        return _floats(-self.mean * np.expm1(-t / self.mean))

    def _mean(self) -> float:
        return self.mean

    def _quantile(self, probability: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return _floats(-self.mean * np.log1p(-probability))

    def _upper_quantile(self, probability: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return _floats(-self.mean * np.log(probability))


@dataclass(frozen=True)
class Gamma(Delay):
    """A gamma law: many quick answers and a few slow ones for a shape below 1, regular ones above.

    >>> law = Gamma(0.25, 1.0)
    >>> print(law, law.mean, round(law.upper_quantile(0.5), 5))
    gamma:0.25,1 0.25 0.04367
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        _positive_parameters(self, "shape", "scale")

    def __str__(self) -> str:
        return f"gamma:{_spell(self.shape)},{_spell(self.scale)}"

    def sample(self, rng: np.random.Generator, size: Size) -> Floats:
        """Draw independent delays."""
        return rng.gamma(self.shape, self.scale, size)

    def _survival(self, t: Floats) -> Floats:
        return _floats(special.gammaincc(self.shape, t / self.scale))

    def _cdf(self, t: Floats) -> Floats:
        return _floats(special.gammainc(self.shape, t / self.scale))

    def _truncated_mean(self, t: Floats) -> Floats:
        # The part of the mean below t is itself a gamma probability, of shape + 1.
        return self._mean() * _floats(
            special.gammainc(self.shape + 1.0, t / self.scale)
        ) + t * self._survival(t)

    def _mean(self) -> float:
        return self.shape * self.scale

    def _quantile(self, probability: Floats) -> Floats:
        return _floats(self.scale * special.gammaincinv(self.shape, probability))

    def _upper_quantile(self, probability: Floats) -> Floats:
        return _floats(self.scale * special.gammainccinv(self.shape, probability))


@dataclass(frozen=True)
class Lomax(Delay):
    """A heavy-tailed (Pareto type II) law: the longer one has waited, the longer it will still take.

    >>> law = Lomax(3.0, 2.0)
    >>> print(law, law.mean, round(law.upper_quantile(0.5), 5), Lomax(1.0, 2.0).mean)
    lomax:3,2 1.0 0.51984 inf
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        _positive_parameters(self, "shape", "scale")

    def __str__(self) -> str:
        return f"lomax:{_spell(self.shape)},{_spell(self.scale)}"

    def sample(self, rng: np.random.Generator, size: Size) -> Floats:
        """Draw independent delays."""
        return self.scale * rng.pareto(self.shape, size)

    def _survival(self, t: Floats) -> Floats:
        return _floats(np.exp(-self.shape * np.log1p(t / self.scale)))

    def _cdf(self, t: Floats) -> Floats:
        return _floats(-np.expm1(-self.shape * np.log1p(t / self.scale)))

    def _truncated_mean(self, t: Floats) -> Floats:
        # exprel(x) = (exp(x) - 1) / x carries the formula through shape 1, where it is a logarithm.
        growth = np.log1p(t / self.scale)
        return _floats(self.scale * growth * special.exprel((1.0 - self.shape) * growth))

    def _mean(self) -> float:
        return self.scale / (self.shape - 1.0) if self.shape > 1.0 else math.inf

    def _quantile(self, probability: Floats) -> Floats:
        with np.errstate(divide="ignore", over="ignore"):
            return _floats(self.scale * np.expm1(-np.log1p(-probability) / self.shape))

    def _upper_quantile(self, probability: Floats) -> Floats:
        with np.errstate(divide="ignore", over="ignore"):
            return _floats(self.scale * np.expm1(-np.log(probability) / self.shape))


@dataclass(frozen=True)
class Never(Delay):
    """A node that is dead: it is never ready. Meant as a part of a mixture.

    >>> str(Never()), Never().survival(1e9), Never().truncated_mean(3.0)
    ('never', 1.0, 3.0)
    """

    def __str__(self) -> str:
        return "never"

    @property
    def mass_at_infinity(self) -> float:
        """The probability that a node is never ready: 1."""
        return 1.0

    @property
    def support(self) -> tuple[float, float]:
        """An empty range: there is no finite moment at which this node becomes ready."""
        return math.inf, -math.inf

    def search_points(self) -> Floats:
        """Return no moment at all: waiting never pays."""
        return np.empty(0)

    def sample(self, rng: np.random.Generator, size: Size) -> Floats:
        """Return infinite delays."""
        return np.full(size, math.inf)

    def _survival(self, t: Floats) -> Floats:
        return np.ones_like(t)

    def _cdf(self, t: Floats) -> Floats:
        return np.zeros_like(t)

    def _truncated_mean(self, t: Floats) -> Floats:
        return t

    def _mean(self) -> float:
        return math.inf


@dataclass(frozen=True)
class Empirical(Delay):
    """Measured durations, some of them censored: the node had not finished when the measurement stopped.

    The law is the Kaplan-Meier estimate. What it leaves after the last finished duration counts as never
    ready; so does a duration of infinity.

    >>> law = Empirical([1.0, 2.0, 2.0, 4.0], censored=[False, False, True, False])
    >>> law.survival(1.0), law.survival(2.0), law.mean
    (0.75, 0.5, 2.75)
    """

    durations: Sequence[float]
    censored: Sequence[bool] | None = None
    source: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "durations", tuple(_number(self, "a duration", d) for d in self.durations))
        wrong = next((d for d in self.durations if not d >= 0.0), None)
        if not self.durations:
            raise InvalidInput.because("delay", self, "there is no duration in it")
        if wrong is not None:
            raise InvalidInput.because("delay", self, f"a duration must be at least 0, not {_spell(wrong)}")
        if self.censored is not None:
            object.__setattr__(self, "censored", tuple(bool(c) for c in self.censored))
            if len(self.censored) != len(self.durations):
                reason = (
                    f"{len(self.durations)} durations need as many censored flags, not {len(self.censored)}"
                )
                raise InvalidInput.because("delay", self, reason)
        if not (np.isfinite(self.durations) & ~np.asarray(self.censored or False)).any():
            raise InvalidInput.because("delay", self, "no duration in it is one of a node that finished")

    @classmethod
    def from_csv(cls, path: str | Path) -> Empirical:
        """Read durations, and optionally whether each is censored, from the lines of a CSV file."""
        spelled = f"empirical:{path}"
        durations, censored = _read_durations(Path(path), spelled)
        return cls(durations, censored, source=str(path))

    def __str__(self) -> str:
        return f"empirical:{self.source or f'({len(self.durations)} durations)'}"

    @cached_property
    def _steps(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Event times, then survival, cdf and truncated mean just after each: Kaplan-Meier."""
        durations = np.sort(np.asarray(self.durations))
        late = np.isinf(self.durations) | np.asarray(self.censored or False)
        times, events = np.unique(np.asarray(self.durations)[~late], return_counts=True)
        at_risk = len(durations) - np.searchsorted(durations, times, side="left")
        left = at_risk - events
        # The product of left / at_risk, arranged to telescope without rounding where nothing is censored:
        # quantile(0.5) of ten durations must be the fifth, not the sixth.
        loss = np.cumprod(np.concatenate([[1.0], left[:-1] / at_risk[1:]]))
        survival = left / at_risk[0] * loss
        cdf = np.where(loss == 1.0, (at_risk[0] - left) / at_risk[0], 1.0 - survival)
        waits = times[0] + np.concatenate([[0.0], np.cumsum(survival[:-1] * np.diff(times))])
        return times, survival, cdf, waits

    @property
    def mass_at_infinity(self) -> float:
        """The probability that a node is never ready: what the last finished duration leaves."""
        return float(self._steps[1][-1])

    @property
    def support(self) -> tuple[float, float]:
        """The shortest and the longest duration that finished."""
        return float(self._steps[0][0]), float(self._steps[0][-1])

    def search_points(self) -> Floats:
        """Return the durations that finished: between two of them, waiting longer gains nothing."""
        return _positive(self._steps[0])

    def sample(self, rng: np.random.Generator, size: Size) -> Floats:
        """Draw durations as often as the estimate says; infinity for nodes that never finish."""
        times, _, cdf, _ = self._steps
        return _floats(np.append(times, math.inf)[np.searchsorted(cdf, rng.random(size), side="right")])

    def _survival(self, t: Floats) -> Floats:
        return _floats(np.append(1.0, self._steps[1])[np.searchsorted(self._steps[0], t, side="right")])

    def _cdf(self, t: Floats) -> Floats:
        return _floats(np.append(0.0, self._steps[2])[np.searchsorted(self._steps[0], t, side="right")])

    def _truncated_mean(self, t: Floats) -> Floats:
        times, survival, _, waits = self._steps
        last = np.searchsorted(times, t, side="right") - 1
        return _floats(np.where(last < 0, t, waits[last] + survival[last] * (t - times[last])))

    def _mean(self) -> float:
        return float(self._steps[3][-1]) if self.mass_at_infinity == 0.0 else math.inf

    def _quantile(self, probability: Floats) -> Floats:
        times, _, cdf, _ = self._steps
        return _floats(np.append(times, math.inf)[np.searchsorted(cdf, probability, side="left")])

    def _upper_quantile(self, probability: Floats) -> Floats:
        times, survival, _, _ = self._steps
        return _floats(np.append(times, math.inf)[np.searchsorted(-survival, -probability, side="left")])


@dataclass(frozen=True)
class Shifted(Delay):
    """A fixed time that every answer takes, and a random delay after it.

    >>> law = Shifted(0.1, Exponential(1.0))
    >>> print(law, law.mean, law.survival(0.1))
    0.1+exponential:1 1.1 1.0
    """

    constant: float
    law: Delay

    def __post_init__(self) -> None:
        object.__setattr__(self, "constant", _number(self, "the shift", self.constant))
        if not 0.0 <= self.constant < math.inf:
            raise InvalidInput.because("delay", self, "the shift must be a finite number of at least 0")

    def __str__(self) -> str:
        if isinstance(self.law, Mixture):  # the spelling knows no brackets: shift every part
            return str(Mixture((1.0,), (self,)))
        return f"{_spell(self.constant)}+{self.law}"

    @property
    def mass_at_infinity(self) -> float:
        """The probability that a node is never ready."""
        return self.law.mass_at_infinity

    @property
    def support(self) -> tuple[float, float]:
        """The earliest and the latest finite moment at which a node can become ready."""
        low, high = self._later(_floats(np.array(self.law.support))).tolist()
        return low, high

    def search_points(self) -> Floats:
        """Return the shift itself and the moments of the shifted law."""
        return _positive(self._later(np.append(0.0, self.law.search_points())))

    def sample(self, rng: np.random.Generator, size: Size) -> Floats:
        """Draw independent delays."""
        return self.constant + self.law.sample(rng, size)

    def _later(self, t: Floats) -> Floats:
        # (t + c) - c may round to just before t, which would lose an atom at t.
        later = t + self.constant
        return _floats(np.where(later - self.constant < t, np.nextafter(later, math.inf), later))

    def _survival(self, t: Floats) -> Floats:
        return self.law.survival(_floats(t - self.constant))

    def _cdf(self, t: Floats) -> Floats:
        return self.law.cdf(_floats(t - self.constant))

    def _truncated_mean(self, t: Floats) -> Floats:
        return np.minimum(t, self.constant) + self.law.truncated_mean(np.maximum(t - self.constant, 0.0))

    def _mean(self) -> float:
        return self.constant + self.law.mean

    def _quantile(self, probability: Floats) -> Floats:
        return self._later(self.law.quantile(probability))

    def _upper_quantile(self, probability: Floats) -> Floats:
        return self._later(self.law.upper_quantile(probability))


@dataclass(frozen=True)
class Mixture(Delay):
    """Nodes of several kinds: each delay follows one of the laws, chosen by its weight.

    >>> law = Mixture([0.9, 0.1], [Exponential(1.0), Never()])
    >>> print(law, law.mass_at_infinity, law.mean)
    0.9*exponential:1|0.1*never 0.1 inf
    """

    weights: Sequence[float]
    laws: Sequence[Delay]

    def __post_init__(self) -> None:
        object.__setattr__(self, "laws", tuple(self.laws))
        object.__setattr__(self, "weights", tuple(self.weights))
        if len(self.weights) != len(self.laws) or not self.laws:
            reason = f"it needs as many weights as laws, not {len(self.weights)} and {len(self.laws)}"
            raise InvalidInput.because("delay", self, reason)
        object.__setattr__(self, "weights", tuple(_number(self, "a weight", w) for w in self.weights))
        if not all(0.0 < w < math.inf for w in self.weights) or abs(math.fsum(self.weights) - 1.0) > 1e-9:
            raise InvalidInput.because("delay", self, "the weights must be above 0 and sum to 1")
        parts = [part for w, law in zip(self.weights, self.laws, strict=True) for part in _parts(w, law)]
        object.__setattr__(self, "weights", tuple(weight for weight, _ in parts))
        object.__setattr__(self, "laws", tuple(law for _, law in parts))

    def __str__(self) -> str:
        return "|".join(f"{_spell(w)}*{law}" for w, law in zip(self.weights, self.laws, strict=False))

    @cached_property
    def _weights(self) -> Floats:
        return _floats(np.array(self.weights) / math.fsum(self.weights))

    @property
    def mass_at_infinity(self) -> float:
        """The probability that a node is never ready."""
        return float(sum(w * law.mass_at_infinity for w, law in zip(self._weights, self.laws, strict=True)))

    @property
    def support(self) -> tuple[float, float]:
        """The earliest and the latest finite moment at which a node can become ready."""
        return min(law.support[0] for law in self.laws), max(law.support[1] for law in self.laws)

    def search_points(self) -> Floats:
        """Return the moments of all the laws."""
        return _positive(*(law.search_points() for law in self.laws))

    def sample(self, rng: np.random.Generator, size: Size) -> Floats:
        """Draw independent delays."""
        kinds = np.searchsorted(np.cumsum(self._weights)[:-1], rng.random(size), side="right")
        drawn = np.empty(kinds.shape)
        for kind, law in enumerate(self.laws):
            drawn[kinds == kind] = law.sample(rng, int((kinds == kind).sum()))
        return drawn

    def _blend(self, values: Sequence[Floats]) -> Floats:
        return _floats(np.tensordot(self._weights, np.stack(values), axes=1))

    def _survival(self, t: Floats) -> Floats:
        return self._blend([law.survival(t) for law in self.laws])

    def _cdf(self, t: Floats) -> Floats:
        return self._blend([law.cdf(t) for law in self.laws])

    def _truncated_mean(self, t: Floats) -> Floats:
        return self._blend([law.truncated_mean(t) for law in self.laws])

    def _mean(self) -> float:
        return float(sum(w * law.mean for w, law in zip(self._weights, self.laws, strict=True)))

    def _quantile(self, probability: Floats) -> Floats:
        # The cdf rounds to its limit long before an unbounded support ends.
        at_end = probability >= 1.0 - self.mass_at_infinity
        found = super()._quantile(probability)
        return _floats(np.where(at_end & (found < math.inf), self.support[1], found))

    def _upper_quantile(self, probability: Floats) -> Floats:
        never = self.mass_at_infinity
        beyond = np.where(probability < never, math.inf, self.support[1])
        return _floats(np.where(probability > never, super()._upper_quantile(probability), beyond))


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
        if not all(
            hasattr(self.frozen, name) for name in ("dist", "support", "sf", "isf", "cdf", "ppf", "rvs")
        ):
            raise InvalidInput("delay", self.frozen, "a frozen law, such as scipy.stats.weibull_min(0.5)")
        low, high = self.frozen.support()
        if np.ndim(low) > 0:
            raise InvalidInput.because("delay", self, "its parameters must be single numbers, not arrays")
        if np.isnan(low) or np.isnan(high):
            raise InvalidInput.because("delay", self, "scipy does not allow these parameters for this law")
        if low < 0.0:
            reason = f"its support starts at {_spell(low)}, but negative delays are impossible"
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
            return ",".join([f"scipy:{dist.name}", *(_spell(value) for value in [*shapes, *trailing])])
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

    def sample(self, rng: np.random.Generator, size: Size) -> Floats:
        """Draw independent delays."""
        return _floats(self.frozen.rvs(size=size, random_state=rng))

    def search_points(self) -> Floats:
        """Return quantiles of a continuous law, the whole numbers that matter for a discrete one."""
        if not self._discrete:
            return _positive(super().search_points())
        edges, _ = self._areas
        end = self.upper_quantile(TAIL)
        if end <= edges[-1]:
            return _positive(edges)
        return _positive(edges, np.floor(np.geomspace(edges[-1], min(end, 1e300), 2000)))

    @cached_property
    def _areas(self) -> tuple[Floats, Floats]:
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

    def _area(self, low: Floats, high: Floats) -> Floats:
        """Integrate the survival function over [low, high]; low is a whole number for a discrete law."""
        if not self._discrete:
            return _integrate(self._survival, low, high)
        # The sum over whole numbers is the integral of the interpolated survival function plus half its drop.
        whole = np.floor(high)

        def interpolated(t: Floats) -> Floats:
            below = np.floor(t)
            start = self._survival(below)
            return start + (t - below) * (self._survival(below + 1.0) - start)

        area = np.zeros_like(low)
        wide = whole > low
        if wide.any():
            area[wide] = _integrate(interpolated, low[wide], whole[wide])
        drop = 0.5 * (self._survival(low) - self._survival(whole))
        return area + drop + self._survival(whole) * (high - whole)

    def _survival(self, t: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return _floats(self.frozen.sf(t))

    def _cdf(self, t: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return _floats(self.frozen.cdf(t))

    def _truncated_mean(self, t: Floats) -> Floats:
        edges, waits = self._areas
        flat = np.ravel(t)
        if flat.size and flat.max() > edges[-1]:  # far in the tail: doubling pieces, each of them smooth
            beyond = edges[-1] * 2.0 ** np.arange(math.ceil(math.log2(flat.max() / edges[-1])))
            pieces = self._area(beyond[:-1], beyond[1:])
            edges, waits = np.append(edges, beyond[1:]), np.append(waits, waits[-1] + np.cumsum(pieces))
        start = np.searchsorted(edges, flat, side="right") - 1
        return _floats((waits[start] + self._area(edges[start], flat)).reshape(t.shape))

    def _mean(self) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mean = float(self.frozen.mean())
        return math.inf if math.isnan(mean) else mean  # scipy's word for a mean that does not exist

    def _quantile(self, probability: Floats) -> Floats:
        return self._inverse(self.frozen.ppf, self._cdf, super()._quantile, probability)

    def _upper_quantile(self, probability: Floats) -> Floats:
        return self._inverse(self.frozen.isf, self._survival, super()._upper_quantile, probability)

    def _inverse(
        self,
        inverse: Callable[[Floats], Any],
        function: Callable[[Floats], Floats],
        careful: Callable[[Floats], Floats],
        probability: Floats,
    ) -> Floats:
        # Many scipy laws invert the survival function as ppf(1 - p), which is wrong for tiny p.
        if self._discrete:
            return careful(probability)
        with np.errstate(all="ignore"):
            found = np.atleast_1d(_floats(inverse(probability)))
        given = np.atleast_1d(probability)
        wrong = ~(np.abs(function(found) - given) <= 1e-9 * given)
        if wrong.any():
            found[wrong] = careful(given[wrong])
        return _floats(found.reshape(probability.shape))


# -- spelling --------------------------------------------------------------------------------------

_PARAMETRIC: dict[str, tuple[Callable[..., Delay], tuple[str, ...]]] = {
    "exponential": (Exponential, ("mean",)),
    "gamma": (Gamma, ("shape", "scale")),
    "lomax": (Lomax, ("shape", "scale")),
    "never": (Never, ()),
}
_KNOWN = (
    "one of exponential:MEAN, gamma:SHAPE,SCALE, lomax:SHAPE,SCALE, empirical:FILE.csv, "
    "scipy:NAME,ARGUMENTS, never, CONSTANT+LAW, WEIGHT*LAW|WEIGHT*LAW"
)
_SHIFT = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf|nan)\s*\+(.*)", re.DOTALL)
_FLAGS = {"0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}


def parse_delay(text: str) -> Delay:
    """Return the delay law that a command line spells.

    >>> parse_delay("gamma:0.25,1")
    Gamma(shape=0.25, scale=1.0)
    >>> parse_delay("0.9*exponential:1|0.1*never").mass_at_infinity
    0.1
    """
    try:
        return _parse(text)
    except InvalidInput as error:
        part = str(error.given)
        reason = error.reason if part == text.strip() else f"in {part or 'an empty part'}, {error.reason}"
        raise InvalidInput.because("delay", text, reason) from None


def _parse(text: str) -> Delay:
    text = text.strip()
    name, _, rest = text.partition(":")
    if name == "empirical":
        return Empirical.from_csv(rest)
    if "|" in text or "*" in text:
        parts = [part.partition("*") for part in text.split("|")]
        weights = [_parse_number(text, "a weight", weight) for weight, _, _ in parts]
        return Mixture(weights, [_parse(law) for _, _, law in parts])
    if shift := _SHIFT.fullmatch(text):
        return Shifted(float(shift[1]), _parse(shift[2]))
    given = [part.strip() for part in rest.split(",")] if rest.strip() else []
    if name == "scipy" and given:
        return _parse_scipy(
            text, given[0], [_parse_number(text, "an argument", value) for value in given[1:]]
        )
    if name not in _PARAMETRIC:
        raise InvalidInput("delay", text, _KNOWN)
    law, parameters = _PARAMETRIC[name]
    if len(given) != len(parameters):
        wanted = f"{len(parameters)} ({', '.join(parameters)})" if parameters else "0"
        raise InvalidInput.because("delay", text, f"{name} takes {wanted} numbers, not {len(given)}")
    return law(
        *(_parse_number(text, f"the {what}", value) for what, value in zip(parameters, given, strict=True))
    )


def _parse_scipy(text: str, name: str, arguments: list[float]) -> Delay:
    from scipy import stats  # noqa: PLC0415 - slow to import

    law = getattr(stats, name, None)
    if not isinstance(law, (stats.rv_continuous, stats.rv_discrete)):
        raise InvalidInput.because("delay", text, f"scipy.stats has no univariate law called {name!r}")
    shapes = [shape.strip() for shape in law.shapes.split(",")] if law.shapes else []
    optional = ["loc"] if isinstance(law, stats.rv_discrete) else ["loc", "scale"]
    if not len(shapes) <= len(arguments) <= len(shapes) + len(optional):
        needed = f"{', '.join(shapes) or 'no shape'}, then optionally {', '.join(optional)}"
        raise InvalidInput.because("delay", text, f"{name} takes {needed}, not {len(arguments)} numbers")
    return ScipyDelay(law(*arguments))


def _parse_number(text: str, what: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InvalidInput.because("delay", text, f"{what} must be a number, not {value!r}") from None


def _read_durations(path: Path, spelled: str) -> tuple[list[float], list[bool] | None]:
    def refuse(reason: str) -> InvalidInput:
        return InvalidInput.because("delay", spelled, reason)

    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise refuse(f"the file cannot be read: {reason}") from None
    lines = [(number, cells) for number, cells in lines if any(cells)]
    columns = len(lines[0][1]) if lines else 1
    if lines and not _is_number(lines[0][1][0]) and lines[0][1][0][:1].isalpha():
        number, header = lines.pop(0)
        # A second column named "finished" would mean the opposite of what we read into it.
        if "censored" in header[0].lower() or (columns == 2 and header[1].lower() != "censored"):
            raise refuse(f"line {number}: the columns must be duration,censored, not {_short(header)}")
    if not lines:
        raise refuse("there is no duration in it")
    durations, censored = [], []
    for number, cells in lines:
        if len(cells) != columns or columns > 2:
            wanted = "1 or 2 columns" if columns > 2 else f"{columns} column{'s' * (columns > 1)} as above"
            raise refuse(f"line {number}: {wanted} expected, not {_short(cells)}")
        if not _is_number(cells[0]) or not float(cells[0]) >= 0.0:
            raise refuse(f"line {number}: a duration must be a number of at least 0, not {_short(cells[:1])}")
        if columns == 2 and cells[1].lower() not in _FLAGS:
            raise refuse(
                f"line {number}: censored must be 0/1, true/false or yes/no, not {_short(cells[1:])}"
            )
        durations.append(float(cells[0]))
        censored.append(columns == 2 and _FLAGS[cells[1].lower()])
    return durations, censored if columns == 2 else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _short(cells: list[str]) -> str:
    text = ",".join(cells)
    return repr(text if len(text) <= 40 else text[:37] + "...")


# -- small tools -----------------------------------------------------------------------------------


def _parts(weight: float, law: Delay) -> list[tuple[float, Delay]]:
    """Write a mixture within a mixture, shifted or not, as parts of one mixture."""
    constant, inner = (law.constant, law.law) if isinstance(law, Shifted) else (0.0, law)
    if not isinstance(inner, Mixture):
        return [(weight, law)]
    return [
        (weight * w, Shifted(constant, part) if constant else part)
        for w, part in zip(inner.weights, inner.laws, strict=True)
    ]


def _number(law: Delay, what: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidInput.because(
            "delay", type(law).__name__, f"{what} must be a number, not {value!r}"
        ) from None


def _positive_parameters(law: Delay, *names: str) -> None:
    for name in names:
        object.__setattr__(law, name, _number(law, f"the {name}", getattr(law, name)))
    for name in names:
        if not 0.0 < getattr(law, name) < math.inf:
            raise InvalidInput.because("delay", law, f"the {name} must be a finite number above 0")


def _spell(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _moments(t: float | Floats) -> Floats:
    moments = _floats(t)
    if np.isnan(moments).any():
        raise InvalidInput("timeout", "nan", "a number")
    return moments


def _probabilities(probability: float | Floats) -> Floats:
    given = _floats(probability)
    if not ((given >= 0.0) & (given <= 1.0)).all():
        raise InvalidInput("probability", probability, "between 0 and 1")
    return given


def _like(given: Numbers, values: Floats) -> Numbers:
    return cast(Numbers, float(values) if np.ndim(given) == 0 else values)


def _positive(*points: Floats) -> Floats:
    """Merge points, without those that no timeout can be and denormal numbers, which have lost digits."""
    merged = np.unique(np.concatenate(points))
    return _floats(merged[(merged > 1e-300) & (merged < math.inf)])


def _first_moment(reached: Callable[[Floats], Bools], shape: tuple[int, ...]) -> Floats:
    """Return, for each entry, the first double at which a condition that stays true holds; infinity if none.

    The bits of non-negative doubles are ordered as the doubles are, so 64 halvings find it exactly.
    """
    low = np.full(shape, -1, dtype=np.int64)
    high = np.full(shape, np.array(math.inf).view(np.int64), dtype=np.int64)
    for _ in range(64):
        middle = np.maximum(low + (high - low) // 2, 0)
        done = reached(middle.view(np.float64))
        low, high = np.where(done, low, middle), np.where(done, middle, high)
    return high.view(np.float64)


@cache
def _gauss() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(8)
    return nodes, weights


def _integrate(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Integrate a survival function over every [low, high] at once, halving pieces until they are exact."""
    nodes, weights = _gauss()

    def rule(a: Floats, b: Floats) -> Floats:
        half = 0.5 * (b - a)
        return _floats(half * (function((a + half)[:, None] + half[:, None] * nodes) @ weights))

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
