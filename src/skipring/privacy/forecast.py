"""Tight privacy of a run before it happens: what any observer will learn about any target."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LEAST_DELTA, InvalidInput, require_delta, require_non_negative
from ._rings import random_ring_leakage, ring_leakage
from ._roots import narrow
from ._walk import random_walk_leakage
from .accountant import AMPLIFIED, IN_FULL, Claim
from .leakage import BinomialLeakage, Block, IndependentLeakage, Leakage
from .record import PlannedRun

__all__ = ["Composition", "Forecast", "PrivacyCurve", "forecast"]

Floats = NDArray[np.floating[Any]]


class PrivacyCurve(ABC):
    """What an observer may learn about a target, as (epsilon, delta) for any of the two. All numbers are bounds."""

    #: mu^2 of one release that is charged in full.
    release: float

    @property
    @abstractmethod
    def claim(self) -> Claim:
        """Who is protected from whom, and by which argument."""

    def keeps(self, epsilon: float, delta: float) -> bool:
        """Say whether a budget is kept; it is exactly if `epsilon(delta)` is within it."""
        require_non_negative("epsilon", epsilon)
        require_delta(delta)
        epsilon, delta = float(epsilon), float(delta)
        return any(law.delta(epsilon, self.release) <= delta for law in self.laws(1e-3 * delta))

    @abstractmethod
    def laws(self, failure: float) -> list[Leakage]:
        """Return laws of the leakage, each a bound by itself, leaving out paths of at most this probability."""

    def delta(self, epsilon: float) -> float:
        """Return the delta that goes with an epsilon; never less than `LEAST_DELTA`, which no noise supports."""
        require_non_negative("epsilon", epsilon)
        epsilon = float(epsilon)
        # A thousandth of delta may be spent on unlikely paths; how much that is, is found by trying.
        best, failure = 1.0, 1e-12
        for _ in range(6):
            values = [(law.expectation(epsilon, self.release), law.failure) for law in self.laws(failure)]
            best = min(best, *(value + lost for value, lost in values))
            core = max(1e-300, min(value for value, _ in values))
            if math.floor(math.log10(1e-3 * core)) == math.floor(math.log10(failure)):
                break
            failure = 1e-3 * core
        return max(best, LEAST_DELTA)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that goes with a delta (rounded up)."""
        require_delta(delta)
        delta = float(delta)
        return min(_solve(law, delta, self.release) for law in self.laws(1e-3 * delta))

    def curve(self, epsilons: Iterable[float]) -> Floats:
        """Return delta for each epsilon."""
        return np.array([self.delta(float(epsilon)) for epsilon in epsilons])


class Forecast(PrivacyCurve):
    """What any observer will learn about any target in a run that has not happened yet.

    It is the smaller of the amplified bound, where the run allows one, and of the assumption-free bound that charges
    each update of the target in full.
    """

    def __init__(self, run: PlannedRun) -> None:
        self.run = run
        self.method = "tight"
        self.release = run.release
        self._plain = _assumption_free(run)
        self._amplified: dict[int, list[IndependentLeakage]] = {}

    @property
    def claim(self) -> Claim:
        """Who is protected from whom, and by which argument."""
        run = self.run
        target = "any node" if run.position is None else f"the node at place {run.position}"
        if run.target_skip is not None:
            target += f" that is skipped with probability {run.target_skip:g}"
        if run.observers > 1:
            observer = f"any {run.observers} other nodes together"
        elif run.distance is not None:
            observer = f"the node {run.distance} hops after it"
        else:
            observer = "any other node"
        slow = run.skip if run.observer_skip is None else run.observer_skip
        eager = "always ready" if run.view == "offered" else f"skipped with probability {slow:g} or more"
        return Claim(
            protected=target,
            against=f"{observer}, {eager}, who knows the path and sees the final model",
            method=self.method,
            view=run.view,
            assumptions=(AMPLIFIED if self.amplified else IN_FULL,),
            unit=run.protects,
        )

    @property
    def amplified(self) -> bool:
        """Whether the noise of others is counted."""
        alone = self.run.schedule == "ring" and self.run.distance in (None, 1)
        return self.run.convex and self.run.observers == 1 and not alone

    def laws(self, failure: float) -> list[Leakage]:
        """Return the assumption-free law and, where the run allows one, the amplified law."""
        laws: list[Leakage] = [self._plain]
        if self.amplified:
            # Powers of ten, so that neighbouring questions share one law.
            exponent = max(-307, math.floor(math.log10(failure)))
            if exponent not in self._amplified:
                self._amplified[exponent] = _amplified(self.run, 10.0**exponent)
            laws += self._amplified[exponent]
        return laws

    def with_noise(self, noise_multiplier: float) -> Forecast:
        """Return the forecast of the same run with another noise, sharing all work that does not depend on it."""
        other = Forecast(self.run.replace(noise_multiplier=noise_multiplier))
        other._plain, other._amplified = self._plain, self._amplified
        return other


