"""The search for the plan with the smallest error bound, and the plans that are shown beside it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..convergence import ErrorTerms, Problem, best_learning_rate, error_terms
from ..errors import InvalidInput
from ..privacy import (
    Forecast,
    Leakage,
    PaperBound,
    PlannedRun,
    calibrate,
)
from ..schedules import RandomRing, schedule_kind, usual_search
from ..timeouts import TurnLaw, skip_probability
from .budget import Budget, Ready


@dataclass(frozen=True)
class Plan:
    """One way to spend a budget, with what it is expected to achieve."""

    name: str
    accounting: Literal["tight", "paper"]
    timeout: float
    skip_probability: float
    steps: int
    expected_updates: float
    expected_time: float
    noise_multiplier: float
    learning_rate: float
    error_bound: float
    #: Standard deviation of the noise on an update's gradient.
    noise_std: float
    #: For records and persons: the most rows of an update, and how many turns a node needs to use all of its rows.
    batch: int | None = None
    parts: int = 1
    #: Why the paper's theorem, if the noise is its, is not shown to keep the budget here; empty if it is.
    doubt: str = ""
    #: What becomes of a node's preparation (fresh, kept or ahead).
    ready: str = "fresh"


@dataclass(frozen=True)
class Plans:
    """The plan with the smallest error bound, and what else the budget could have been spent on.

    The budget's batch is the one that was chosen, and `batches` are the best plans with the others.
    """

    budget: Budget
    best: Plan
    alternatives: tuple[Plan, ...]
    #: Alternatives that the mathematics does not cover here, with the reason.
    left_out: tuple[tuple[str, str], ...]
    batches: tuple[Plan, ...] = ()

    @property
    def run(self) -> PlannedRun:
        """The record of the best plan, as accountants take it."""
        best = self.best
        record = self.budget.run(best.steps, best.skip_probability, best.timeout)
        return record.with_noise(best.noise_multiplier)


@dataclass(frozen=True)
class FrontierPoint:
    """Plans for one epsilon: the best one, the same with the noise of the paper's accounting, and never skipping."""

    epsilon: float
    plans: tuple[Plan, ...]


@dataclass(frozen=True)
class _Candidate:
    """A timeout with all that depends on neither epsilon nor noise."""

    timeout: float
    skip: float
    steps: int
    terms: ErrorTerms
    forecast: Forecast
    #: For each class of units the law of its leakage.
    laws: list[Leakage]

    def quick_noise(self, epsilon: float, delta: float) -> float:
        """Return the noise that Rényi divergences ask for: a few per cent too much, but found in no time."""

        low, high = 1e-6, 1e9
        for _ in range(28):
            middle = math.sqrt(low * high)
            enough = all(law.rough_epsilon(delta, (2.0 / middle) ** 2) <= epsilon for law in self.laws)
            low, high = (low, middle) if enough else (middle, high)
        return high


