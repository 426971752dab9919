"""Laws that a formula describes: without memory, gamma, heavy-tailed, and never."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

import numpy as np
from scipy import special

from .._arrays import Doubles
from ..errors import InvalidInput
from .base import Delay, Size, StepLaw, Steps, floats, real_number, spell


@dataclass(frozen=True)
class _ClosedForm(Delay):
    """A law whose fields are its parameters, all of them finite and above 0."""

    def __post_init__(self) -> None:
        names = [parameter.name for parameter in fields(self)]
        for name in names:
            value = real_number(type(self).__name__, f"the {name}", getattr(self, name))
            object.__setattr__(self, name, value)
        for name in names:
            if not 0.0 < getattr(self, name) < math.inf:
                raise InvalidInput.because("delay", self, f"the {name} must be a finite number above 0")

    def __str__(self) -> str:
        parameters = ",".join(spell(getattr(self, parameter.name)) for parameter in fields(self))
        return f"{type(self).__name__.lower()}:{parameters}".removesuffix(":")


@dataclass(frozen=True)
class Constant(_ClosedForm, StepLaw):
    """A delay that is always the same.

    >>> law = Constant(2.0)
    >>> print(law, law.survival(1.9), law.survival(2.0), law.truncated_mean(1.5))
    constant:2 1.0 0.0 1.5
    """

    time: float

    @property
    def steps(self) -> Steps:
        """Nothing before the one moment, and all from it on."""
        return Steps(*np.array([[0.0, self.time], [1.0, 0.0], [0.0, 1.0], [0.0, self.time]]))

    def sample(self, rng: np.random.Generator, size: Size) -> Doubles:
        """Return the same delay, as often as asked for."""
        return np.full(size, self.time)


@dataclass(frozen=True)
class Exponential(_ClosedForm):
    """A delay without memory: how long one has waited says nothing about how long it still takes.

    >>> law = Exponential(2.0)
    >>> print(law, law.survival(0.0), round(law.quantile(0.5), 6))
    exponential:2 1.0 1.386294
    """

    # `field()` hides the inherited `mean` from the dataclass, which would take it for a default value.
    mean: float = field()

    def sample(self, rng: np.random.Generator, size: Size) -> Doubles:
        """Draw independent delays."""
        return rng.exponential(self.mean, size)

    def _survival(self, t: Doubles) -> Doubles:
        return np.exp(-t / self.mean)

    def _cdf(self, t: Doubles) -> Doubles:
        return -np.expm1(-t / self.mean)

    def _truncated_mean(self, t: Doubles) -> Doubles:
        return self.mean * self._cdf(t)

    def _mean(self) -> float:
        return self.mean

    def _quantile(self, probability: Doubles) -> Doubles:
        return -self.mean * np.log1p(-probability)

    def _upper_quantile(self, probability: Doubles) -> Doubles:
        return -self.mean * np.log(probability)


@dataclass(frozen=True)
class Gamma(_ClosedForm):
    """A gamma law: many quick answers and a few slow ones for a shape below 1, regular ones above.

    >>> law = Gamma(0.25, 1.0)
    >>> print(law, law.mean, round(law.upper_quantile(0.5), 5))
    gamma:0.25,1 0.25 0.04367
    """

    shape: float
    scale: float

    def sample(self, rng: np.random.Generator, size: Size) -> Doubles:
        """Draw independent delays."""
        return rng.gamma(self.shape, self.scale, size)

    def _survival(self, t: Doubles) -> Doubles:
        return floats(special.gammaincc(self.shape, t / self.scale))

    def _cdf(self, t: Doubles) -> Doubles:
        return floats(special.gammainc(self.shape, t / self.scale))

    def _truncated_mean(self, t: Doubles) -> Doubles:
        # The part of the mean below t is itself a gamma probability, of shape + 1.
        below = floats(special.gammainc(self.shape + 1.0, t / self.scale))
        return self._mean() * below + t * self._survival(t)

    def _mean(self) -> float:
        return self.shape * self.scale

    def _quantile(self, probability: Doubles) -> Doubles:
        return self.scale * floats(special.gammaincinv(self.shape, probability))

    def _upper_quantile(self, probability: Doubles) -> Doubles:
        return self.scale * floats(special.gammainccinv(self.shape, probability))


@dataclass(frozen=True)
class Lomax(_ClosedForm):
    """A heavy-tailed (Pareto type II) law: the longer one has waited, the longer it will still take.

    >>> law = Lomax(3.0, 2.0)
    >>> print(law, law.mean, round(law.upper_quantile(0.5), 5), Lomax(1.0, 2.0).mean)
    lomax:3,2 1.0 0.51984 inf
    """

    shape: float
    scale: float

    def sample(self, rng: np.random.Generator, size: Size) -> Doubles:
        """Draw independent delays."""
        return self.scale * rng.pareto(self.shape, size)

    def _survival(self, t: Doubles) -> Doubles:
        return np.exp(-self.shape * np.log1p(t / self.scale))

    def _cdf(self, t: Doubles) -> Doubles:
        return -np.expm1(-self.shape * np.log1p(t / self.scale))

    def _truncated_mean(self, t: Doubles) -> Doubles:
        # exprel(x) = (exp(x) - 1) / x carries the formula through shape 1, where it is a logarithm.
        growth = np.log1p(t / self.scale)
        return self.scale * growth * floats(special.exprel((1.0 - self.shape) * growth))

    def _mean(self) -> float:
        return self.scale / (self.shape - 1.0) if self.shape > 1.0 else math.inf

    def _quantile(self, probability: Doubles) -> Doubles:
        return self.scale * np.expm1(-np.log1p(-probability) / self.shape)

    def _upper_quantile(self, probability: Doubles) -> Doubles:
        return self.scale * np.expm1(-np.log(probability) / self.shape)


@dataclass(frozen=True)
class Never(_ClosedForm, StepLaw):
    """A node that is dead: it is never ready. Meant as a part of a mixture.

    >>> str(Never()), Never().survival(1e9), Never().truncated_mean(3.0)
    ('never', 1.0, 3.0)
    """

    @property
    def steps(self) -> Steps:
        """Nothing at any moment."""
        return Steps(*np.array([[0.0], [1.0], [0.0], [0.0]]))

    @property
    def support(self) -> tuple[float, float]:
        """An empty range: there is no finite moment at which this node becomes ready."""
        return math.inf, -math.inf

    def sample(self, rng: np.random.Generator, size: Size) -> Doubles:
        """Return infinite delays."""
        return np.full(size, math.inf)
