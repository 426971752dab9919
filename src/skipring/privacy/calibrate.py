"""What a planned run promises, by any method of accounting; and from a budget back to the noise it asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

from ..errors import InvalidInput, require_delta, require_non_negative
from .accountant import Accountant, Guarantee
from .forecast import Forecast, forecast
from .gaussian import gdp_mu, narrow
from .laps import PlannedLaps
from .laps_accountant import LapsAccountant
from .orders import FixedRing
from .paper import PaperBound
from .record import LEAST_NOISE, MOST_NOISE, Members, Outsider, PlannedRun, whole_node


class RunAccountant(Accountant, Protocol):
    """The accountant of a planned run, of which only the noise may still be open."""

    @property
    def facts(self) -> dict[str, object]:
        """What is told of the accounting beside its guarantee."""

    def guarantee(self, delta: float, epsilon: float | None = None) -> Guarantee:
        """Return the epsilon at a delta, or one that is known to be kept."""

    def with_noise(self, noise_multiplier: float) -> RunAccountant:
        """Return the accountant of the same run with another noise."""


Run = PlannedRun | PlannedLaps


def _tight(run: Run, delta: float, delta_prime: float | None) -> RunAccountant:
    if delta_prime is not None:
        raise InvalidInput.because("delta_prime", delta_prime, "belongs to the method paper")
    return LapsAccountant(run) if isinstance(run, PlannedLaps) else Forecast(run)


def _paper(run: Run, delta: float, delta_prime: float | None) -> RunAccountant:
    if isinstance(run, PlannedLaps):
        raise InvalidInput.because("method", "paper", "the paper has no laps; say tight")
    return PaperBound(run, delta_prime=delta if delta_prime is None else delta_prime)


#: How the accountant of a planned run is made, by the name of its method.
METHODS: dict[str, Callable[[Run, float, float | None], RunAccountant]] = {"tight": _tight, "paper": _paper}


def accountant(method: str, run: Run, *, delta: float = 1e-6, delta_prime: float | None = None) -> RunAccountant:
    """Return the accountant of a planned run by the name of its method; `delta_prime` is the paper's, as usual `delta`.

    >>> from skipring.privacy import planned_run
    >>> run = planned_run(schedule="random-ring", nodes=1000, steps=24000, skip=1e-4, noise_multiplier=1.0)
    >>> round(calibrate(accountant("tight", run).with_noise, epsilon=2.2, delta=1e-6), 3)
    3.849
    """
    if method not in METHODS:
        raise InvalidInput("method", method, " or ".join(METHODS))
    return METHODS[method](run, delta, delta_prime)


def calibrate(make: Callable[[float], Accountant], epsilon: float, delta: float) -> float:
    """Return the smallest noise multiplier with which the accountant that is made for it keeps (epsilon, delta).

    >>> from skipring.privacy import forecast, planned_run
    >>> run = planned_run(schedule="ring", nodes=10, steps=100, skip=0.3, noise_multiplier=1.0)
    >>> noise = calibrate(forecast(run).with_noise, epsilon=2.0, delta=1e-6)
    >>> round(forecast(run).with_noise(noise).epsilon(1e-6), 6)
    2.0
    """
    require_non_negative("epsilon", epsilon)
    require_delta(delta)
    epsilon, delta = float(epsilon), float(delta)
    found = 0.0
    for kind in range(make(1.0).kinds(delta)):  # a unit may be of any kind: the noise is enough for each

        def excess(noise: float, kind: int = kind) -> float:
            return make(noise).excess(epsilon, delta, kind)

        if excess(max(found, LEAST_NOISE)) > 0.0:
            # One update of the target in full; more of them, or amplification, is found by stepping.
            found = _smallest(excess, found or 2.0 / gdp_mu(epsilon, delta))
        if math.isinf(found):
            if (least := make(MOST_NOISE).delta(epsilon)) > delta:
                raise InvalidInput(
                    "delta", delta, f"above {least:.2g}: no noise keeps less, as it has no values far out"
                )
            raise InvalidInput("epsilon", "the budget", "larger: no noise is enough")
    if found == 0.0:
        raise InvalidInput.because("epsilon", epsilon, f"at delta {delta:g} this is kept with next to no noise")
    return found


def _smallest(excess: Callable[[float], float], guess: float) -> float:
    """Return the upper end of a narrow bracket around the noise from which `excess` is at most 0, or infinity."""
    low = high = min(max(guess, LEAST_NOISE), MOST_NOISE)
    at_low = at_high = excess(high)
    while at_high > 0.0:
        low, at_low = high, at_high
        high *= 1.5
        if high > MOST_NOISE:
            return math.inf
        at_high = excess(high)
    while at_low <= 0.0:
        high, at_high = low, at_low
        low = max(low / 1.5, LEAST_NOISE)
        at_low = excess(low)
    # In ln(noise), of which ln delta is nearly a straight line.
    found = narrow(lambda x: excess(math.exp(x)), math.log(low), at_low, math.log(high), at_high, width=1e-8)
    # exp(ln(noise)) may fall short by a rounding; a hair more noise keeps the budget.
    return min(high, math.exp(found) * (1.0 + 1e-13))


def promise(account: RunAccountant, delta: float, *, units: int | None = 1, epsilon: float | None = None) -> Guarantee:
    """Return what a run promises at a delta. A forecast also says what holds against others, and for a whole node.

    `units` is the most records or persons of an update, None where nobody said; `epsilon` one that is known to be kept.
    """
    if isinstance(account, LapsAccountant):
        return account.guarantee(delta, epsilon, units=units)
    first = account.guarantee(delta, epsilon)
    if not isinstance(account, Forecast) or delta >= 1.0:
        return first
    return replace(first, also=tuple(_further(account.run, first, units)))


def _further(run: PlannedRun, first: Guarantee, units: int | None) -> Iterator[Guarantee]:
    if isinstance(run.observer, Members):
        order = replace(run.order, distance=None, position=None) if isinstance(run.order, FixedRing) else run.order
        outsider = forecast(replace(run, order=order, observer=Outsider())).guarantee(first.delta)
        placed = isinstance(run.order, FixedRing) and run.order.position is not None
        if not placed and first.epsilon is not None and outsider.epsilon is not None:
            # Members are shown the final model as well, so what holds against them holds here.
            outsider = replace(outsider, epsilon=min(first.epsilon, outsider.epsilon))
        yield outsider
        if run.observer.observers < run.nodes - 1:
            yield forecast(replace(run, order=order, observer=Members(observers=run.nodes - 1))).guarantee(first.delta)
    if run.protects != "node":
        whole = None if units is None else whole_node(run, units)
        if whole is not None:
            yield forecast(whole).guarantee(first.delta)
            return
        reason = "how many rows an update has is not said" if units is None else "there is far too little noise for it"
        yield replace(first, protects="node", epsilon=None, refused=reason)
