"""The paper's own theorems as an accountant, the method called "paper": for reproducing and comparing.

Theorems 2 (fixed ring), 3 (random ring) and 4 (random walk) bound epsilon_skip for a total of
delta + delta_prime, with the misprints of Theorem 4 mended. They are not for promising privacy. The number of visits
comes from a Chernoff bound outside its range for short runs. The final model that all nodes receive is not counted.
Theorems 3 and 4 fail when few nodes take part per round (`PaperBound.doubt` says where a value is not shown to hold).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc

from .._arrays import Doubles
from .._binomial import binomial_tails
from ..errors import (
    LEAST_DELTA,
    InvalidInput,
    require_delta,
    require_integer,
    require_non_negative,
    require_open_unit,
    require_positive,
    require_probability_below_one,
)
from ..timeouts import TurnLaw
from .accountant import ANOTHER_NODE, Guarantee
from .forecast import forecast
from .gaussian import ROUNDING, smallest
from .orders import AgreedOrder
from .record import IndependentSkips, Members, PlannedRun, Protected, SureOthers

_CHUNK = 1 << 17  # Numbers of updates handled at once: bounds the memory, and fits a cache.
_QUADRATURE = 20  # Nodes that replace the sum over all numbers of updates from round 2 on.
_DIRECT = 64  # Rounds summed one by one before Euler-Maclaurin takes over.


class PaperBound:
    """What Theorem 2, 3 or 4 of the paper states for a run; it holds with delta + delta_prime.

    The paper protects a whole node. Its theorems use no more than how far one update moves if what is protected is
    replaced. So they speak about a person or a record as well, as long as it may contribute at every turn of its node.
    Rotation is refused.

    >>> from skipring.privacy import planned_run
    >>> run = planned_run(schedule="random-ring", nodes=1000, steps=24000, skip=1e-4, noise_multiplier=10.5976)
    >>> round(PaperBound(run, delta_prime=1e-12).epsilon(1e-6), 3)
    2.202
    """

    def __init__(self, run: PlannedRun, *, delta_prime: float) -> None:
        require_open_unit("delta_prime", delta_prime)
        delta_prime = float(delta_prime)
        kind = "the paper's theorems do not cover {}; the method tight does"
        if run.order_is_known:
            raise InvalidInput.because("schedule", run.schedule, kind.format("an order that is known"))
        if not run.convex:
            reason = "the paper's theorems are about convex losses only; the method tight covers others, too"
            raise InvalidInput.because("non_convex", "", reason)
        if isinstance(run.taking_part, SureOthers):
            raise InvalidInput.because("others", "", kind.format("skips that depend on each other"))
        if run.unit.parts != (1,):
            raise InvalidInput.because("parts", run.unit.every, kind.format("rows that take turns"))
        assert not isinstance(run.order, AgreedOrder)  # which is known
        covered = PlannedRun(
            order=type(run.order)(nodes=run.nodes, steps=run.steps),
            taking_part=IndependentSkips(skip=run.taking_part.skip),
            observer=Members(),
            unit=Protected(protects=run.protects),
            noise_multiplier=run.noise_multiplier,
        ).keywords
        for parameter, given in run.keywords.items():
            if covered.get(parameter) != given:
                raise InvalidInput.because(parameter, given, kind.format("this"))
        theorem = run.order.schedule.theorem
        assert theorem is not None
        self.run, self._theorem = run, theorem
        self.delta_prime = delta_prime
        self.method = "paper"

    def guarantee(self, delta: float, epsilon: float | None = None) -> Guarantee:
        """Return what the theorem states, at delta + delta_prime, and the `doubt`; or an epsilon known to be kept."""
        return Guarantee(
            protects=self.run.protects,
            whose="any node",
            against=ANOTHER_NODE,
            sees="which sees the token at each of its turns",
            method=self.method,
            delta=delta + self.delta_prime,
            epsilon=self.epsilon(delta) if epsilon is None else epsilon,
            doubt=self.doubt(delta) or None,
            not_covered="the final model" + ("" if self.run.protects == "node" else ", and all data of a node"),
            stated_by="the paper's theorem",
        )

    def doubt(self, delta: float) -> str:
        """Say why the value at `delta` is not shown to hold; empty where it is.

        Theorem 2 counts the target's updates, so its value holds where the exact probability of more updates than it
        counts is at most delta_prime. The proofs of Theorems 3 and 4 have gaps: their values are believed only where
        the tight forecast proves as much, at the same total delta.
        """
        delta = float(delta)
        run, epsilon = self.run, self.epsilon(delta)
        if run.order.schedule.turns is TurnLaw.IN_PLACE:
            counted = visits(run.nodes, run.steps, run.skip, self.delta_prime)
            beyond = _chance_of_more(counted, run.rounds, run.target_ready)
            if beyond <= self.delta_prime:
                return ""
            return (
                f"Theorem 2 counts {counted} updates of a node; more happen with probability {beyond:.2g}, above delta'"
                f" = {self.delta_prime:g}"
            )
        proven, total = forecast(run), delta + self.delta_prime
        if proven.keeps(epsilon, total):
            return ""
        return (
            f"Theorem {self._theorem} claims {epsilon:.4g}, and only {proven.epsilon(total):.4g} is proven;"
            " it is false where few nodes take part in a round"
        )

    def epsilon(self, delta: float) -> float:
        """Return epsilon; the statement holds with probability parameter delta + delta_prime."""
        require_delta(delta)
        if not delta + self.delta_prime < 1.0:
            raise InvalidInput("delta_prime", self.delta_prime, f"so small that with delta = {delta:g} it is below 1")
        run = self.run
        return stated_epsilon(
            self._theorem,
            nodes=run.nodes,
            steps=run.steps,
            skip=run.skip,
            noise_multiplier=run.noise_multiplier,
            delta=delta,
            delta_prime=self.delta_prime,
        )

    def with_noise(self, noise_multiplier: float) -> PaperBound:
        """Return what the theorem states for another noise."""
        return PaperBound(self.run.with_noise(noise_multiplier), delta_prime=self.delta_prime)

    @property
    def facts(self) -> dict[str, object]:
        """What is told of the accounting beside its guarantee."""
        return {"delta_prime": self.delta_prime}

    def kinds(self, delta: float) -> int:
        """Return 1: all units contribute at every turn."""
        return 1

    def excess(self, epsilon: float, delta: float, kind: int = 0) -> float:
        """Return the logarithm of how many times larger than its budget epsilon is."""
        require_positive("epsilon", epsilon)
        return math.log(self.epsilon(delta)) - math.log(epsilon)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta (without delta_prime, at least 1e-75) at which the theorem gives this epsilon."""
        require_non_negative("epsilon", epsilon)
        epsilon, largest = float(epsilon), (1.0 - self.delta_prime) * (1.0 - 1e-12)
        if self.epsilon(largest) > epsilon:
            raise InvalidInput("epsilon", epsilon, f"at least {self.epsilon(largest):.4g} for any delta below 1")
        if self.epsilon(LEAST_DELTA) <= epsilon:
            return LEAST_DELTA
        return smallest(lambda delta: self.epsilon(delta) <= epsilon, LEAST_DELTA, largest)


