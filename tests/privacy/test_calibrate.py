"""From a budget to noise or steps: what comes back keeps the budget, and nothing less would."""

from __future__ import annotations

import pytest

from skipring.errors import InvalidInput
from skipring.privacy import (
    PaperBound,
    PlannedRun,
    forecast,
    gdp_mu,
    noise_for_budget,
    paper_noise_for_budget,
    planned_run,
    steps_for_budget,
)
from skipring.privacy.record import ScheduleName

RUNS = {
    "ring": planned_run(schedule="ring", nodes=10, steps=100, skip=0.3, noise_multiplier=1.0),
    "ring, distance": planned_run(schedule="ring", nodes=10, steps=100, skip=0.3, noise_multiplier=1.0, distance=5),
    "random ring": planned_run(schedule="random-ring", nodes=10, steps=100, skip=0.3, noise_multiplier=1.0),
    "random ring, participants": planned_run(
        schedule="random-ring", nodes=10, steps=100, skip=0.3, noise_multiplier=1.0, view="participants"
    ),
    "random ring, non-convex": planned_run(
        schedule="random-ring", nodes=10, steps=100, skip=0.3, noise_multiplier=1.0, convex=False
    ),
    "random walk": planned_run(schedule="random-walk", nodes=10, steps=95, skip=0.3, noise_multiplier=1.0),
    "random walk, participants": planned_run(
        schedule="random-walk", nodes=10, steps=95, skip=0.3, noise_multiplier=1.0, view="participants"
    ),
    "random walk, constant steps": planned_run(
        schedule="random-walk", nodes=10, steps=95, skip=0.3, noise_multiplier=1.0, step_size="constant"
    ),
}
every_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
TIGHT = 1.0 + 1e-6


@pytest.mark.sample(8)
@every_run
@pytest.mark.parametrize(("epsilon", "delta"), [(2.0, 1e-6), (0.1, 1e-3)])
def test_noise_keeps_the_budget_and_less_breaks_it(run: PlannedRun, epsilon: float, delta: float) -> None:
    noise = noise_for_budget(run, epsilon, delta)
    assert forecast(run.replace(noise_multiplier=noise)).epsilon(delta) <= epsilon * TIGHT
    assert forecast(run.replace(noise_multiplier=0.999 * noise)).epsilon(delta) > epsilon


def test_noise_does_not_depend_on_the_noise_of_the_run_nor_on_how_it_is_given() -> None:
    run = RUNS["random ring"]
    noise = noise_for_budget(run, 1.0, 1e-5)
    assert noise_for_budget(run.replace(noise_multiplier=50.0), 1.0, 1e-5) == noise
    assert noise_for_budget(forecast(run), 1.0, 1e-5) == noise


def test_a_single_certain_release_asks_for_the_noise_of_the_gaussian_mechanism() -> None:
    run = planned_run(schedule="ring", nodes=3, steps=3, skip=0.0, noise_multiplier=1.0)
    assert noise_for_budget(run, 1.0, 1e-6) == pytest.approx(2.0 / gdp_mu(1.0, 1e-6), rel=1e-6)


def test_epsilon_zero_is_a_budget_of_delta_alone() -> None:
    for run in (RUNS["ring"], RUNS["random walk"]):
        noise = noise_for_budget(run, 0.0, 1e-2)
        assert forecast(run.replace(noise_multiplier=noise)).delta(0.0) <= 1e-2 * TIGHT
        assert forecast(run.replace(noise_multiplier=0.99 * noise)).delta(0.0) > 1e-2


def test_smaller_budgets_ask_for_more_noise() -> None:
    run = RUNS["random ring"]
    noises = [noise_for_budget(run, epsilon, 1e-5) for epsilon in (4.0, 2.0, 1.0, 0.5)]
    assert noises == sorted(noises)
    assert noise_for_budget(run, 1.0, 1e-8) > noise_for_budget(run, 1.0, 1e-5)


def test_amplification_saves_noise() -> None:
    assert noise_for_budget(RUNS["random ring"], 1.0, 1e-5) < noise_for_budget(
        RUNS["random ring, non-convex"], 1.0, 1e-5
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(-1.0, 1e-6), (float("inf"), 1e-6), (1.0, 0.0), (1.0, 1.0)])
def test_impossible_budgets_are_refused(epsilon: float, delta: float) -> None:
    run = RUNS["random ring"]
    with pytest.raises(InvalidInput):
        noise_for_budget(run, epsilon, delta)
    with pytest.raises(InvalidInput):
        steps_for_budget(run, epsilon, delta)
    with pytest.raises(InvalidInput):
        paper_noise_for_budget(run, epsilon, delta, 1e-6)


