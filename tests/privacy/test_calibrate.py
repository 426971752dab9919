"""From a budget to noise or steps: what comes back keeps the budget, and nothing less would."""

from __future__ import annotations

import pytest

from skipring.errors import InvalidInput
from skipring.privacy import (
    PaperBound,
    PlannedRun,
    calibrate,
    forecast,
    gdp_mu,
    planned_run,
)

RUNS = {
    "ring": planned_run(schedule="ring", nodes=10, steps=100, skip=0.3, noise_multiplier=1.0),
    "ring, distance": planned_run(schedule="ring", nodes=10, steps=100, skip=0.3, noise_multiplier=1.0, distance=5),
    "random ring": planned_run(schedule="random-ring", nodes=10, steps=100, skip=0.3, noise_multiplier=1.0),
    "random ring, participants": planned_run(
        schedule="random-ring", nodes=10, steps=100, skip=0.3, noise_multiplier=1.0, against="skipped-node"
    ),
    "random ring, non-convex": planned_run(
        schedule="random-ring", nodes=10, steps=100, skip=0.3, noise_multiplier=1.0, convex=False
    ),
    "random walk": planned_run(schedule="random-walk", nodes=10, steps=95, skip=0.3, noise_multiplier=1.0),
    "random walk, participants": planned_run(
        schedule="random-walk", nodes=10, steps=95, skip=0.3, noise_multiplier=1.0, against="skipped-node"
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
    noise = calibrate(forecast(run).with_noise, epsilon, delta)
    assert forecast(run.replace(noise_multiplier=noise)).epsilon(delta) <= epsilon * TIGHT
    assert forecast(run.replace(noise_multiplier=0.999 * noise)).epsilon(delta) > epsilon


def test_noise_does_not_depend_on_the_noise_of_the_run_nor_on_how_it_is_given() -> None:
    run = RUNS["random ring"]
    noise = calibrate(forecast(run).with_noise, 1.0, 1e-5)
    assert calibrate(forecast(run.replace(noise_multiplier=50.0)).with_noise, 1.0, 1e-5) == noise
    assert calibrate(forecast(run).with_noise(7.0).with_noise, 1.0, 1e-5) == noise


def test_a_single_certain_release_asks_for_the_noise_of_the_gaussian_mechanism() -> None:
    run = planned_run(schedule="ring", nodes=3, steps=3, skip=0.0, noise_multiplier=1.0)
    assert calibrate(forecast(run).with_noise, 1.0, 1e-6) == pytest.approx(2.0 / gdp_mu(1.0, 1e-6), rel=1e-6)


def test_epsilon_zero_is_a_budget_of_delta_alone() -> None:
    for run in (RUNS["ring"], RUNS["random walk"]):
        noise = calibrate(forecast(run).with_noise, 0.0, 1e-2)
        assert forecast(run.replace(noise_multiplier=noise)).delta(0.0) <= 1e-2 * TIGHT
        assert forecast(run.replace(noise_multiplier=0.99 * noise)).delta(0.0) > 1e-2


def test_smaller_budgets_ask_for_more_noise() -> None:
    run = RUNS["random ring"]
    noises = [calibrate(forecast(run).with_noise, epsilon, 1e-5) for epsilon in (4.0, 2.0, 1.0, 0.5)]
    assert noises == sorted(noises)
    assert calibrate(forecast(run).with_noise, 1.0, 1e-8) > calibrate(forecast(run).with_noise, 1.0, 1e-5)


def test_amplification_saves_noise() -> None:
    assert calibrate(forecast(RUNS["random ring"]).with_noise, 1.0, 1e-5) < calibrate(
        forecast(RUNS["random ring, non-convex"]).with_noise, 1.0, 1e-5
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(-1.0, 1e-6), (float("inf"), 1e-6), (1.0, 0.0), (1.0, 1.0)])
def test_impossible_budgets_are_refused(epsilon: float, delta: float) -> None:
    run = RUNS["random ring"]
    with pytest.raises(InvalidInput):
        calibrate(forecast(run).with_noise, epsilon, delta)
    with pytest.raises(InvalidInput):
        calibrate(PaperBound(run, delta_prime=1e-6).with_noise, epsilon, delta)


# ------------------------------------------------------------------------------------- the paper's theorems

COVERED = {name: run for name, run in RUNS.items() if name in ("ring", "random ring", "random walk")}


@pytest.mark.parametrize("run", COVERED.values(), ids=COVERED.keys())
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_noise_by_the_paper_keeps_the_budget_of_the_paper(run: PlannedRun, epsilon: float) -> None:
    noise = calibrate(PaperBound(run, delta_prime=1e-6).with_noise, epsilon, 1e-6)

    def bound(multiplier: float) -> float:
        return PaperBound(run.replace(noise_multiplier=multiplier), delta_prime=1e-6).epsilon(1e-6)

    assert bound(noise) <= epsilon * TIGHT
    assert bound(0.999 * noise) > epsilon


def test_the_tight_accountant_needs_less_noise_than_the_paper() -> None:
    for run in COVERED.values():
        assert calibrate(forecast(run).with_noise, 3.0, 2e-6) < calibrate(
            PaperBound(run, delta_prime=1e-6).with_noise, 3.0, 1e-6
        )


@pytest.mark.parametrize(
    ("parameter", "changes"),
    [
        ("target_skip", {"target_skip": 0.0}),
        ("against", {"against": "skipped-node"}),
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
        calibrate(PaperBound(run, delta_prime=1e-6).with_noise, 1.0, 1e-6)


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