def _chance_of_more(counted: int, trials: int, probability: float) -> float:
    """Return P(Binomial(trials, probability) > counted), rounded up."""
    if counted >= trials:
        return 0.0
    return float(betainc(counted + 1.0, trials - counted, min(1.0, probability))) * ROUNDING


def paper_noise_multiplier(epsilon: float, delta: float) -> float:
    """Return the noise multiplier that the paper calls (epsilon, delta).

    With it one update, seen on its own when all of a node's data may change (sensitivity 2k), is (epsilon, delta)-DP by
    the classical Gaussian mechanism.

    >>> round(paper_noise_multiplier(1.0, 1e-6), 4)
    10.5976
    """
    require_positive("epsilon", epsilon)
    require_open_unit("delta", delta)
    return math.sqrt(8.0 * math.log(1.25 / float(delta))) / float(epsilon)


def visits(nodes: int, steps: int, skip: float, delta_prime: float) -> int:
    """Return how many times the paper lets an observer be visited, but for a probability of `delta_prime`.

    As in the paper: the mean m = steps (1 - skip) / nodes plus sqrt(3 m ln(1 / delta_prime)), rounded up. It
    can exceed the number of rounds, and holds only for m >= 3 ln(1 / delta_prime).

    >>> visits(1000, 24_000, 1e-4, 1e-6)
    56
    """
    _require_walk(nodes, skip, delta_prime)
    require_integer("steps", steps, 1)
    return int(_visits(nodes, [steps], skip, delta_prime)[0])


def stated_epsilon(theorem: int, *, steps: int, **run: Any) -> float:
    """Return what Theorem 2, 3 or 4 states for one length, with the keywords of `theorem_curve`.

    >>> given = dict(nodes=10, steps=1000, skip=1e-4, noise_multiplier=10.5976, delta=1e-6, delta_prime=1e-6)
    >>> [round(stated_epsilon(theorem, **given), 3) for theorem in (2, 3, 4)]
    [15.681, 12.108, 13.964]
    """
    return float(theorem_curve(theorem, steps=[steps], **run)[0])