class _Planner:
    """Builds plans for one budget of time and delta; epsilon may vary."""

    def __init__(self, budget: Budget, *, less_search: bool = False) -> None:
        self.budget = budget
        designed = schedule_kind(budget.schedule).order_is_known
        self._less_search = {"search": usual_search(budget.nodes) // 10} if designed and less_search else {}
        self._known: dict[tuple[float, int], _Candidate | None] = {}

    def candidate(self, timeout: float, steps: int) -> _Candidate | None:
        """Return the candidate for a timeout and a length; None if there is not a round or no theorem covers it."""
        if (timeout, steps) not in self._known:
            self._known[timeout, steps] = self._make(timeout, steps)
        return self._known[timeout, steps]

    def _make(self, timeout: float, steps: int) -> _Candidate | None:
        budget = self.budget
        skip = budget.law(timeout).skip_probability
        if skip >= 1.0 or (skip == 0.0 and _needs_skips(budget)) or steps == 0:
            return None
        terms = error_terms(schedule=budget.schedule, nodes=budget.nodes, steps=steps, skip=skip)
        if terms.no_update > 1e-6:
            return None  # Theorem 1 rewards a run in which nobody may ever take part; nobody wants one
        forecast = Forecast(budget.run(steps, skip, timeout).replace(**self._less_search))
        # An order is designed for a length, which takes seconds: lengths are compared by the average over orders.
        quick = forecast
        if schedule_kind(budget.schedule).order_is_known:
            drawn = forecast.run.replace(schedule=RandomRing.name, closing=None, order_seed=None, search=None)
            quick = Forecast(drawn)
        laws = [laws[-1] for laws in quick.classes(1e-3 * budget.delta)]
        return _Candidate(timeout, skip, steps, terms, forecast, laws)

    def steps(self, timeout: float, share: float = 1.0) -> int:
        """Return how many steps fit into a share of the time budget, in whole rounds on a ring."""
        budget = self.budget
        if budget.steps is not None:
            return budget.steps
        assert budget.time is not None
        hop = budget.expected_time(timeout, 1)
        most = math.floor(budget.time / hop)
        if most > 10**8:
            raise InvalidInput("time", budget.time, f"short enough for 1e8 steps; a step takes {hop:.4g} on average")
        unit = schedule_kind(budget.schedule).unit(budget.nodes)
        return min(most // unit, max(1, round(share * most / unit))) * unit

    def learning_rate(self, noise: float) -> float:
        """Return the rate that minimises the error bound, kept within what contraction allows."""
        budget = self.budget
        rate = best_learning_rate(
            diameter=budget.diameter,
            gradient_bound=budget.gradient_bound,
            noise_multiplier=budget.gradient_noise(noise),
            dimension=budget.dimension,
        )
        return min(rate, budget.largest_rate)

    def error(self, candidate: _Candidate, noise: float) -> float:
        """Return the error bound with a noise multiplier.

        Theorem 1 takes the length of a gradient and its noise over that length. It does not ask how much of the
        gradient one unit can change, so a record's noise counts in it as what is left of it on the gradient.
        """
        return candidate.terms.bound(
            Problem(
                noise_multiplier=self.budget.gradient_noise(noise),
                dimension=self.budget.dimension,
                diameter=self.budget.diameter,
                gradient_bound=self.budget.gradient_bound,
                learning_rate=self.learning_rate(noise),
            )
        )

    def _quick_error(self, epsilon: float, timeout: float, share: float) -> float:
        candidate = self.candidate(timeout, self.steps(timeout, share))
        if candidate is None:
            return math.inf
        return self.error(candidate, candidate.quick_noise(epsilon, self.budget.delta))

    def best_share(self, epsilon: float, timeout: float) -> float:
        """Return the share of the time budget to use: more updates help, but each also asks for more noise."""
        most = self.steps(timeout)
        if self.budget.time is None or most == 0:
            return 1.0
        least = 1.0 / (most // schedule_kind(self.budget.schedule).unit(self.budget.nodes))
        found = math.exp(_golden(lambda x: self._quick_error(epsilon, timeout, math.exp(x)), math.log(least), 0.0))
        return min((1.0, found), key=lambda share: self._quick_error(epsilon, timeout, share))

    def best(self, epsilon: float) -> _Candidate:
        """Return timeout and length with the smallest error bound: a scan of both, then golden sections in turn."""
        timeouts = sorted({*self.budget.timeouts(), math.inf})
        shares = [self._halved_share(epsilon, timeout) for timeout in timeouts]
        errors = [self._quick_error(epsilon, *pair) for pair in zip(timeouts, shares, strict=True)]
        winner = int(np.argmin(errors))
        if math.isinf(errors[winner]):
            self._refuse(timeouts)
        timeout, share = timeouts[winner], shares[winner]
        near = [t for t in timeouts[max(0, winner - 1) : winner + 2] if math.isfinite(t)]
        if len(near) > 1:
            low, high = math.log(near[0]), math.log(near[-1])
            refined = math.exp(_golden(lambda x: self._quick_error(epsilon, math.exp(x), share), low, high))
            timeout = min((timeout, refined), key=lambda t: self._quick_error(epsilon, t, share))
        if len(near) > 1 and self.budget.ready == "fresh":
            # Between two measured durations waiting longer gains nothing: take the first that skips as few.
            shortest = self.budget.delay.upper_quantile(skip_probability(self.budget.delay, timeout))
            timeout = shortest if 0.0 < shortest < timeout * (1.0 - 1e-6) else timeout
        if share < 1.0:
            share = self.best_share(epsilon, timeout)
        found = self.candidate(timeout, self.steps(timeout, share))
        assert found is not None
        return found

    def _halved_share(self, epsilon: float, timeout: float) -> float:
        """Halve the length for as long as that helps."""
        share = 1.0
        if self.budget.time is not None:
            error = self._quick_error(epsilon, timeout, share)
            while (shorter := self._quick_error(epsilon, timeout, 0.5 * share)) < error:
                share, error = 0.5 * share, shorter
        return share

    def at(self, epsilon: float, timeout: float) -> _Candidate | None:
        """Return the best length for a given timeout."""
        return self.candidate(timeout, self.steps(timeout, self.best_share(epsilon, timeout)))

    def _refuse(self, timeouts: Sequence[float]) -> None:
        budget = self.budget
        if budget.time is None:
            raise InvalidInput.because("delay", budget.delay, "no timeout gives a run that Theorem 1 covers")
        if max(self.steps(timeout) for timeout in timeouts) > 0:
            raise InvalidInput.because("time", budget.time, "is too short for any node to take part with certainty")
        hops = [budget.expected_time(timeout, budget.nodes) for timeout in timeouts]
        raise InvalidInput("time", budget.time, f"at least {min(hops):.4g}: one round takes that long on average")

    def tight(self, name: str, candidate: _Candidate, epsilon: float) -> Plan:
        """Return a plan with the noise that the tight accountant asks for."""
        noise = calibrate(candidate.forecast.with_noise, epsilon, self.budget.delta)
        return self._plan(name, "tight", candidate, noise)

    def paper(self, name: str, candidate: _Candidate, epsilon: float) -> Plan:
        """Return a plan with the noise that the paper's theorem asks for; it gets half of delta twice."""
        half = 0.5 * self.budget.delta
        bound = PaperBound(candidate.forecast.run, delta_prime=half)
        noise = calibrate(bound.with_noise, epsilon, half)
        doubt = bound.with_noise(noise).doubt(half)
        return dataclasses.replace(self._plan(name, "paper", candidate, noise), doubt=doubt)

    def _plan(self, name: str, accounting: Literal["tight", "paper"], candidate: _Candidate, noise: float) -> Plan:
        budget = self.budget
        return Plan(
            name=name,
            accounting=accounting,
            timeout=candidate.timeout,
            skip_probability=candidate.skip,
            steps=candidate.steps,
            expected_updates=candidate.steps * (1.0 - candidate.skip),
            expected_time=budget.expected_time(candidate.timeout, candidate.steps),
            noise_multiplier=noise,
            learning_rate=self.learning_rate(noise),
            error_bound=self.error(candidate, noise),
            noise_std=budget.gradient_noise(noise) * budget.gradient_bound,
            batch=budget.batch,
            parts=budget.parts,
            ready=budget.ready,
        )


def plan(budget: Budget, modes: Sequence[Ready] = ()) -> Plans:
    """Choose timeout, length, noise and learning rate for a budget, and show the alternatives beside it.

    `modes` are other kinds of readiness whose best plans are shown, too.

    >>> from skipring.delays import Gamma
    >>> budget = Budget(nodes=100, delay=Gamma(0.25, 1.0), hop_latency=0.01, epsilon=1.0, delta=1e-6, dimension=8,
    ...                 gradient_bound=1.0, diameter=10.0, time=60.0, protects="node")
    >>> chosen = plan(budget)
    >>> 0.1 < chosen.best.skip_probability < 0.7
    True
    >>> chosen.best.error_bound <= min(other.error_bound for other in chosen.alternatives)
    True
    """
    planner, best, chosen, batches = _best_batch([_Planner(each) for each in budget.proposals], budget.epsilon)
    budget = planner.budget
    alternatives, left_out = [], []
    for name, timeout in (
        ("never skip", math.inf),
        ("most updates", budget.most_updates_timeout()),
    ):
        candidate = planner.at(budget.epsilon, timeout)
        if candidate is not None:
            alternatives.append(planner.tight(name, candidate, budget.epsilon))
        elif skip_probability(budget.delay, timeout) == 0.0 and _needs_skips(budget):
            left_out.append((name, "Theorem 1 needs a positive skip probability on the fixed ring"))
        elif budget.delay.mass_at_infinity > 0.0 and math.isinf(timeout):
            left_out.append((name, "a dead node would be waited for without end"))
        else:
            left_out.append((name, "the time is too short for a round of it"))
    if budget.ready != "fresh":
        left_out.append(("paper's accounting", "its theorems need skips that are independent"))
    elif schedule_kind(budget.schedule).order_is_known:
        left_out.append(("paper's accounting", "its theorems do not cover an order that is known"))
    elif budget.parts == 1:
        alternatives.append(planner.paper("paper's accounting", best, budget.epsilon))
    else:
        left_out.append(("paper's accounting", "its theorems do not cover rows that take turns"))
    # The search uses a quick accountant; should the exact one disagree by a hair, it has the last word.
    for other in alternatives:
        if other.accounting == "tight" and other.error_bound < chosen.error_bound:
            chosen = dataclasses.replace(other, name="best plan")
    for mode in modes:
        try:
            other = _best_batch([_Planner(each) for each in _with_ready(budget, mode)], budget.epsilon)[2]
        except InvalidInput as refusal:
            left_out.append((f"ready {mode}", refusal.reason))
        else:
            alternatives.append(dataclasses.replace(other, name=f"ready {mode}"))
    return Plans(budget, chosen, tuple(alternatives), tuple(left_out), batches)


def _needs_skips(budget: Budget) -> bool:
    """Say whether Theorem 1 covers the schedule only where nodes are skipped now and then."""
    return schedule_kind(budget.schedule).turns is TurnLaw.IN_PLACE


def _with_ready(budget: Budget, mode: Ready) -> tuple[Budget, ...]:
    return dataclasses.replace(budget, ready=mode).proposals


def frontier(
    budget: Budget,
    epsilons: Sequence[float],
    modes: Sequence[Ready] = (),
    *,
    progress: Callable[[int], None] | None = None,
) -> list[FrontierPoint]:
    """Return plans for several epsilons at the same budget of time: what more privacy costs in error.

    With `modes`, the best plans of these other kinds of readiness as well, as far as they have one.
    """
    planners = [_Planner(each, less_search=True) for each in budget.proposals]
    others = {mode: [_Planner(each, less_search=True) for each in _with_ready(budget, mode)] for mode in modes}
    points = []
    for epsilon in epsilons:
        dataclasses.replace(budget, epsilon=epsilon)  # checks it
        planner, best, chosen, _ = _best_batch(planners, epsilon)
        plans = [chosen]
        if planner.budget.parts == 1 and budget.ready == "fresh" and not schedule_kind(budget.schedule).order_is_known:
            plans.append(planner.paper("paper's accounting", best, epsilon))
        for mode, remembering in others.items():
            with contextlib.suppress(InvalidInput):  # nodes may be dead, or slow without bound
                plans.append(dataclasses.replace(_best_batch(remembering, epsilon)[2], name=f"ready {mode}"))
        if (never := planner.at(epsilon, math.inf)) is not None:
            plans.append(planner.tight("never skip", never, epsilon))
        points.append(FrontierPoint(epsilon, tuple(plans)))
        if progress is not None:
            progress(len(points))
    return points


def _best_batch(planners: Sequence[_Planner], epsilon: float) -> tuple[_Planner, _Candidate, Plan, tuple[Plan, ...]]:
    """Return the planner whose batch has the smallest error bound with what it found, and the plans of the others.

    A smaller batch lets a row contribute at fewer turns, so that a smaller noise multiplier will do; but the sum over
    its rows, noise included, is divided by less.
    """
    found = []
    for planner in planners:
        candidate = planner.best(epsilon)
        found.append((planner, candidate, planner.tight("best plan", candidate, epsilon)))
    winner = min(range(len(found)), key=lambda i: found[i][2].error_bound)
    others = (each for i, (_, _, each) in enumerate(found) if i != winner)
    return *found[winner], tuple(dataclasses.replace(each, name=f"batch {each.batch}") for each in others)


def _golden(f: Callable[[float], float], low: float, high: float, *, turns: int = 11) -> float:
    """Return the minimiser of a function with one minimum in [low, high], to a share 0.618^turns of the width."""
    ratio = 0.5 * (math.sqrt(5.0) - 1.0)
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = f(a), f(b)
    for _ in range(turns):
        if at_a <= at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = f(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = f(b)
    return a if at_a <= at_b else b
