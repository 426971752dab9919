"""Theorem 1: the fast formulas against the printed one, its laws, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipring.convergence import (
    ErrorTerms,
    Problem,
    _bias,
    _optimisation,
    best_learning_rate,
    error_bound,
    error_terms,
)
from skipring.errors import InvalidInput
from skipring.schedules import schedule_kind

PAPER: dict[str, Any] = {
    "noise_multiplier": 10.5976,
    "dimension": 8,
    "diameter": 10.0,
    "gradient_bound": 1.0,
    "learning_rate": 0.6,
}
# Without noise and with a small diameter the bias is a large part of the error: a sharper test of it.
QUIET: dict[str, Any] = {
    "noise_multiplier": 0.0,
    "dimension": 1,
    "diameter": 0.5,
    "gradient_bound": 3.0,
    "learning_rate": 0.2,
}


def mixing_factor(schedule: str, nodes: int, skip: float) -> float:
    return math.exp(schedule_kind(schedule).log_mixing_factor(nodes, skip))


def errors_after_updates(updates: int, problem: Problem, *, schedule: str, nodes: int, skip: float) -> Any:
    """Return e_0, ..., e_updates for runs with exactly that many updates, as the bound adds them up."""
    bias = _bias(schedule_kind(schedule).log_mixing_factor(nodes, skip), 1, updates)
    errors = _optimisation(1, updates) * problem.spread + problem.largest_error * math.sqrt(nodes) * bias
    return np.append(problem.largest_error, errors)


def printed_mixing_factor(nodes: int, skip: float) -> Any:
    p = mpmath.mpf(skip)
    return (1 - p) / mpmath.sqrt((1 + p**2) - 2 * p * mpmath.cos(2 * mpmath.pi / nodes))


def printed_error(h: int, factor: Any, nodes: int, problem: dict[str, Any]) -> Any:
    """e_h of Theorem 1, sum by sum."""
    D, k, rate = (mpmath.mpf(problem[name]) for name in ("diameter", "gradient_bound", "learning_rate"))
    if h == 0:
        return D * k
    sigma = mpmath.mpf(problem["noise_multiplier"]) * k
    first = (D**2 + rate**2 * (k**2 + problem["dimension"] * sigma**2)) * (2 + mpmath.log(h + 1))
    first /= rate * mpmath.sqrt(h + 1)
    powers = [factor**i for i in range(h + 2)]
    single = mpmath.fsum(powers[1:]) / (h + 1)
    double = mpmath.fsum(mpmath.fsum(powers[h + 1 - j :]) / (j * (j + 1)) for j in range(1, h + 1))
    return first + D * k * mpmath.sqrt(nodes) * (single + double)


def printed_bound(steps: int, skip: float, factor: Any, nodes: int, problem: dict[str, Any]) -> Any:
    p = mpmath.mpf(skip)
    return mpmath.fsum(
        mpmath.binomial(steps, h) * (1 - p) ** h * p ** (steps - h) * printed_error(h, factor, nodes, problem)
        for h in range(steps + 1)
    )


@pytest.mark.parametrize(
    ("nodes", "skip"),
    [(2, 0.3), (10, 0.5), (10, 1e-4), (500, 1e-4), (500, 0.7), (7, 1 - 1e-9), (10**6, 1e-12)],
)
def test_mixing_factor_is_the_printed_one(nodes: int, skip: float) -> None:
    with mpmath.workdps(60):
        factor = printed_mixing_factor(nodes, skip)
        assert mixing_factor("ring", nodes, skip) == pytest.approx(float(factor), rel=1e-15)


def test_a_large_ring_with_few_skips_mixes_very_slowly() -> None:
    assert 1.0 - mixing_factor("ring", 500, 1e-4) == pytest.approx(7.9e-9, rel=2e-3)


@pytest.mark.parametrize("schedule", ["random-ring", "random-walk"])
@pytest.mark.parametrize("skip", [0.0, 0.5])
def test_random_schedules_have_no_bias(schedule: str, skip: float) -> None:
    assert mixing_factor(schedule, 10, skip) == 0.0
    assert error_terms(schedule=schedule, nodes=10, steps=50, skip=skip).bias == 0.0


@pytest.mark.parametrize("problem", [PAPER, QUIET], ids=["paper", "quiet"])
@pytest.mark.parametrize(
    ("nodes", "skip", "last"),
    [(2, 0.9, 40), (10, 0.5, 60), (10, 1e-4, 60), (500, 1e-4, 200), (3, 1 - 1e-6, 20)],
)
def test_errors_are_the_printed_ones_on_the_ring(nodes: int, skip: float, last: int, problem: dict[str, Any]) -> None:
    errors = errors_after_updates(last, schedule="ring", nodes=nodes, skip=skip, problem=Problem(**problem))
    assert len(errors) == last + 1
    with mpmath.workdps(40):
        factor = printed_mixing_factor(nodes, skip)
        for h in {0, 1, 2, 3, 4, 7, 8, 9, 16, last // 2, last - 1, last}:
            expected = printed_error(h, factor, nodes, problem)
            assert errors[h] == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("skip", [0.0, 0.5])
def test_errors_are_the_printed_ones_on_the_random_ring(skip: float) -> None:
    errors = errors_after_updates(30, schedule="random-ring", nodes=10, skip=skip, problem=Problem(**QUIET))
    with mpmath.workdps(30):
        expected = [float(printed_error(h, mpmath.mpf(0), 10, QUIET)) for h in range(31)]
    assert errors == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("nodes", "skip"), [(500, 1e-4), (500, 0.7), (10, 0.5), (10, 0.999)])
def test_the_bias_stays_exact_over_many_updates(nodes: int, skip: float) -> None:
    last = 20_000
    errors = errors_after_updates(last, schedule="ring", nodes=nodes, skip=skip, problem=Problem(**QUIET))
    unbiased = errors_after_updates(last, schedule="random-ring", nodes=nodes, skip=skip, problem=Problem(**QUIET))
    # The recurrence is exact algebra; at 50 digits stepping through it loses nothing.
    with mpmath.workdps(50):
        factor = printed_mixing_factor(nodes, skip)
        geometric, double = factor, mpmath.mpf(0)
        expected = np.empty(last + 1)
        for m in range(1, last + 1):
            geometric = factor * (1 + geometric)
            double = factor * double + geometric / (m * (m + 1))
            expected[m] = float(geometric / (m + 1) + double)
    scale = QUIET["diameter"] * QUIET["gradient_bound"] * math.sqrt(nodes)
    assert errors[1:] == pytest.approx(unbiased[1:] + scale * expected[1:], rel=1e-12)
    # The same bias on its own, for runs of a known number of updates far from the start.
    bias = (errors - unbiased)[-1] / scale
    assert bias == pytest.approx(expected[-1], rel=1e-9)


@pytest.mark.parametrize(("nodes", "skip", "steps"), [(10, 0.5, 40), (500, 1e-4, 60), (2, 0.95, 25), (10, 0.01, 1)])
def test_bound_is_the_printed_expectation(nodes: int, skip: float, steps: int) -> None:
    with mpmath.workdps(40):
        factor = printed_mixing_factor(nodes, skip)
        ring = float(printed_bound(steps, skip, factor, nodes, QUIET))
        random_ring = float(printed_bound(steps, skip, mpmath.mpf(0), nodes, QUIET))
    given_: dict[str, Any] = {"nodes": nodes, "skip": skip, "steps": steps, "problem": Problem(**QUIET)}
    assert error_bound(schedule="ring", **given_) == pytest.approx(ring, rel=1e-12)
    assert error_bound(schedule="random-ring", **given_) == pytest.approx(random_ring, rel=1e-12)


@pytest.mark.parametrize("schedule", ["ring", "random-ring"])
@pytest.mark.parametrize("skip", [1e-4, 0.5, 0.7, 0.999])
def test_the_window_of_update_counts_loses_nothing(schedule: str, skip: float) -> None:
    """A long run, where the bound looks only at the likely numbers of updates, against all of them."""
    from scipy.stats import binom

    steps, nodes = 30_000, 10
    errors = errors_after_updates(steps, schedule=schedule, nodes=nodes, skip=skip, problem=Problem(**QUIET))
    expected = float(binom.pmf(np.arange(steps, -1, -1), steps, skip) @ errors)
    given_: dict[str, Any] = {"schedule": schedule, "nodes": nodes, "skip": skip, "problem": Problem(**QUIET)}
    assert error_bound(steps=steps, **given_) == pytest.approx(expected, rel=1e-10)


def test_without_skips_every_step_is_an_update() -> None:
    errors = errors_after_updates(25, schedule="random-ring", nodes=10, skip=0.0, problem=Problem(**PAPER))
    given_: dict[str, Any] = {"schedule": "random-ring", "nodes": 10, "skip": 0.0, "problem": Problem(**PAPER)}
    assert [error_bound(steps=steps, **given_) for steps in range(1, 26)] == pytest.approx(errors[1:], rel=1e-15)


@given(
    steps=st.integers(1, 3000),
    nodes=st.integers(2, 600),
    skip=st.floats(1e-6, 0.999),
    diameter=st.floats(0.1, 100.0),
    learning_rate=st.floats(1e-3, 10.0),
)
def test_terms_add_up_to_the_bound(steps: int, nodes: int, skip: float, diameter: float, learning_rate: float) -> None:
    problem = {**PAPER, "diameter": diameter, "learning_rate": learning_rate, "gradient_bound": 2.0}
    terms = error_terms(schedule="ring", nodes=nodes, steps=steps, skip=skip)
    second_moment = 2.0**2 * (1.0 + 8 * 10.5976**2)
    bound = terms.optimisation * (diameter**2 + learning_rate**2 * second_moment) / learning_rate
    bound += diameter * 2.0 * (terms.bias + terms.no_update)
    assert error_bound(Problem(**problem), schedule="ring", nodes=nodes, steps=steps, skip=skip) == pytest.approx(bound)
    assert terms.no_update == pytest.approx(skip**steps)


@given(
    diameter=st.floats(0.1, 100.0),
    gradient_bound=st.floats(0.1, 10.0),
    noise_multiplier=st.floats(0.0, 30.0),
    dimension=st.integers(1, 10_000),
    other=st.floats(0.1, 10.0),
)
def test_no_learning_rate_beats_the_best_one(
    diameter: float, gradient_bound: float, noise_multiplier: float, dimension: int, other: float
) -> None:
    problem = {
        "diameter": diameter,
        "gradient_bound": gradient_bound,
        "noise_multiplier": noise_multiplier,
        "dimension": dimension,
    }
    best = best_learning_rate(**problem)  # type: ignore[arg-type]
    terms = ErrorTerms(optimisation=0.3, bias=0.1, no_update=0.0)
    lowest = terms.bound(Problem(learning_rate=best, **problem))  # type: ignore[arg-type]
    assert lowest <= terms.bound(Problem(learning_rate=best * other, **problem)) * (1 + 1e-14)  # type: ignore[arg-type]


@given(nodes=st.integers(2, 200), skip=st.floats(1e-5, 0.99), last=st.integers(8, 400))
def test_the_ring_never_beats_the_random_ring_and_more_updates_help(nodes: int, skip: float, last: int) -> None:
    ring = errors_after_updates(last, schedule="ring", nodes=nodes, skip=skip, problem=Problem(**PAPER))
    random_ring = errors_after_updates(last, schedule="random-ring", nodes=nodes, skip=skip, problem=Problem(**PAPER))
    assert np.all(ring >= random_ring)
    assert np.all(np.diff(random_ring[1:]) < 0.0)


def test_bound_grows_with_skips_noise_and_dimension() -> None:
    given_: dict[str, Any] = {"schedule": "random-ring", "nodes": 10, "steps": 1000, "skip": 0.5}
    base = error_bound(Problem(**PAPER), **given_)
    for change in ({"noise_multiplier": 11.0}, {"dimension": 9}):
        assert error_bound(Problem(**{**PAPER, **change}), **given_) > base
    for change in ({"skip": 0.6}, {"steps": 900}):
        assert error_bound(Problem(**PAPER), **{**given_, **change}) > base


def test_the_bound_of_a_million_updates_is_finite() -> None:
    errors = errors_after_updates(1_000_000, schedule="ring", nodes=500, skip=1e-4, problem=Problem(**PAPER))
    assert np.all(np.isfinite(errors))


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        ({"skip": 0.0}, "skip"),
        ({"skip": 1.0}, "skip"),
        ({"skip": -0.1}, "skip"),
        ({"skip": math.nan}, "skip"),
        ({"nodes": 1}, "nodes"),
        ({"nodes": 2.5}, "nodes"),
        ({"steps": 0}, "steps"),
        ({"steps": 10.5}, "steps"),
        ({"schedule": "star"}, "schedule"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"dimension": 0}, "dimension"),
        ({"diameter": 0.0}, "diameter"),
        ({"diameter": math.inf}, "diameter"),
        ({"gradient_bound": 0.0}, "gradient_bound"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": math.nan}, "learning_rate"),
    ],
)
def test_what_cannot_be_used_is_named(change: dict[str, Any], parameter: str) -> None:
    given_: dict[str, Any] = {"schedule": "ring", "nodes": 10, "steps": 100, "skip": 0.5, **change}
    problem = {name: given_.pop(name, value) for name, value in PAPER.items()}
    with pytest.raises(InvalidInput) as refusal:
        error_bound(Problem(**problem), **given_)
    assert refusal.value.parameter == parameter


def test_the_fixed_ring_without_skips_says_why() -> None:
    with pytest.raises(InvalidInput, match=r"skip = 0\.0: .*positive skip probability"):
        mixing_factor("ring", 10, 0.0)


@pytest.mark.parametrize("parameter", ["diameter", "gradient_bound", "dimension"])
def test_best_learning_rate_refuses_zeros(parameter: str) -> None:
    values = {"diameter": 1.0, "gradient_bound": 1.0, "noise_multiplier": 1.0, "dimension": 1, parameter: 0}
    with pytest.raises(InvalidInput, match=f"{parameter} = 0"):
        best_learning_rate(**values)  # type: ignore[arg-type]
