"""The deadline of laps, against trying: many laps of many nodes for each deadline."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skipring.delays import Delay, Exponential, Mixture, Never, parse_delay
from skipring.errors import InvalidInput
from skipring.timeouts import best_deadline


def tried(delay: Delay, deadline: float, sending: float, nodes: int, needed: int, laps: int = 20_000) -> float:
    """Return contributions per time by drawing laps."""
    drawn = delay.sample(np.random.default_rng(1), (laps, nodes))
    ready = (drawn <= deadline).sum(axis=1)
    time = np.minimum(drawn.max(axis=1), deadline) + sending
    return float(np.where(ready >= needed, ready, 0).sum() / time.sum())


@pytest.mark.parametrize("law", ["exponential:1", "gamma:0.25,1", "lomax:3,2", "0.3+exponential:2"])
@pytest.mark.parametrize(("nodes", "needed"), [(4, 3), (20, 11)])
def test_no_other_deadline_is_better_and_its_numbers_are_those_of_drawn_laps(law: str, nodes: int, needed: int) -> None:
    delay, sending = parse_delay(law), 0.06
    found = best_deadline(delay, sending, nodes, needed)
    rate = tried(delay, found.deadline, sending, nodes, needed)
    # Four standard errors of 20,000 laps are below 3 %.
    assert found.contributions_per_time == pytest.approx(rate, rel=0.03)
    assert found.skip_probability == pytest.approx(delay.survival(found.deadline))
    for other in delay.quantile(np.linspace(0.05, 0.999, 40)):
        assert tried(delay, float(other), sending, nodes, needed) <= found.contributions_per_time * 1.03


def test_the_time_of_a_try_of_exponential_nodes_is_exact() -> None:
    """The mean of min(t, slowest of n) is the integral of 1 - (1 - e^-s)^n."""
    found = best_deadline(parse_delay("exponential:1"), 0.5, 3, 2)
    s = np.linspace(0.0, found.deadline, 200_001)
    exact = float(np.trapezoid(1.0 - (1.0 - np.exp(-s)) ** 3, s)) + 0.5
    assert found.time == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("law", ["constant:1", "constant:100", "0.5*constant:1|0.5*constant:3"])
def test_laws_with_all_mass_at_few_moments_are_waited_for_in_full(law: str) -> None:
    delay = parse_delay(law)
    found = best_deadline(delay, 0.06, 5, 3)
    assert found.contributions_per_time == pytest.approx(tried(delay, found.deadline, 0.06, 5, 3), rel=0.03)
    if "|" not in law:
        assert found.time == pytest.approx(found.deadline + 0.06)


def test_dead_nodes_are_not_waited_for_and_too_many_of_them_are_refused() -> None:
    some_dead = Mixture([0.8, 0.2], [Exponential(1.0), Never()])
    found = best_deadline(some_dead, 0.06, 10, 6)
    assert math.isfinite(found.deadline)
    assert found.contributions_per_time == pytest.approx(tried(some_dead, found.deadline, 0.06, 10, 6), rel=0.03)
    with pytest.raises(InvalidInput, match="some time"):
        best_deadline(Never(), 0.06, 10, 6)
    with pytest.raises(InvalidInput, match="needed"):
        best_deadline(parse_delay("exponential:1"), 0.06, 3, 4)
