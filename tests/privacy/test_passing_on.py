"""An observer may look and pass the token on unchanged: updates are then fewer, and later step sizes larger.

The oracle goes through a run hop by hop, for each way in which the observer can behave at its turns. In each interval
between two looks it draws the greatest convex minorant of (noise so far, drift so far) point by point.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from plain_run import order_of
from scipy.stats import binom

from skipring.privacy import PlannedRun, forecast, gdp_delta, gdp_epsilon, planned_run
from skipring.privacy._known import Chances, exact_account
from skipring.schedules import KnownOrder, RandomRing


def known_order(nodes: int, rounds: int, seed: int, closing: int = 0) -> KnownOrder:
    rng = np.random.default_rng(seed)
    path = RandomRing(nodes).path(nodes * rounds, rng)
    return KnownOrder(nodes, tuple(path.tolist()), tuple(rng.integers(nodes, size=closing).tolist()))


def convex_minorant(points: Sequence[tuple[float, float]]) -> float:
    """The sum of (drift)^2 / noise over the pieces of the greatest convex minorant."""
    at, total = 0, 0.0
    while at < len(points) - 1:
        x, y = points[at]
        slopes = [(points[to][1] - y) / (points[to][0] - x) for to in range(at + 1, len(points))]
        least = min(slopes)
        to = at + 1 + max(place for place, slope in enumerate(slopes) if slope == least)
        total += (points[to][1] - y) ** 2 / (points[to][0] - x)
        at = to
    return total


def leakage(order: KnownOrder, target: int, observer: int, updates_at: Sequence[bool], every: int, unit: int) -> float:
    """X of a pair: nobody is skipped, and the observer updates at those of its turns."""
    turns = iter(updates_at)
    number, turn, total = 0, 0, 0.0
    points = [(0.0, 0.0)]
    for hop, node in enumerate(order.whole_path.tolist()):
        if node == observer:
            total += convex_minorant(points)
            points = [(0.0, 0.0)]
            number += next(turns)
            continue
        number += 1
        drift = 0.0
        if node == target and hop < len(order.hops):
            drift = 1.0 / math.sqrt(number) if turn % every == unit else 0.0
            turn += 1
        noise, so_far = points[-1]
        points.append((noise + 1.0 / number, so_far + drift))
    return total + convex_minorant(points)


def largest(order: KnownOrder, target: int, observer: int, every: int, *, subsets: bool) -> float:
    """The most that an observer can learn by its behaviour: all or nothing, or any subset of its turns."""
    turns = int((order.whole_path == observer).sum())
    ways = itertools.product((False, True), repeat=turns) if subsets else [(False,) * turns, (True,) * turns]
    return max(leakage(order, target, observer, way, every, unit) for way in ways for unit in range(every))


def planned(order: KnownOrder, **given: Any) -> PlannedRun:
    parameters: dict[str, Any] = {"skip": 0.0, "noise_multiplier": 2.0, "step_size": "sqrt", "protects": "record"}
    parameters |= given
    return planned_run(schedule="random-ring", nodes=order.nodes, steps=len(order.hops), order=order, **parameters)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("closing", [0, 3])
@pytest.mark.parametrize(("nodes", "rounds", "subsets"), [(3, 4, True), (4, 3, True), (6, 8, False), (10, 7, False)])
def test_no_behaviour_of_an_observer_tells_it_more(
    nodes: int, rounds: int, closing: int, every: int, subsets: bool
) -> None:
    for seed in range(6):
        order = known_order(nodes, rounds, seed, closing)
        run = planned(order, parts=every)
        pairs = [(u, v) for u in range(nodes) for v in range(nodes) if u != v]
        truth = {pair: largest(order, *pair, every, subsets=subsets) for pair in pairs}
        worst = max(truth.values())
        # One release has mu = 2 / noise multiplier = 1. The worst pair is met, and no pair is above its own number.
        assert forecast(run).epsilon(1e-5) == pytest.approx(gdp_epsilon(math.sqrt(worst), 1e-5), rel=1e-8)
        assert forecast(run).delta(1.0) >= gdp_delta(math.sqrt(worst), 1.0) * (1.0 - 1e-9)
        stated = exact_account(run, order, every).matrix()
        for (target, observer), known in truth.items():
            assert stated[target, observer] ** 2 >= known * (1.0 - 1e-9)


def test_passing_on_tells_more_than_updating() -> None:
    run = planned_run(
        schedule="designed-ring",
        nodes=6,
        steps=48,
        skip=0.0,
        noise_multiplier=2.0,
        step_size="sqrt",
        protects="node",
        closing=0,
    )
    order = order_of(run)
    pairs = [(u, v) for u in range(6) for v in range(6) if u != v]
    updating, passing = (
        gdp_epsilon(math.sqrt(max(leakage(order, u, v, (way,) * 8, 1, 0) for u, v in pairs)), 1e-5)
        for way in (True, False)
    )
    assert (round(updating, 3), round(passing, 3)) == (10.728, 10.810)
    assert forecast(run).epsilon(1e-5) == pytest.approx(passing, rel=1e-8)


@pytest.mark.parametrize("against", ["node", "outsider"])
def test_an_outsider_has_no_turns_to_pass_on(against: Any) -> None:
    order = known_order(5, 4, 3, 2)
    # An observer that no hop belongs to: it looks at the end.
    outside = max(leakage(order, u, -1, (), 1, 0) for u in range(5))
    stated = forecast(planned(order, against=against)).epsilon(1e-5)
    alone = gdp_epsilon(math.sqrt(outside), 1e-5)
    assert stated == pytest.approx(alone, rel=1e-8) if against == "outsider" else stated > alone


@pytest.mark.parametrize("target_skip", [None, 0.02, 0.6])
def test_floors_of_update_numbers_hold_where_the_observer_never_updates(target_skip: float | None) -> None:
    failure, skip, order = 1e-6, 0.1, known_order(3, 60, 4)
    run = planned(order, skip=skip, target_skip=target_skip)
    floors = Chances(run, order, failure).floors
    ready, rounds = 1.0 - (skip if target_skip is None else target_skip), np.arange(60)
    for target, observer in itertools.permutations(range(3), 2):
        (other,) = {0, 1, 2} - {target, observer}
        by_other = rounds + (order.places[:, other] < order.places[:, target])
        too_high = 0.0
        for before, own, floor in zip(by_other.tolist(), rounds.tolist(), floors[:, target].tolist(), strict=True):
            law = np.convolve(*(binom.pmf(np.arange(n + 1), n, q) for n, q in ((before, 1.0 - skip), (own, ready))))
            too_high += float(law[: floor - 1].sum())
        assert too_high <= failure
    assert floors[-1].min() > 30  # they say something
