"""What bounds are raised by is more than rounding takes: formulas and sums against interval arithmetic."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from skipring.privacy import ROUNDING, gdp_delta, planned_run
from skipring.privacy._known import Chances, _Tables
from skipring.privacy.leakage import BinomialLeakage, Block, IndependentLeakage
from skipring.privacy.paper import _chance_of_more
from skipring.schedules import KnownOrder

#: How much of the slack a single formula may use up; sums of them need the rest.
FORMULA = 1.0 + 0.05 * (ROUNDING - 1.0)


@pytest.fixture(autouse=True)
def _many_digits() -> Iterator[None]:
    before, ctx.prec = ctx.prec, 400
    yield
    ctx.prec = before


def tail(x: Any) -> Any:
    """Return the chance that a standard Gaussian is above x, as an interval."""
    return (x / arb(2).sqrt()).erfc() / 2


def exact_delta(mu: Any, epsilon: float) -> Any:
    return tail(epsilon / mu - mu / 2) - arb(epsilon).exp() * tail(epsilon / mu + mu / 2)


def chances(trials: int, probability: Any) -> list[Any]:
    """Return the binomial law as intervals."""
    rest = 1 - arb(probability)
    return [arb(math.comb(trials, k)) * arb(probability) ** k * rest ** (trials - k) for k in range(trials + 1)]


def above(stated: float, exact: Any) -> bool:
    """Say whether a number is certainly not below all that an interval holds."""
    return bool(arb(stated) >= exact)


MUS = [1e-9, 1e-5, 9.99e-4, 1e-3, 1.001e-3, 0.03, 0.2, 1.0, 3.0, 10.0, 40.0]


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.01, 0.5, 1.0, 4.0, 20.0, 100.0])
def test_a_delta_is_off_by_far_less_than_the_slack(epsilon: float) -> None:
    for mu, many in zip(MUS, gdp_delta(np.array(MUS), epsilon).tolist(), strict=True):
        exact = exact_delta(arb(mu), epsilon)
        if not exact > arb(1e-290):
            continue
        for found in (many, gdp_delta(mu, epsilon)):
            assert above(found * FORMULA, exact)
            assert arb(found) <= exact * FORMULA


@pytest.mark.parametrize("trials", [1, 7, 60, 400])
@pytest.mark.parametrize("probability", [1e-6, 0.1, 0.5, 0.999, 1.0 - 1e-12])
@pytest.mark.parametrize(("epsilon", "noise"), [(0.1, 20.0), (1.0, 5.0), (5.0, 3.0), (12.0, 1.0)])
def test_the_sum_over_all_numbers_of_updates_is_not_below_the_exact_one(
    trials: int, probability: float, epsilon: float, noise: float
) -> None:
    stated = BinomialLeakage(trials, probability).expectation(epsilon, (2.0 / noise) ** 2)
    mus = [(arb(k) * (arb(2) / noise) ** 2).sqrt() for k in range(1, trials + 1)]
    law = chances(trials, probability)[1:]
    exact = sum((chance * exact_delta(mu, epsilon) for chance, mu in zip(law, mus, strict=True)), arb(0))
    if not exact > arb(1e-280):  # the law leaves out what is rarer
        return
    assert above(stated, exact)
    assert arb(stated) <= exact * (1.0 + 2.0 * (ROUNDING - 1.0))


@pytest.mark.parametrize(("epsilon", "noise"), [(0.3, 8.0), (2.0, 3.0), (8.0, 1.5)])
@pytest.mark.parametrize("seed", range(4))
def test_a_sum_of_rounds_by_transforms_is_not_below_the_exact_one(seed: int, epsilon: float, noise: float) -> None:
    rng = np.random.default_rng(seed)
    rounds = [(rng.uniform(0.0, 1.0, 3), rng.dirichlet(np.ones(3)) * rng.uniform(0.3, 1.0)) for _ in range(6)]
    law = IndependentLeakage([Block.single(values, weights) for values, weights in rounds])
    stated = law.expectation(epsilon, (2.0 / noise) ** 2)
    # With the remaining probability a round tells nothing.
    each = [[(arb(0), 1 - sum(map(arb, w), arb(0))), *zip(map(arb, v), map(arb, w), strict=True)] for v, w in rounds]
    exact = arb(0)
    for some in itertools.product(*each):
        value, chance = arb(0), arb(1)
        for one, weight in some:
            value, chance = value + one, chance * weight
        if value > 0:
            exact += chance * exact_delta((value * (arb(2) / noise) ** 2).sqrt(), epsilon)
    assert above(stated, exact)


@pytest.mark.parametrize(("trials", "probability"), [(5, 0.3), (100, 1e-4), (300, 0.7), (1000, 0.999)])
def test_the_chance_of_more_updates_is_not_below_the_exact_one(trials: int, probability: float) -> None:
    law = chances(trials, probability)
    for counted in {0, 1, trials // 2, round(trials * probability), trials - 1}:
        exact = sum(law[counted + 1 :], arb(0))
        if exact > arb(1e-280):
            assert above(_chance_of_more(counted, trials, probability), exact)


@pytest.mark.parametrize("theta", [1e-6, 0.3, 5.0, 60.0])
@pytest.mark.parametrize("skip", [0.0, 0.3, 0.95])
def test_the_quick_bound_of_a_known_order_is_not_below_the_exact_one(theta: float, skip: float) -> None:
    order = KnownOrder(4, tuple(range(4)) * 3)
    run = planned_run(
        schedule="random-ring", nodes=4, steps=12, skip=skip, noise_multiplier=2.0, step_size="constant", order=order
    )
    alone, after = _Tables(Chances(run, order, 1e-12), 12).at(theta)
    ready = 1 - arb(skip)
    for others in range(13):
        one = two = arb(0)
        for count, chance in enumerate(chances(others, ready)):
            # An update's own noise, and that of those who take part after it; two updates are two drifts in both.
            single, both = arb(theta) / (1 + count), arb(theta) * (arb(4) / (1 + count)).min(arb(2))
            one += chance * (1 - ready + ready * single.exp())
            two += chance * ((1 - ready) ** 2 + 2 * ready * (1 - ready) * single.exp() + ready**2 * both.exp())
        assert above(float(alone[0, 0, others]), one.log())
        assert above(float(after[0, 0, others]), two.log())
