"""Laps of linear models: how far one row moves each sum, by trying, and what is learned where there is little noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.learning.exact_sums import on_grid
from skipring.learning.lap_steps import LapState, LinearLaps
from skipring.learning.linear import LinearModel
from skipring.learning.margin_loss import MarginLoss, loss_named


def model_of(loss: str, features: int = 3, **more: Any) -> LinearModel:
    return LinearModel(loss=loss_named(loss), features=features, **({"diameter": 10.0} | more))


def random_row(rng: np.random.Generator, features: int) -> np.ndarray:
    row = rng.normal(size=features)
    row /= np.linalg.norm(row)
    return row * (1.0 if rng.random() < 0.7 else rng.random()) * (1.0 - 1e-12)


def label_of(rng: np.random.Generator, model: LinearModel) -> float:
    if model.loss.is_of_numbers:
        return float(rng.choice([-1.0, 1.0, 3.0, rng.normal()])) * model.label_bound
    return float(rng.integers(model.classes))


def moved_by(laps: LinearLaps, lap: int, state: LapState, one: tuple[Any, Any], other: tuple[Any, Any]) -> float:
    kind = laps.sum_of(lap)
    first, second = (laps.contribution(state, on_grid(row[None, :]), np.array([label])) for row, label in (one, other))
    return float(np.linalg.norm((first - second) * kind.grid / kind.scales))


@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
@pytest.mark.parametrize("mu", [0.2, 1.0])
def test_no_row_moves_a_sum_further_than_is_said(loss: str, mu: float) -> None:
    rng = np.random.default_rng(1)
    model = model_of(loss, classes=3 if loss == "softmax" else 2, label_bound=2.0)
    laps = LinearLaps(model, mu)
    for lap in range(min(laps.laps, 2)):
        state = laps.start() if lap == 0 else LapState(1, rng.normal(size=model.parameters) * 9.0, np.zeros(0))
        said, largest = laps.sum_of(lap).sensitivity, 0.0
        for _ in range(3000):
            one = random_row(rng, 3)
            # Mostly rows that are close to each other, or to being opposite, where the sums move most.
            other = random_row(rng, 3) if rng.random() < 0.3 else rng.choice([-1.0, 1.0]) * one
            pair = (one, label_of(rng, model)), (other, label_of(rng, model))
            largest = max(largest, moved_by(laps, lap, state, *pair))
        assert 0.9 * said <= largest <= said * (1.0 + 1e-6)


def test_the_first_sum_can_be_moved_as_far_as_is_said() -> None:
    """Two rows at the angle where x x' and the slopes together move most."""
    laps = LinearLaps(model_of("logistic", 2), 0.3)
    angle = math.acos(1.0 / 8.0)  # t = s^2 / 2 with s = 1/2
    short = 1.0 - 1e-9
    one, other = np.array([short, 0.0]), np.array([math.cos(angle), math.sin(angle)]) * short
    said = laps.sum_of(0).sensitivity
    found = max(
        moved_by(laps, 0, laps.start(), (one, 1.0), (sign * other, label)) for sign in (1, -1) for label in (0, 1)
    )
    assert found == pytest.approx(said, rel=1e-5)
    assert found <= said


def scaled(times: float) -> MarginLoss:
    """Return logistic loss times a number."""
    return MarginLoss(
        name=f"logistic-times-{times:g}".replace(".", "-").replace("+", ""),
        value=lambda m: times * np.logaddexp(0.0, -m),
        slope=lambda m: -times / (1.0 + np.exp(np.minimum(m, 700.0))),
        bound=times,
        smoothness=0.25 * times,
    )


@pytest.mark.parametrize("label", [0.0, 1.0, 50.0, -1e6, 1e300, math.inf, math.nan])
def test_no_label_moves_the_first_sum_further_on_a_short_row(label: float) -> None:
    """A slope of 1 at 0, and a row next to nothing with a label that is none: only its slope's bound is left."""
    hinge = MarginLoss(
        name="hinge-of-tests",
        value=lambda m: np.where(m < 0.0, 0.5 - m, 0.5 * np.maximum(1.0 - m, 0.0) ** 2),
        slope=lambda m: np.clip(m - 1.0, -1.0, 0.0),
        bound=1.0,
        smoothness=1.0,
    )
    laps = LinearLaps(LinearModel(loss=hinge, features=2, diameter=10.0), 0.3)
    one = np.array([1.0 - 1e-9, 0.0])
    for short in (1e-3, 1e-1, 0.5, 0.9):
        for sign in (1.0, -1.0):
            with np.errstate(all="ignore"):
                moved = moved_by(laps, 0, laps.start(), (one, 1.0), (np.array([sign * short, 0.0]), label))
            assert moved <= laps.sum_of(0).sensitivity


@pytest.mark.parametrize("times", [1e-6, 1.0, 1e9])
def test_a_loss_in_other_units_learns_the_same(times: float) -> None:
    rng = np.random.default_rng(4)
    x = np.array([random_row(rng, 3) for _ in range(300)])
    y = (x[:, 0] + 0.3 * rng.normal(size=300) > 0.0).astype(np.float64)
    plain = learned(model_of("logistic"), x, y)
    found = learned(LinearModel(loss=scaled(times), features=3, diameter=10.0), x, y)
    assert found == pytest.approx(plain, rel=1e-3)


