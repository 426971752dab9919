"""How far from the best model a run is expected to end: the error bound of Theorem 1.

Read it as a planning curve, for comparing timeouts, noise levels and lengths with each other. It certifies nothing: its
published proof treats the token and the next node as independent, which they are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ._arrays import Doubles
from ._binomial import binomial_pmf
from .errors import require_integer, require_non_negative, require_positive, require_probability_below_one
from .schedules import schedule_kind

# Numbers of updates rarer than exp(-60) are left out of an expectation. The terms of Theorem 1 differ between
# 1 and H updates by a factor of at most about H, so that is below rounding for any run that can be computed.
_LOG_CUT = 60.0


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is learned, with which noise and step size.

    Parameters
    ----------
    dimension : number of the model's parameters.
    diameter, gradient_bound : of the set that the parameters are kept in; the largest norm of a gradient, k.
    noise_multiplier : standard deviation of the noise in each coordinate, over `gradient_bound`.
    learning_rate : step size of the first update.
    """

    dimension: int
    diameter: float
    gradient_bound: float
    noise_multiplier: float
    learning_rate: float

    def __post_init__(self) -> None:
        _step_norm(self.gradient_bound, self.noise_multiplier, self.dimension)
        require_positive("diameter", self.diameter)
        require_positive("learning_rate", self.learning_rate)

    @property
    def largest_error(self) -> float:
        """The most that any model kept in the set is away from the best one."""
        return self.diameter * self.gradient_bound

    @property
    def spread(self) -> float:
        """What multiplies the optimisation term: (diameter^2 + rate^2 (k^2 + d sigma^2)) / rate."""
        norm = _step_norm(self.gradient_bound, self.noise_multiplier, self.dimension)
        return self.diameter * (self.diameter / self.learning_rate) + self.learning_rate * norm * norm


@dataclass(frozen=True)
class ErrorTerms:
    """The three parts of the error bound that depend on the path of the token, but not on the problem solved.

    `optimisation` multiplies the `spread` of a problem, `bias` and `no_update` its `largest_error`. The first falls
    like log(H) / sqrt(H) with the number of updates H. The second is what the fixed ring pays for visiting nodes in
    order, and 0 elsewhere. The third is the probability that nobody was ever ready in time.
    """

    optimisation: float
    bias: float
    no_update: float

    def bound(self, problem: Problem) -> float:
        """Return the bound on the expected error for one problem."""
        return self.optimisation * problem.spread + problem.largest_error * (self.bias + self.no_update)


def error_terms(*, schedule: str, nodes: int, steps: int, skip: float) -> ErrorTerms:
    """Return the parts of the error bound that do not depend on noise, learning rate or problem.

    Planning computes them once per (steps, skip) and then varies the rest for free.
    """
    kind = schedule_kind(schedule)
    require_integer("nodes", nodes, 2)
    require_probability_below_one("skip", skip)
    log_factor = kind.log_mixing_factor(nodes, skip)
    require_integer("steps", steps, 1, 10**8)
    first, pmf = binomial_pmf(int(steps), 1.0 - skip, log_cut=_LOG_CUT)
    if first == 0:
        first, pmf = 1, pmf[1:]
    last = first + len(pmf) - 1
    return ErrorTerms(
        optimisation=float(pmf @ _optimisation(first, last)),
        bias=float(pmf @ _bias(log_factor, first, last)) * math.sqrt(nodes),
        no_update=float(skip) ** int(steps),
    )


def error_bound(problem: Problem, *, schedule: str, nodes: int, steps: int, skip: float) -> float:
    """Return the bound on the expected error of the final model after `steps` hops (Theorem 1).

    The expectation over the random number of updates, Binomial(steps, 1 - skip), is exact.

    >>> paper = Problem(noise_multiplier=10.5976, dimension=8, diameter=10.0, gradient_bound=1.0, learning_rate=0.6)
    >>> round(error_bound(paper, schedule="random-ring", nodes=10, steps=1000, skip=0.5), 2)
    259.36
    >>> round(error_bound(paper, schedule="ring", nodes=10, steps=1000, skip=0.5), 2)
    259.55
    """
    return error_terms(schedule=schedule, nodes=nodes, steps=steps, skip=skip).bound(problem)


def best_learning_rate(*, diameter: float, gradient_bound: float, noise_multiplier: float, dimension: int) -> float:
    """Return the learning rate with the smallest error bound, whatever the schedule, steps and skips.

    The rate enters Theorem 1 only as (diameter^2 + rate^2 s) / rate with s = k^2 + d sigma^2, smallest at
    diameter / sqrt(s).

    >>> best_learning_rate(diameter=10.0, gradient_bound=1.0, noise_multiplier=1.0, dimension=8)
    3.3333333333333335
    """
    require_positive("diameter", diameter)
    return diameter / _step_norm(gradient_bound, noise_multiplier, dimension)


def _step_norm(gradient_bound: float, noise_multiplier: float, dimension: int) -> float:
    """Return sqrt(k^2 + d sigma^2), the root mean square length of a noisy gradient of length k."""
    require_positive("gradient_bound", gradient_bound)
    require_non_negative("noise_multiplier", noise_multiplier)
    require_integer("dimension", dimension, 1)
    return gradient_bound * math.hypot(1.0, math.sqrt(dimension) * noise_multiplier)


def _optimisation(first: int, last: int) -> Doubles:
    """Return (2 + ln(h + 1)) / sqrt(h + 1) for h = first..last."""
    m = np.arange(first + 1.0, last + 2.0)
    return np.asarray((2.0 + np.log(m)) / np.sqrt(m))


def _bias(log_factor: float, first: int, last: int) -> Doubles:
    """Return the bracket of Theorem 1 for h = first..last (first >= 1) in time linear up to a logarithm.

    With m = h + 1, l = |lambda_1| and G_m = l + ... + l^m the bracket is G_m / m + D_m, where the double sum
    D_m obeys D_{m+1} = l D_m + G_{m+1} / (m (m + 1)), D_1 = 0. All its terms are positive, so

        D_m = sum_s l^s y_{m-s},   y_m = G_m / (m (m - 1)),

    which the factorisation sum_s z^s = prod_k (1 + z^(2^k)) turns into log2 passes over the array. Stepping
    through the recurrence instead would need a compiled loop, and rounds once per step.
    """
    if log_factor == -math.inf:
        return np.zeros(last - first + 1)
    # Terms with l^s < exp(-45) / m are below rounding next to G_m / m: no need to begin before them.
    memory = math.inf
    if log_factor < 0.0:
        memory = (45.0 + math.log(last + 1.0)) / -log_factor
    start = 2 if memory >= first - 1 else first + 1 - math.ceil(memory)
    m = np.arange(float(start), last + 2.0)
    if log_factor < 0.0:
        geometric = (math.exp(log_factor) / math.expm1(log_factor)) * np.expm1(m * log_factor)
    else:  # So slow that even the logarithm has vanished.
        geometric = m.copy()
    double_sum = geometric / (m * (m - 1.0))
    lag = 1
    while lag < len(m) and lag * log_factor > -745.0:
        double_sum[lag:] += math.exp(lag * log_factor) * double_sum[:-lag]
        lag *= 2
    return np.asarray((geometric / m + double_sum)[first + 1 - start :])
