"""Plans for records and persons: the noise on a gradient, the rows of an update, and what nodes had before."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from skipring.convergence import Problem, best_learning_rate, error_bound
from skipring.delays import Exponential
from skipring.errors import InvalidInput
from skipring.learning import LOGISTIC, LinearModel, Protection
from skipring.planning import ASSUMED_SMOOTHNESS, Budget, Plan, frontier, plan
from skipring.privacy import calibrate, forecast

NODES = Budget(
    nodes=12,
    delay=Exponential(1.0),
    hop_latency=0.01,
    epsilon=2.0,
    delta=1e-6,
    dimension=8,
    gradient_bound=0.5,
    diameter=10.0,
    steps=240,
    protects="node",
)
RECORDS = dataclasses.replace(NODES, protects="record", rows=40)


def bound(budget: Budget, chosen: Plan, noise_over_gradient: float) -> float:
    return error_bound(
        schedule=budget.schedule,
        nodes=budget.nodes,
        steps=chosen.steps,
        skip=chosen.skip_probability,
        problem=Problem(
            noise_multiplier=noise_over_gradient,
            dimension=budget.dimension,
            diameter=budget.diameter,
            gradient_bound=budget.gradient_bound,
            learning_rate=chosen.learning_rate,
        ),
    )


@pytest.mark.parametrize(
    ("changes", "contribution"),
    [
        ({"batch": 40}, 0.5),
        ({"batch": 10}, 0.5),
        ({"protects": "person", "rows_per_person": 3, "batch": 12}, 1.5),
    ],
)
def test_a_plan_keeps_its_budget_and_its_bound_has_the_noise_on_the_gradient(
    changes: dict[str, Any], contribution: float
) -> None:
    budget = dataclasses.replace(RECORDS, **changes)
    plans = plan(budget)
    assert plans.batches == ()
    for chosen in (plans.best, *plans.alternatives):
        # sigma of the noise is z x (the most that one unit contributes) / B; Theorem 1 takes it over the length k of
        # a gradient, which is a sum over at most B rows, each of length k at most, divided by B.
        sigma = chosen.noise_multiplier * contribution / changes["batch"]
        assert chosen.noise_std == pytest.approx(sigma, rel=1e-12)
        assert chosen.error_bound == pytest.approx(bound(budget, chosen, sigma / 0.5), rel=1e-9)
        rate = best_learning_rate(diameter=10.0, gradient_bound=0.5, noise_multiplier=sigma / 0.5, dimension=8)
        assert chosen.learning_rate == pytest.approx(min(rate, 2.0 / ASSUMED_SMOOTHNESS))
        assert (chosen.batch, chosen.parts) == (changes["batch"], budget.parts)
        if chosen.accounting == "tight":
            run = budget.run(chosen.steps, chosen.skip_probability)
            assert run.unit.every == budget.parts
            assert chosen.noise_multiplier == calibrate(forecast(run).with_noise, 2.0, 1e-6)
    assert forecast(plans.run).epsilon(1e-6) == pytest.approx(2.0, rel=1e-4)
    assert any(other.accounting == "paper" for other in plans.alternatives) == (budget.parts == 1)
    assert ("paper's accounting" in dict(plans.left_out)) == (budget.parts > 1)


@pytest.mark.parametrize(("unit", "batch", "per_person"), [("record", 7, 1), ("record", 40, 1), ("person", 11, 3)])
def test_parts_and_noise_are_those_of_an_update(unit: Any, batch: int, per_person: int) -> None:
    budget = dataclasses.replace(
        RECORDS, protects=unit, batch=batch, rows_per_person=per_person if unit == "person" else None
    )
    agreed = Protection(unit=unit, batch=batch, rows_per_person=per_person)
    assert budget.parts == agreed.parts(math.ceil(40 / per_person))
    assert budget.units_per_update == agreed.units_per_update
    model = LinearModel(loss=LOGISTIC, features=7, diameter=10.0)
    assert budget.gradient_noise(3.0) * model.gradient_bound == pytest.approx(agreed.noise_std(model, 3.0))


@pytest.mark.slow
def test_the_batch_with_the_smallest_bound_is_proposed() -> None:
    plans = plan(RECORDS)
    given = {batch: plan(dataclasses.replace(RECORDS, batch=batch)).best for batch in (40, 20, 10)}
    assert plans.best == min(given.values(), key=lambda each: each.error_bound)
    assert plans.budget.batch == plans.best.batch
    assert {other.batch: other.error_bound for other in plans.batches} | {plans.best.batch: plans.best.error_bound} == {
        batch: each.error_bound for batch, each in given.items()
    }
    # Fewer rows take part less often and need a smaller multiplier, but are divided by less.
    assert given[40].noise_multiplier > given[20].noise_multiplier > given[10].noise_multiplier
    assert given[40].noise_std < given[20].noise_std < given[10].noise_std
    (point,) = frontier(RECORDS, [2.0])
    assert point.plans[0] == plans.best


def test_persons_are_proposed_whole() -> None:
    budget = dataclasses.replace(RECORDS, protects="person", rows_per_person=3)
    assert [(each.batch, each.parts) for each in budget.proposals] == [(42, 1), (21, 2), (12, 4)]
    assert [each.batch for each in dataclasses.replace(RECORDS, rows=1).proposals] == [1]


def test_one_row_at_each_node_is_a_node() -> None:
    nodes, rows = plan(NODES).best, plan(dataclasses.replace(RECORDS, rows=1)).best
    assert dataclasses.replace(rows, batch=None) == nodes
    assert nodes.noise_std == nodes.noise_multiplier * 0.5


@pytest.mark.slow
def test_a_walk_does_not_count_rows_that_take_turns() -> None:
    walk = dataclasses.replace(RECORDS, schedule="random-walk", batch=10)
    assert plan(walk).best.noise_multiplier == plan(dataclasses.replace(walk, rows=None)).best.noise_multiplier


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"protects": "node"}, "rows"),
        ({"protects": "node", "rows": None, "batch": 3}, "batch"),
        ({"rows": None}, "rows"),
        ({"rows_per_person": 2}, "rows_per_person"),
        ({"protects": "person"}, "rows_per_person"),
        ({"protects": "person", "rows_per_person": 4, "batch": 3}, "batch"),
        ({"batch": 41}, "batch"),
        ({"batch": 0}, "batch"),
        ({"rows": 2.5}, "rows"),
        ({"protects": "row"}, "protects"),
    ],
)
def test_budgets_that_make_no_sense_are_refused(changes: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        dataclasses.replace(RECORDS, **changes)
    assert refused.value.parameter == parameter
