"""Plans: they keep their budget, and nothing beats them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from skipring.convergence import Problem, best_learning_rate, error_bound
from skipring.delays import Empirical, Exponential, Gamma, Mixture, Never, parse_delay
from skipring.errors import InvalidInput
from skipring.planning import ASSUMED_SMOOTHNESS, Budget, Plan, frontier, plan
from skipring.privacy import PaperBound, PlannedRun, calibrate, forecast, planned_run
from skipring.privacy.record import ScheduleName
from skipring.timeouts import best_timeout, expected_latency, skip_probability

CLINICS = Budget(
    nodes=30,
    delay=Gamma(0.25, 1.0),
    hop_latency=0.01,
    epsilon=2.0,
    delta=1e-6,
    dimension=8,
    gradient_bound=1.0,
    diameter=10.0,
    time=60.0,
    protects="node",
)


def record(budget: Budget, chosen: Plan) -> PlannedRun:
    return planned_run(
        schedule=budget.schedule,
        nodes=budget.nodes,
        steps=chosen.steps,
        skip=chosen.skip_probability,
        noise_multiplier=chosen.noise_multiplier,
        protects="node",
    )


@pytest.mark.parametrize("schedule", ["ring", "random-ring", pytest.param("random-walk", marks=pytest.mark.slow)])
def test_every_plan_keeps_time_and_privacy(schedule: ScheduleName) -> None:
    budget = dataclasses.replace(CLINICS, schedule=schedule)
    plans = plan(budget)
    for chosen in (plans.best, *plans.alternatives):
        assert chosen.expected_time <= 60.0 * (1 + 1e-9)
        hops = expected_latency(budget.delay, chosen.timeout, budget.hop_latency, chosen.steps)
        assert chosen.expected_time == pytest.approx(hops)
        assert chosen.skip_probability == pytest.approx(skip_probability(budget.delay, chosen.timeout))
        assert chosen.expected_updates == pytest.approx(chosen.steps * (1 - chosen.skip_probability))
        run = record(budget, chosen)
        if chosen.accounting == "tight":
            assert forecast(run).epsilon(1e-6) <= 2.0 * (1 + 1e-6)
        else:
            assert PaperBound(run, delta_prime=5e-7).epsilon(5e-7) == pytest.approx(2.0, rel=1e-6)
            assert chosen.noise_multiplier > plans.best.noise_multiplier
        bound = error_bound(
            schedule=schedule,
            nodes=30,
            steps=chosen.steps,
            skip=chosen.skip_probability,
            problem=Problem(
                noise_multiplier=chosen.noise_multiplier,
                dimension=8,
                diameter=10.0,
                gradient_bound=1.0,
                learning_rate=chosen.learning_rate,
            ),
        )
        assert chosen.error_bound == pytest.approx(bound, rel=1e-9)
    assert plans.best.error_bound <= min(other.error_bound for other in plans.alternatives)
    assert ("never skip" in dict(plans.left_out)) == (schedule == "ring")


@pytest.mark.early
@pytest.mark.parametrize("schedule", ["ring", pytest.param("random-ring", marks=pytest.mark.slow)])
def test_no_timeout_and_length_on_a_grid_are_noticeably_better(schedule: ScheduleName) -> None:
    budget = dataclasses.replace(CLINICS, schedule=schedule, nodes=12)
    best = plan(budget).best
    for skip in (1e-3, 0.02, 0.1, 0.25, 0.45, 0.65, 0.85, 0.97):
        timeout = float(budget.delay.upper_quantile(skip))
        most = math.floor(60.0 / expected_latency(budget.delay, timeout, 0.01, 1)) // 12
        for rounds in np.unique(np.geomspace(1, most, 5).astype(int)):
            if skip ** (12 * int(rounds)) > 1e-6:
                continue  # nobody may ever take part: no plan
            run = planned_run(schedule=schedule, nodes=12, steps=12 * int(rounds), skip=skip, noise_multiplier=1.0)
            noise = calibrate(forecast(run).with_noise, 2.0, 1e-6)
            rate = best_learning_rate(diameter=10.0, gradient_bound=1.0, noise_multiplier=noise, dimension=8)
            bound = error_bound(
                schedule=schedule,
                nodes=12,
                steps=run.steps,
                skip=skip,
                problem=Problem(
                    noise_multiplier=noise, dimension=8, diameter=10.0, gradient_bound=1.0, learning_rate=rate
                ),
            )
            # The search steers by Rényi divergences, which ask for a few per cent more noise than the exact law.
            assert best.error_bound <= bound * 1.02


def test_steps_can_be_given_instead_of_time() -> None:
    plans = plan(dataclasses.replace(CLINICS, time=None, steps=600))
    assert {chosen.steps for chosen in (plans.best, *plans.alternatives)} == {600}


def test_without_a_smoothness_that_of_logistic_regression_is_assumed() -> None:
    """Little noise, and the bound asks for large steps: without a limit updates would be no contractions."""
    loud = dataclasses.replace(CLINICS, epsilon=500.0, dimension=2, diameter=100.0)
    assert plan(dataclasses.replace(loud, smoothness=1e-3)).best.learning_rate > 2.0 / ASSUMED_SMOOTHNESS
    assert plan(loud).best.learning_rate == 2.0 / ASSUMED_SMOOTHNESS == 8.0


def test_a_smooth_loss_limits_the_learning_rate() -> None:
    free = plan(CLINICS).best.learning_rate
    limited = plan(dataclasses.replace(CLINICS, smoothness=4.0 / free)).best
    assert limited.learning_rate == pytest.approx(free / 2, rel=0.2)
    assert limited.learning_rate <= 2.0 / (4.0 / free) * (1 + 1e-12)


def test_dead_nodes_are_planned_around() -> None:
    budget = dataclasses.replace(CLINICS, delay=Mixture((0.9, 0.1), (Exponential(1.0), Never())))
    plans = plan(budget)
    assert math.isfinite(plans.best.timeout)
    assert plans.best.skip_probability > 0.1
    assert "never skip" in dict(plans.left_out)


def test_measured_delays_are_planned_for() -> None:
    durations = [0.0, 0.01, 0.02, 0.02, 0.05, 0.1, 0.4, 1.0, 3.0, 3.0]
    budget = dataclasses.replace(CLINICS, delay=Empirical(durations, [False] * 9 + [True]))
    best = plan(budget).best
    assert best.timeout in durations


def test_more_privacy_costs_more_error() -> None:
    points = frontier(CLINICS, [0.5, 1.0, 2.0, 4.0])
    for name in ("best plan", "never skip", "paper's accounting"):
        errors = [next(p.error_bound for p in point.plans if p.name == name) for point in points]
        assert errors == sorted(errors, reverse=True)
    for point in points:
        best = next(p for p in point.plans if p.name == "best plan")
        assert all(best.error_bound <= other.error_bound * 1.005 for other in point.plans)


def test_the_timeout_with_the_most_updates_is_lemma_2() -> None:
    alternative = next(other for other in plan(CLINICS).alternatives if other.name == "most updates")
    assert alternative.timeout == best_timeout(CLINICS.delay, 0.01)


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"time": None}, "time"),
        ({"steps": 60}, "time"),
        ({"time": -1.0}, "time"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"dimension": 0}, "dimension"),
        ({"nodes": 1}, "nodes"),
        ({"time": None, "steps": 61}, "steps"),
        ({"diameter": math.inf}, "diameter"),
        ({"gradient_bound": 0.0}, "gradient_bound"),
        ({"smoothness": 0.0}, "smoothness"),
        ({"schedule": "star"}, "schedule"),
    ],
)
def test_bad_budgets_are_refused(changes: dict[str, object], parameter: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        dataclasses.replace(CLINICS, **changes)  # type: ignore[arg-type] # bad values are the point
    assert refused.value.parameter == parameter


def test_too_little_time_for_a_round_is_refused() -> None:
    with pytest.raises(InvalidInput, match="one round takes that long"):
        plan(dataclasses.replace(CLINICS, time=0.01))


def test_time_for_more_steps_than_are_planned_is_refused() -> None:
    with pytest.raises(InvalidInput, match="short enough for 1e8 steps"):
        plan(dataclasses.replace(CLINICS, time=1e12))


def test_a_trace_has_no_plan(tmp_path: Path) -> None:
    """Its epsilon would be that of independent delays, which those of a trace are not."""
    (tmp_path / "t.csv").write_text("node,seconds\n0,1\n1,2\n")
    with pytest.raises(InvalidInput, match="no epsilon is promised for a trace"):
        Budget(
            nodes=10,
            delay=parse_delay(f"trace:{tmp_path / 't.csv'}"),
            hop_latency=0.01,
            epsilon=1.0,
            delta=1e-6,
            dimension=8,
            gradient_bound=1.0,
            diameter=10.0,
            time=60.0,
        )
