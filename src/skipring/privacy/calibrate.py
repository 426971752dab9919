"""From a privacy budget back to the noise it asks for, or the number of steps it allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from ..errors import InvalidInput, require_delta, require_non_negative, require_positive
from ._roots import narrow
from .forecast import Forecast, forecast
from .gaussian import gdp_mu
from .leakage import Leakage
from .paper import PaperBound
from .record import MOST_DESIGNED_STEPS, AgreedOrder, DesignedOrder, PlannedRun, SureOthers


def noise_for_budget(run: PlannedRun | Forecast, epsilon: float, delta: float) -> float:
    """Return the smallest noise multiplier with which a run keeps (epsilon, delta); the run's own does not matter.

    >>> from skipring.privacy import planned_run
    >>> run = planned_run(schedule="random-ring", nodes=1000, steps=24000, skip=1e-4, noise_multiplier=1.0)
    >>> round(noise_for_budget(run, epsilon=2.2, delta=1e-6), 3)
    3.849
    """
    require_non_negative("epsilon", epsilon)
    require_delta(delta)
    epsilon, delta = float(epsilon), float(delta)
    account = run if isinstance(run, Forecast) else forecast(run)
    classes = account.classes(1e-3 * delta)

    def excess(laws: list[Leakage], noise: float) -> float:
        needed = min(law.delta(epsilon, (2.0 / noise) ** 2) for law in laws)  # the best of the bounds of a class
        return math.log(max(needed, 1e-320)) - math.log(delta)

    found = 0.0
    for laws in classes:  # a unit may be of any class: the noise is enough for each
        if excess(laws, max(found, 1e-2)) > 0.0:
            # One update of the target in full; more of them, or amplification, is found by stepping.
            found = _smallest(partial(excess, laws), found or 2.0 / gdp_mu(epsilon, delta))
    if found == 0.0:
        raise InvalidInput.because("epsilon", epsilon, f"at delta {delta:g} this is kept with next to no noise")
    return found


def paper_noise_for_budget(run: PlannedRun, epsilon: float, delta: float, delta_prime: float) -> float:
    """Return the smallest noise multiplier for which the paper's theorem gives (epsilon, delta + delta_prime)."""
    require_positive("epsilon", epsilon)
    require_delta(delta)

    def excess(noise: float) -> float:
        bound = PaperBound(run.replace(noise_multiplier=noise), delta_prime=delta_prime).epsilon(delta)
        return math.log(bound) - math.log(epsilon)

    return _smallest(excess, 1.0)


def _smallest(excess: Callable[[float], float], guess: float) -> float:
    """Return the upper end of a narrow bracket around the noise from which `excess` is at most 0."""
    low = high = guess
    at_low = at_high = excess(guess)
    while at_high > 0.0:
        low, at_low = high, at_high
        high *= 1.5
        at_high = excess(high)
        if high > 1e15:
            raise InvalidInput("epsilon", "the budget", "larger: no noise is enough")
    while at_low <= 0.0:
        high, at_high = low, at_low
        low /= 1.5
        at_low = excess(low)
        if low < 1e-12:
            return high
    # In ln(noise), of which ln delta is nearly a straight line.
    found = narrow(lambda x: excess(math.exp(x)), math.log(low), at_low, math.log(high), at_high, width=1e-8)
    # exp(ln(noise)) may fall short by a rounding; a hair more noise keeps the budget.
    return min(high, math.exp(found) * (1.0 + 1e-13))


def steps_for_budget(run: PlannedRun, epsilon: float, delta: float, *, most: int = 10**8) -> int:
    """Return how many steps (in whole rounds on a ring) a budget allows, but not more than `most`.

    The run's own number of steps does not matter.

    >>> from skipring.privacy import planned_run
    >>> run = planned_run(schedule="random-ring", nodes=100, steps=100, skip=0.5, noise_multiplier=10.0)
    >>> steps_for_budget(run, epsilon=2.0, delta=1e-6)
    7800
    """
    require_non_negative("epsilon", epsilon)
    require_delta(delta)
    epsilon, delta = float(epsilon), float(delta)
    if isinstance(run.taking_part, SureOthers):
        raise InvalidInput.because(
            "others", run.taking_part.others, "how many are sure depends on the number of rounds; try steps"
        )
    if isinstance(run.order, AgreedOrder):
        raise InvalidInput.because("order", "given", "it has a length of its own; ask for its epsilon")
    if isinstance(run.order, DesignedOrder):
        most = min(most, MOST_DESIGNED_STEPS)
    unit = run.kind.unit(run.nodes)

    def allowed(units: int) -> bool:
        return forecast(run.replace(steps=units * unit)).keeps(epsilon, delta)

    low, high = 0, 1
    while high * unit <= most and allowed(high):
        low, high = high, 2 * high
    if high * unit > most:
        high = most // unit + 1
    while high - low > 1:
        middle = (low + high) // 2
        if allowed(middle):
            low = middle
        else:
            high = middle
    if low == 0:
        least = forecast(run.replace(steps=unit)).epsilon(delta)
        raise InvalidInput("epsilon", epsilon, f"at least {least:.4g}: that is what the first {unit} steps cost")
    return low * unit