# ---------------------------------------------------------------------------------------------------- steps


@every_run
def test_steps_keep_the_budget_and_one_round_more_breaks_it(run: PlannedRun) -> None:
    loud = run.replace(noise_multiplier=5.0)
    steps = steps_for_budget(loud, 3.0, 1e-5)
    more = 1 if run.schedule == "random-walk" else run.nodes
    assert steps % more == 0
    assert forecast(loud.replace(steps=steps)).delta(3.0) <= 1e-5
    assert forecast(loud.replace(steps=steps + more)).delta(3.0) > 1e-5


def test_steps_do_not_depend_on_the_steps_of_the_run() -> None:
    run = RUNS["random ring"].replace(noise_multiplier=5.0)
    assert steps_for_budget(run.replace(steps=5000), 3.0, 1e-5) == steps_for_budget(run, 3.0, 1e-5)


def test_steps_stop_where_they_are_told() -> None:
    run = RUNS["ring"].replace(noise_multiplier=1e4)
    assert steps_for_budget(run, 1.0, 1e-5, most=12_345) == 12_340


@pytest.mark.parametrize("schedule", ["ring", "random-ring", "random-walk"])
def test_a_budget_too_small_for_the_first_round_is_refused(schedule: ScheduleName) -> None:
    run = planned_run(schedule=schedule, nodes=4, steps=4, skip=0.1, noise_multiplier=1.0)
    with pytest.raises(InvalidInput) as refusal:
        steps_for_budget(run, 0.01, 1e-6)
    assert refusal.value.parameter == "epsilon"
    first = run.replace(steps=1 if schedule == "random-walk" else 4)
    assert f"{forecast(first).epsilon(1e-6):.4g}" in refusal.value.reason


def test_noise_and_steps_agree() -> None:
    run = RUNS["random ring"]
    noise = noise_for_budget(run, 2.0, 1e-5)
    assert steps_for_budget(run.replace(noise_multiplier=noise * TIGHT), 2.0, 1e-5) == run.steps


# ------------------------------------------------------------------------------------- the paper's theorems

COVERED = {name: run for name, run in RUNS.items() if name in ("ring", "random ring", "random walk")}


@pytest.mark.parametrize("run", COVERED.values(), ids=COVERED.keys())
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_noise_by_the_paper_keeps_the_budget_of_the_paper(run: PlannedRun, epsilon: float) -> None:
    noise = paper_noise_for_budget(run, epsilon, 1e-6, 1e-6)

    def bound(multiplier: float) -> float:
        return PaperBound(run.replace(noise_multiplier=multiplier), delta_prime=1e-6).epsilon(1e-6)

    assert bound(noise) <= epsilon * TIGHT
    assert bound(0.999 * noise) > epsilon


def test_the_tight_accountant_needs_less_noise_than_the_paper() -> None:
    for run in COVERED.values():
        assert noise_for_budget(run, 3.0, 2e-6) < paper_noise_for_budget(run, 3.0, 1e-6, 1e-6)


@pytest.mark.parametrize(
    ("parameter", "changes"),
    [
        ("target_skip", {"target_skip": 0.0}),
        ("view", {"view": "participants"}),
        ("observers", {"observers": 2}),
        ("non_convex", {"convex": False}),
        ("step_size", {"step_size": "constant"}),
        ("distance", {"schedule": "ring", "distance": 1}),
    ],
)
def test_what_the_theorems_do_not_cover_is_refused(parameter: str, changes: dict[str, object]) -> None:
    run = RUNS["random ring"].replace(**changes)
    with pytest.raises(InvalidInput) as refusal:
        PaperBound(run, delta_prime=1e-6)
    assert refusal.value.parameter == parameter
    with pytest.raises(InvalidInput):
        paper_noise_for_budget(run, 1.0, 1e-6, 1e-6)


@pytest.mark.parametrize("delta_prime", [0.0, 1.0, -1e-6])
def test_delta_prime_is_a_probability(delta_prime: float) -> None:
    with pytest.raises(InvalidInput):
        PaperBound(RUNS["ring"], delta_prime=delta_prime)


def test_delta_of_the_paper_is_the_inverse_of_its_epsilon() -> None:
    for run in COVERED.values():
        bound = PaperBound(run.replace(noise_multiplier=8.0), delta_prime=1e-6)
        epsilon = bound.epsilon(1e-5)
        assert bound.delta(epsilon) == pytest.approx(1e-5, rel=1e-6)
        with pytest.raises(InvalidInput):
            bound.delta(0.0)