class Composition(PrivacyCurve):
    """What an observer learns about a target from several runs over the same data, one after the other.

    A search over parameters is such a composition; what is chosen by its results is covered, too.

    >>> run = PlannedRun(schedule="random-ring", nodes=100, steps=1000, skip=0.5, noise_multiplier=10.0)
    >>> round(forecast(run).epsilon(1e-6), 2), round(Composition(*[forecast(run)] * 4).epsilon(1e-6), 2)
    (0.98, 1.57)
    """

    def __init__(self, *forecasts: Forecast) -> None:
        if not forecasts:
            raise InvalidInput("forecasts", "nothing", "at least one forecast")
        self.method = "tight"
        self.forecasts = forecasts
        self.release = max(forecast.release for forecast in forecasts)

    @property
    def claim(self) -> Claim:
        """Who is protected from whom, and by which argument: all that is said of any of the runs."""
        claims = [forecast.claim for forecast in self.forecasts]

        def all_said(words: Iterable[str]) -> str:
            return ", or ".join(dict.fromkeys(words))

        return Claim(
            protected=all_said(claim.protected for claim in claims),
            against=all_said(claim.against for claim in claims),
            method=f"{claims[0].method}, composed",
            view=all_said(claim.view for claim in claims),
            assumptions=(
                f"{len(claims)} runs over the same data are counted together",
                *dict.fromkeys(words for claim in claims for words in claim.assumptions),
            ),
        )

    def laws(self, failure: float) -> list[Leakage]:
        """Return the law of the sum of the runs' leakages."""
        shares = [forecast.laws(failure / len(self.forecasts)) for forecast in self.forecasts]
        # Either the assumption-free law of every run, or the last, most amplified one.
        return [self._sum([laws[which] for laws in shares]) for which in (0, -1)]

    def _sum(self, laws: list[Leakage]) -> Leakage:
        counts = [law for law in laws if isinstance(law, BinomialLeakage)]
        alike = len({law.probability for law in counts}) == 1 and len({f.release for f in self.forecasts}) == 1
        if alike and len(counts) == len(laws):
            return BinomialLeakage(sum(law.trials for law in counts), counts[0].probability)
        blocks: list[Block] = []
        for forecast, law in zip(self.forecasts, laws, strict=True):
            blocks += law.blocks(forecast.release / self.release)
        return IndependentLeakage(blocks, failure=sum(law.failure for law in laws))


def forecast(run: PlannedRun) -> Forecast:
    """Account for a run before it happens.

    >>> run = PlannedRun(schedule="random-ring", nodes=1000, steps=24000, skip=1e-4, noise_multiplier=10.5976)
    >>> round(forecast(run).epsilon(delta=1e-6), 3)
    0.693
    """
    return Forecast(run)


def _amplified(run: PlannedRun, failure: float) -> list[IndependentLeakage]:
    """Return the amplified laws of a run, leaving out paths of at most this probability each."""
    if run.schedule == "ring":
        return [ring_leakage(run, failure)]
    if run.schedule == "random-ring":
        return [random_ring_leakage(run, failure)]
    laws = [random_walk_leakage(run, failure)]
    if run.step_size == "sqrt" and run.steps <= 100 * run.nodes:
        laws.insert(0, random_walk_leakage(run, failure, floors=False))
    return laws


def _assumption_free(run: PlannedRun) -> BinomialLeakage:
    """Return the number of the target's own updates: one chance per round, or with probability 1/n at every hop."""
    if run.schedule == "random-walk":
        return BinomialLeakage(run.steps, run.target_ready / run.nodes)
    return BinomialLeakage(run.rounds, run.target_ready)


def _solve(law: Leakage, delta: float, release: float) -> float:
    """Return the upper end of a narrow bracket around the epsilon at which the law's delta falls to `delta`."""
    goal = math.log(delta)

    def excess(epsilon: float) -> float:
        value = law.delta(epsilon, release)
        return math.log(value) - goal if value > 0.0 else -1e6

    # The Rényi guess is above the answer, and seldom by a factor of two.
    low, high = 0.0, max(law.rough_epsilon(delta, release), 1e-6)
    at_high = excess(high)
    while at_high > 0.0:
        high *= 2.0
        at_high = excess(high)
    low, at_low = high, at_high
    while at_low <= 0.0:
        high, at_high = low, at_low
        low = 0.6 * low if low > 1e-9 else 0.0
        at_low = excess(low)
        if low == 0.0 and at_low <= 0.0:
            return 0.0
    return narrow(excess, low, at_low, high, at_high, width=1e-9 * high)