def test_columns_that_say_the_same_do_not_stop_a_run_without_noise() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(200, 2)) * 0.2
    y = (x[:, 0] > 0.0).astype(np.float64)
    twice, once = (learned(model_of("logistic", rows.shape[1]), rows, y, std=0.0) for rows in (np.hstack([x, x]), x))
    assert np.hstack([x, x]) @ twice == pytest.approx(x @ once, rel=1e-3)


def learned(model: LinearModel, x: np.ndarray, y: np.ndarray, laps: int | None = None, std: float = 1e-9) -> np.ndarray:
    """Learn from two nodes' sums without noise, as a budget of mu = 1 would."""
    rule = LinearLaps(model, 1.0, laps)
    state, half = rule.start(), len(x) // 2
    for lap in range(rule.laps):
        kind = rule.sum_of(lap)
        whole = sum(rule.contribution(state, on_grid(x[part]), y[part]) for part in (slice(half), slice(half, None)))
        state = rule.step(state, np.asarray(whole) * kind.grid, std=std, rows=len(x))
    return state.average


def test_without_noise_least_squares_comes_out_of_one_lap() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(400, 3)) * 0.2
    y = x @ np.array([1.0, -2.0, 0.5]) + rng.normal(size=400) * 0.1
    exact = np.linalg.lstsq(x, y, rcond=None)[0]
    assert learned(model_of("squared", label_bound=4.0), x, y) == pytest.approx(
        exact, abs=1e-3
    )  # slopes are cut to 2^-14


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_without_noise_laps_end_where_the_gradient_is_zero(loss: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(600, 3)) * 0.3
    x = x[np.linalg.norm(x, axis=1) < 1.0]
    scores = x @ rng.normal(size=(3, 3)) * 3.0 + rng.gumbel(size=(len(x), 3))
    y: np.ndarray = scores.argmax(axis=1)
    model = model_of(loss, classes=3 if loss == "softmax" else 2)
    if loss == "logistic":
        y = (y > 0).astype(np.float64)
    found = learned(model, x, y, laps=60)
    rule = LinearLaps(model, 1.0)
    state = LapState(1, found, found)
    gradient = rule.contribution(state, on_grid(x), y) * rule.sum_of(1).grid
    first = rule.contribution(LapState(1, 0.0 * found, found), on_grid(x), y) * rule.sum_of(1).grid
    assert np.linalg.norm(gradient) < 0.01 * np.linalg.norm(first)


def test_a_coordinate_with_less_noise_counts_more_often_for_the_grid() -> None:
    """Off the diagonal x x' has half the variance, so that a step of the grid costs twice as much there."""
    laps = LinearLaps(model_of("softmax", classes=4), 0.3)
    assert laps.sum_of(0).moved == 3 + 3 * 2 + 12
    assert laps.sum_of(1).moved == 12
    scales = laps.sum_of(0).scales
    assert scales.tolist() == pytest.approx([1.0, 0.5**0.5, 0.5**0.5, 1.0, 0.5**0.5, 1.0, *[1.0] * 12])


def test_curvature_that_noise_made_negative_turns_no_step_around() -> None:
    laps = LinearLaps(model_of("logistic", 2), 0.3)
    after = laps.step(laps.start(), np.array([-5.0, 0.0, -5.0, -1.0, 2.0]), std=1.0, rows=10)
    assert after.model[0] > 0.0 > after.model[1]


def test_a_ridge_pulls_until_it_balances_the_gradient() -> None:
    rng = np.random.default_rng(7)
    x = np.array([random_row(rng, 3) for _ in range(300)])
    y = (x[:, 0] > 0.2 * rng.normal(size=300)).astype(np.float64)
    model = model_of("logistic", ridge=0.05)
    found = learned(model, x, y, laps=60)
    rule = LinearLaps(model, 1.0)
    gradient = rule.contribution(LapState(1, found, found), on_grid(x), y) * rule.sum_of(1).grid
    assert gradient + 300 * 0.05 * found == pytest.approx(np.zeros(3), abs=0.05)
    assert np.linalg.norm(gradient) > 1.0


def test_half_of_the_rows_take_the_same_step_and_more_noise_a_shorter_one() -> None:
    laps = LinearLaps(model_of("logistic", 2), 0.3)
    total = np.array([5.0, 0.0, 5.0, -1.0, 2.0])
    quiet, loud = (laps.step(laps.start(), total, std=std, rows=10) for std in (1e-9, 5.0))
    assert np.linalg.norm(loud.model) < 0.5 * np.linalg.norm(quiet.model)
    whole, half = (laps.step(quiet, part * np.array([1.0, 3.0]), std=1e-9, rows=int(10 * part)) for part in (1.0, 0.5))
    assert half.average == pytest.approx(0.5 * (half.model + quiet.model))
    assert half.model == pytest.approx(whole.model, abs=1e-6)


def test_what_laps_are_not_made_for_is_refused() -> None:
    with pytest.raises(InvalidInput, match="one lap is all"):
        LinearLaps(model_of("squared"), 1.0, 5)
    with pytest.raises(InvalidInput, match="label_bound"):
        LinearLaps(model_of("squared", clip=1.0, label_bound=math.inf), 1.0)
    with pytest.raises(InvalidInput, match="laps"):
        LinearLaps(model_of("logistic"), 1.0, 0)
