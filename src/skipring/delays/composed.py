"""Laws made of other laws: a fixed time before one, or a choice between several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._arrays import Doubles
from ..errors import InvalidInput
from .base import Delay, Size, floats, real_number, spell, usable_points


@dataclass(frozen=True)
class Shifted(Delay):
    """A fixed time that every answer takes, and a random delay after it.

    >>> from skipring.delays import Exponential
    >>> law = Shifted(0.1, Exponential(1.0))
    >>> print(law, law.mean, law.survival(0.1))
    0.1+exponential:1 1.1 1.0
    """

    constant: float
    law: Delay

    def __post_init__(self) -> None:
        object.__setattr__(self, "constant", real_number("Shifted", "the shift", self.constant))
        if not 0.0 <= self.constant < math.inf:
            raise InvalidInput.because("delay", self, "the shift must be a finite number of at least 0")

    def __str__(self) -> str:
        if isinstance(self.law, Mixture):  # the spelling knows no brackets: shift every part
            return str(Mixture((1.0,), (self,)))
        return f"{spell(self.constant)}+{self.law}"

    @property
    def mass_at_infinity(self) -> float:
        """The probability that a node is never ready."""
        return self.law.mass_at_infinity

    @property
    def support(self) -> tuple[float, float]:
        """The earliest and the latest finite moment at which a node can become ready."""
        low, high = self._later(floats(self.law.support)).tolist()
        return low, high

    def search_points(self) -> Doubles:
        """Return the shift itself and the moments of the shifted law."""
        return usable_points(self._later(np.append(0.0, self.law.search_points())))

    def sample(self, rng: np.random.Generator, size: Size) -> Doubles:
        """Draw independent delays."""
        return self.constant + self.law.sample(rng, size)

    def _later(self, t: Doubles) -> Doubles:
        # (t + c) - c may round to just before t, which would lose an atom at t.
        later = t + self.constant
        return np.where(later - self.constant < t, np.nextafter(later, math.inf), later)

    def _survival(self, t: Doubles) -> Doubles:
        return self.law.survival(t - self.constant)

    def _cdf(self, t: Doubles) -> Doubles:
        return self.law.cdf(t - self.constant)

    def _truncated_mean(self, t: Doubles) -> Doubles:
        return np.minimum(t, self.constant) + self.law.truncated_mean(np.maximum(t - self.constant, 0.0))

    def _mean(self) -> float:
        return self.constant + self.law.mean

    def _quantile(self, probability: Doubles) -> Doubles:
        return self._later(self.law.quantile(probability))

    def _upper_quantile(self, probability: Doubles) -> Doubles:
        return self._later(self.law.upper_quantile(probability))


@dataclass(frozen=True)
class Mixture(Delay):
    """Nodes of several kinds: each delay follows one of the laws, chosen by its weight.

    >>> from skipring.delays import Exponential, Never
    >>> law = Mixture([0.9, 0.1], [Exponential(1.0), Never()])
    >>> print(law, law.mass_at_infinity, law.mean)
    0.9*exponential:1|0.1*never 0.1 inf
    """

    weights: Sequence[float]
    laws: Sequence[Delay]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", tuple(real_number("Mixture", "a weight", w) for w in self.weights))
        object.__setattr__(self, "laws", tuple(self.laws))
        if len(self.weights) != len(self.laws) or not self.laws:
            reason = f"it needs as many weights as laws, not {len(self.weights)} and {len(self.laws)}"
            raise InvalidInput.because("delay", self, reason)
        if not all(0.0 < w < math.inf for w in self.weights) or abs(math.fsum(self.weights) - 1.0) > 1e-9:
            raise InvalidInput.because("delay", self, "the weights must be above 0 and sum to 1")
        parts = [part for w, law in zip(self.weights, self.laws, strict=True) for part in _parts(w, law)]
        object.__setattr__(self, "weights", tuple(weight for weight, _ in parts))
        object.__setattr__(self, "laws", tuple(law for _, law in parts))

    def __str__(self) -> str:
        # Not strict: a refusal of unequal lengths spells the mixture as well.
        return "|".join(f"{spell(w)}*{law}" for w, law in zip(self.weights, self.laws, strict=False))

    @cached_property
    def _weights(self) -> Doubles:
        return np.array(self.weights) / math.fsum(self.weights)

    @property
    def mass_at_infinity(self) -> float:
        """The probability that a node is never ready."""
        return float(sum(w * law.mass_at_infinity for w, law in zip(self._weights, self.laws, strict=True)))

    @property
    def support(self) -> tuple[float, float]:
        """The earliest and the latest finite moment at which a node can become ready."""
        return min(law.support[0] for law in self.laws), max(law.support[1] for law in self.laws)

    def search_points(self) -> Doubles:
        """Return the moments of all the laws."""
        return usable_points(*(law.search_points() for law in self.laws))

    def sample(self, rng: np.random.Generator, size: Size) -> Doubles:
        """Draw independent delays."""
        kinds = np.searchsorted(np.cumsum(self._weights)[:-1], rng.random(size), side="right")
        drawn = np.empty(kinds.shape)
        for kind, law in enumerate(self.laws):
            drawn[kinds == kind] = law.sample(rng, int((kinds == kind).sum()))
        return drawn

    def _blend(self, values: Sequence[Doubles]) -> Doubles:
        return floats(np.tensordot(self._weights, np.stack(values), axes=1))

    def _survival(self, t: Doubles) -> Doubles:
        return self._blend([law.survival(t) for law in self.laws])

    def _cdf(self, t: Doubles) -> Doubles:
        return self._blend([law.cdf(t) for law in self.laws])

    def _truncated_mean(self, t: Doubles) -> Doubles:
        return self._blend([law.truncated_mean(t) for law in self.laws])

    def _mean(self) -> float:
        return float(sum(w * law.mean for w, law in zip(self._weights, self.laws, strict=True)))

    def _quantile(self, probability: Doubles) -> Doubles:
        # The cdf rounds to its limit long before an unbounded support ends.
        at_end = probability >= 1.0 - self.mass_at_infinity
        found = super()._quantile(probability)
        return np.where(at_end & (found < math.inf), self.support[1], found)

    def _upper_quantile(self, probability: Doubles) -> Doubles:
        never = self.mass_at_infinity
        beyond = np.where(probability < never, math.inf, self.support[1])
        return np.where(probability > never, super()._upper_quantile(probability), beyond)


def _parts(weight: float, law: Delay) -> list[tuple[float, Delay]]:
    """Write a mixture within a mixture, shifted or not, as parts of one mixture."""
    constant, inner = (law.constant, law.law) if isinstance(law, Shifted) else (0.0, law)
    if not isinstance(inner, Mixture):
        return [(weight, law)]
    return [
        (weight * w, Shifted(constant, part) if constant else part)
        for w, part in zip(inner.weights, inner.laws, strict=True)
    ]