def theorem_curve(
    theorem: int,
    *,
    nodes: int,
    steps: Sequence[int] | NDArray[np.integer],
    skip: float,
    noise_multiplier: float,
    delta: float,
    delta_prime: float,
) -> Doubles:
    """Return Theorem 2, 3 or 4 at many step counts, at little more than the cost of one.

    It holds, as the paper has it, with delta + delta_prime. Theorem 2 (fixed ring) is composition over the target's own
    updates, so it needs no convexity and holds for the other schedules, too. Theorem 3 is about the random ring, and
    Theorem 4 about the walk. For few nodes and many skips both are false: ask `PaperBound.doubt` first. Misprints of
    Theorem 4 are mended: the geometric weight is (1 - 2/n)^(d-1), and the order alpha is the best one, as in Theorem 3.
    (The printed alpha is legal too, and gives up to 6 % more where alpha is not capped.) The formulas are evaluated at
    every count, whole rounds or not, as in the paper's staircase figures.

    >>> theorem_curve(2, nodes=10, steps=[100, 105, 1000], skip=1e-4, noise_multiplier=10.5976, delta=1e-6,
    ...               delta_prime=1e-6).round(3).tolist()
    [6.075, 6.182, 15.681]
    """
    if theorem not in (2, 3, 4):
        raise InvalidInput("theorem", theorem, "2 (ring), 3 (random ring) or 4 (random walk)")
    _require_walk(nodes, skip, delta_prime)
    counts = list(steps)
    for count in counts:
        require_integer("steps", count, 1)
    visited, where = np.unique(_visits(nodes, counts, skip, delta_prime), return_inverse=True)
    return _epsilons(theorem, nodes, skip, visited, noise_multiplier=noise_multiplier, delta=delta)[where]


def _require_walk(nodes: int, skip: float, delta_prime: float) -> None:
    require_integer("nodes", nodes, 2)
    require_probability_below_one("skip", skip)
    require_open_unit("delta_prime", delta_prime)


def _visits(nodes: int, steps: ArrayLike, skip: float, delta_prime: float) -> Doubles:
    mean = np.asarray(steps, dtype=np.float64) * (1.0 - float(skip)) / nodes
    return np.asarray(np.ceil(mean + np.sqrt(3.0 * mean * -math.log(float(delta_prime)))))


def _epsilons(
    theorem: int, nodes: int, skip: float, counts: Doubles, *, noise_multiplier: float, delta: float
) -> Doubles:
    """Return the theorem's epsilon for each number of visits.

    In all three theorems the label epsilon enters as epsilon^2 / ln(1.25 / delta) = 8 / noise_multiplier^2.
    What is left of delta is ln(1 / delta), from the step from Renyi to approximate privacy.
    """
    require_positive("noise_multiplier", noise_multiplier)
    require_open_unit("delta", delta)
    # A float16 would round the bound.
    noise_multiplier, skip, delta = float(noise_multiplier), float(skip), float(delta)
    root_log_delta = math.sqrt(-math.log(delta))
    with np.errstate(over="ignore", divide="ignore"):  # Next to no noise epsilon is infinite, and said so.
        if theorem == 2:
            ratio = np.sqrt(2.0 * counts) / noise_multiplier
            return np.asarray(2.0 * root_log_delta * ratio + ratio * ratio)
        weight, last = _ring_weight(nodes, skip) if theorem == 3 else _walk_weight(nodes, skip)
        # The Renyi bound is alpha * root_rate^2, legal up to the order at which the divergence of one
        # interval may reach 1 / (alpha - 1): the condition of the weak convexity it is averaged with.
        root_rate = 2.0 * np.sqrt(_amplification(weight, last, counts)) / noise_multiplier
        # That order less 1 is (sqrt(1 + 2 z^2) - 1) / 2, z the noise multiplier; here without cancellation.
        largest = noise_multiplier * (noise_multiplier / (1.0 + math.hypot(1.0, math.sqrt(2.0) * noise_multiplier)))
        excess = np.minimum(root_log_delta / root_rate, largest)  # alpha - 1
        return np.asarray(root_rate * root_rate * (1.0 + excess) + root_log_delta**2 / excess)


def _ring_weight(nodes: int, skip: float) -> tuple[Callable[[Doubles], Doubles], int]:
    """Return the weight of h updates in an interval for Theorem 3, and the last h that has any.

    The paper draws the distance d uniformly from 1..n-1 and then h from Binomial(d, q). Summed over d that is
    P(Binomial(n, q) >= h + 1) / (q (n - 1)).
    """
    n = int(nodes)
    tails = binomial_tails(n, 1.0 - skip)[2 : n + 1]
    tails /= (1.0 - skip) * (n - 1.0)
    return lambda h: tails[h.astype(np.intp) - 1], max(1, int(np.count_nonzero(tails)))


def _walk_weight(nodes: int, skip: float) -> tuple[Callable[[Doubles], Doubles], int]:
    """Return the weight of h updates in an interval for Theorem 4, and the last h that matters.

    Here d is geometric with success probability 2/n; summed over d, with x = 1 - 2/n, the weight is
    (2/n) q (x q)^(h-1) / (1 - x p)^(h+1): geometric again.
    """
    q = 1.0 - skip
    hit = 2.0 / nodes
    stay = q + skip * hit  # 1 - x p
    first = hit * q / (stay * stay)
    if nodes == 2 or hit >= stay:  # for skip probabilities next to 1, stay is hit but for rounding
        return lambda h: np.full(len(h), first), 1
    log_ratio = math.log1p(-hit / stay)  # x q / (1 - x p) = 1 - (2/n) / (1 - x p)
    # Every h is charged about equally in the first round and less in later ones, so that what is left out
    # weighs at most about exp(-42) < 1e-18 of the whole.
    return lambda h: first * np.exp((h - 1.0) * log_ratio), 1 + math.ceil(42.0 / -log_ratio)


def _amplification(weight: Callable[[Doubles], Doubles], last: int, counts: Doubles) -> Doubles:
    """Return the a of Theorems 3 and 4 for each number of visits: its sum over r < visits and h <= last.

    With x = r + 1/h the summand h / gamma_{r,h} is g(x) / h (see `_charge`): one smooth function for all
    rounds. That pays twice. From round 2 on g is analytic far around every x in r + [0, 1], so that the sum
    over h becomes a 20-point quadrature exact to rounding (interpolation at Chebyshev nodes in s = 1/h, error
    about 9.9^-20). And from round 64 on the sum over rounds is an integral with Euler-Maclaurin corrections.
    The cost is linear in `last`, plus little per count.
    """
    first_rounds = np.zeros(2)
    moments = np.zeros(_QUADRATURE)  # sum_h weight(h) / h * T_j(2 / h - 1)
    for start in range(1, last + 1, _CHUNK):
        h = np.arange(float(start), float(min(last, start + _CHUNK - 1)) + 1.0)
        s = 1.0 / h
        charge_per_release = weight(h) * s
        first_rounds += charge_per_release @ _charge(s), charge_per_release @ _charge(1.0 + s)
        x = 2.0 * s - 1.0
        previous, current = np.ones_like(x), x
        for j in range(_QUADRATURE):
            moments[j] += charge_per_release @ previous
            previous, current = current, 2.0 * x * current - previous
    angles = (np.arange(_QUADRATURE) + 0.5) * (math.pi / _QUADRATURE)
    points = 0.5 * (1.0 + np.cos(angles))
    moments[1:] *= 2.0
    weights = np.cos(np.outer(angles, np.arange(_QUADRATURE))) @ moments / _QUADRATURE

    direct = _charge(np.arange(float(_DIRECT))[2:, None] + points) @ weights
    partial = np.cumsum(np.concatenate([[0.0], first_rounds, direct]))
    totals = partial[np.minimum(counts, _DIRECT).astype(np.intp)]
    late = counts > _DIRECT
    lower = _charge_antiderivative(_DIRECT + points)
    totals[late] += (_charge_antiderivative(counts[late, None] + points) - lower) @ weights
    return np.asarray(totals)


def _charge(x: Doubles) -> Doubles:
    """Return g(x) = (sqrt(x + 1) + sqrt(x))^2 / (4 x), where h / gamma_{r,h} = g(r + 1/h) / h.

    gamma's difference of square roots is turned into a sum, so that nothing cancels for large r.
    """
    return np.asarray(0.5 + 0.25 / x + 0.5 * np.sqrt(1.0 + 1.0 / x))


def _charge_antiderivative(x: Doubles) -> Doubles:
    """Return G such that G(b) - G(a) is the sum of g over a, a + 1, ..., b - 1, to rounding for a >= 64.

    Euler-Maclaurin: integral of g, minus g / 2, plus g' / 12, minus g''' / 720; the next term is 3e-14 at 64.
    """
    y = x + 1.0
    integral = 0.5 * x + 0.25 * np.log(x) + 0.5 * (np.sqrt(x * y) + np.arcsinh(np.sqrt(x)))
    root = -0.25 / (x * np.sqrt(x * y))  # derivative of sqrt(1 + 1/x) / 2
    slope = 1.5 / x + 0.5 / y  # minus the logarithmic derivative of `root`
    first = root - 0.25 / x**2
    third = root * (slope * slope + 1.5 / x**2 + 0.5 / y**2) - 1.5 / x**4
    return np.asarray(integral - 0.5 * _charge(x) + first / 12.0 - third / 720.0)
