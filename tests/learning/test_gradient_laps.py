"""Laps whose steps an optimiser makes: its twins, its average, and how far one row moves a sum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from skipring.errors import InvalidInput
from skipring.learning import LapState, LinearModel, NeuralModel, laps_of_model, on_grid, usual_laps
from skipring.learning.gradient_laps import MOST_NUMBERS, GradientLaps
from skipring.learning.margin_loss import loss_named
from skipring.learning.optimisers import optimiser_named


def model_of(loss: str, features: int = 3, **more: Any) -> LinearModel:
    return LinearModel(loss=loss_named(loss), features=features, **({"diameter": 10.0} | more))


def unit_rows(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    drawn = rng.normal(size=(rows, columns))
    return drawn / np.linalg.norm(drawn, axis=1)[:, None] * (1.0 - 1e-12)


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("momentum", lambda given: torch.optim.SGD(given, lr=0.3, momentum=0.9)),
        ("adam", lambda given: torch.optim.Adam(given, lr=0.3)),
        ("torch.optim:RMSprop", lambda given: torch.optim.RMSprop(given, lr=0.3)),
    ],
)
def test_an_optimiser_does_what_pytorch_does(name: str, twin: Any) -> None:
    rng = np.random.default_rng(1)
    model = rng.normal(size=5)
    theirs = torch.from_numpy(model.copy()).requires_grad_()
    other, mine = twin([theirs]), optimiser_named(name, 0.3)
    for _ in range(30):
        gradient = rng.normal(size=5) + model
        theirs.grad = torch.from_numpy(gradient)
        other.step()
        model = mine.stepped(model, gradient)
    assert model == pytest.approx(theirs.detach().numpy(), rel=1e-9)


def test_an_optimiser_of_pytorch_has_its_own_rate_unless_it_is_told() -> None:
    rule = laps_of_model(model_of("logistic"), 1.0, 4, optimiser="torch.optim:SGD")
    assert isinstance(rule, GradientLaps)
    state = rule.step(rule.start(), np.array([-10.0, 0.0, 20.0]), std=0.0, rows=10)
    usual = torch.optim.SGD([torch.zeros(1)]).defaults["lr"]
    assert state.model == pytest.approx([usual, 0.0, -2.0 * usual])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("torch.optim:LBFGS", "from gradients alone"),
        ("torch.optim:SparseAdam", "from gradients alone"),
        ("torch.optim:Nothing", "no class of torch.optim"),
        ("torch.optim:Optimizer", "from gradients alone"),
        ("torch.optim:lr_scheduler", "no class of torch.optim"),
    ],
)
def test_what_needs_more_than_gradients_is_refused(name: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason) as refused:
        optimiser_named(name, None)
    assert refused.value.parameter == "laps.optimiser"


@pytest.mark.parametrize("laps", [1, 2, 7, 10])
def test_the_model_is_the_average_of_the_second_half(laps: int) -> None:
    rng = np.random.default_rng(2)
    rule = GradientLaps(model_of("logistic"), 1.0, laps)
    state, models = rule.start(), []
    for _ in range(laps):
        state = rule.step(state, rng.normal(size=3) * 10.0, std=1.0, rows=10)
        models.append(state.model)
        if len(models) <= laps // 2:
            assert np.array_equal(state.average, state.model)
    assert state.average == pytest.approx(np.mean(models[laps // 2 :], axis=0))


def test_a_step_has_the_ridge_and_stays_in_the_ball() -> None:
    rule = GradientLaps(model_of("logistic", ridge=0.5, diameter=2.0), 1.0, 3, rate=0.1)
    state = rule.step(
        LapState(0, np.array([0.4, 0.0, 0.0]), np.zeros(3), rule.start().memory), np.zeros(3), std=1, rows=9
    )
    assert state.model == pytest.approx([0.4 * (1.0 - 0.05), 0.0, 0.0])
    state = rule.step(state, np.array([0.0, -900.0, 0.0]), std=1.0, rows=9)
    assert np.linalg.norm(state.model) == pytest.approx(1.0)


@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
@pytest.mark.parametrize("mu", [0.01, 0.5, 9.0])
def test_no_row_moves_a_sum_further_than_is_said(loss: str, mu: float) -> None:
    rng = np.random.default_rng(1)
    model = model_of(loss, classes=3 if loss == "softmax" else 2, label_bound=2.0)
    rule = GradientLaps(model, mu, 20)
    said, largest = rule.sum_of(0).sensitivity, 0.0
    assert 0.05 * model.natural_bound <= rule.bound <= model.natural_bound
    for _ in range(1000):
        state = LapState(1, rng.normal(size=model.parameters) * 9.0, np.zeros(0))
        one = unit_rows(rng, 1, 3)
        other = unit_rows(rng, 1, 3) if rng.random() < 0.3 else rng.choice([-1.0, 1.0]) * one
        labels = rng.normal(size=(2, 1)) * 2.0 if loss == "squared" else rng.integers(model.classes, size=(2, 1))
        sums = [rule.contribution(state, on_grid(x), y) for x, y in zip((one, other), labels, strict=True)]
        largest = max(largest, float(np.linalg.norm((sums[0] - sums[1]) * rule.sum_of(0).grid)))
    assert 0.7 * said <= largest <= said


@pytest.mark.parametrize("size", [1e-3, 1.0, 40.0])
def test_how_many_rows_there_are_decides_nothing_about_others(size: float) -> None:
    """Labels put every slope on a step of the grid, where the last bit of a score decides."""
    rng = np.random.default_rng(1)
    model = model_of("squared", 31, label_bound=100.0)
    rule, cut = GradientLaps(model, 9.0, 20), on_grid(unit_rows(rng, 203, 31))
    state = LapState(1, rng.normal(size=31) * size, np.zeros(0))
    for among in (203, 202, 100, 1):
        scores = np.concatenate([cut[low : low + among] @ state.model / 2.0**20 for low in range(0, 203, among)])
        for labels in (scores - 0.25 * rule.bound, scores + 0.125 * rule.bound):
            whole = rule.contribution(state, cut, labels)
            alone = [rule.contribution(state, cut[[row]], labels[[row]]) for row in range(203)]
            assert np.array_equal(whole, np.sum(alone, axis=0))
            fewer = rule.contribution(state, cut[1:], labels[1:])
            assert np.array_equal(whole, alone[0] + fewer)


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_without_noise_laps_end_where_the_gradient_is_zero(loss: str) -> None:
    rng = np.random.default_rng(3)
    x = unit_rows(rng, 300, 3)
    y = (x @ rng.normal(size=(3, 3)) * 3.0 + rng.gumbel(size=(300, 3))).argmax(axis=1)
    y = y if loss == "softmax" else (y > 0).astype(np.int64)
    model = model_of(loss, classes=3 if loss == "softmax" else 2, diameter=math.inf)
    rule = GradientLaps(model, math.inf, 400)
    state, cut, grid = rule.start(), on_grid(x), rule.sum_of(0).grid
    first = np.linalg.norm(rule.contribution(state, cut, y) * grid)
    for _ in range(rule.laps):
        state = rule.step(state, rule.contribution(state, cut, y) * grid, std=0.0, rows=300)
    at_the_end = LapState(0, state.average, state.average)
    assert np.linalg.norm(rule.contribution(at_the_end, cut, y) * grid) < 1e-3 * first


def test_few_parameters_learn_in_five_laps_and_others_by_gradients() -> None:
    few, many = (model_of("logistic", columns) for columns in (MOST_NUMBERS, MOST_NUMBERS + 1))
    network = NeuralModel(features=784, clip=0.1)
    assert [usual_laps(model, "auto") for model in (few, many, network, None)] == [5, 100, 100, 100]
    assert usual_laps(model_of("squared"), "auto") == 1
    assert usual_laps(few, "adam") == 100
    assert usual_laps(model_of("softmax", 11, classes=9), "auto") == 5  # 99 parameters
    assert usual_laps(model_of("softmax", 11, classes=10), "auto") == 100
    assert usual_laps(many, "five-laps") == 5
    for model, optimiser, laps in ((few, "momentum", 7), (many, "auto", 7), (network, "auto", 7)):
        rule = laps_of_model(model, 0.5, laps, optimiser=optimiser)
        assert isinstance(rule, GradientLaps)
        assert rule.weights == pytest.approx([1.0 / 7.0] * 7)
    with pytest.raises(InvalidInput, match="for linear models, not for networks"):
        usual_laps(network, "five-laps")
    with pytest.raises(InvalidInput, match="find their own steps"):
        laps_of_model(few, 0.5, 5, optimiser="auto", rate=1.0)


@pytest.mark.parametrize("numbers", [26_010, 7_655_754])
def test_the_grid_of_a_network_costs_next_to_nothing_and_its_rounding_is_counted(numbers: int) -> None:
    rule = GradientLaps(NeuralModel(features=784 if numbers == 26_010 else 3072, clip=0.1, name="small-cnn"), 0.5, 9)
    rule = rule if numbers == 26_010 else GradientLaps(NeuralModel(features=3072, clip=0.1), 0.5, 9)
    kind = rule.sum_of(0)
    assert len(kind.scales) == kind.moved == numbers
    step = kind.grid * math.sqrt(numbers)
    assert 0.25e-6 * 0.1 < step <= 1e-6 * 0.1
    assert math.log2(kind.grid) == round(math.log2(kind.grid))
    assert 0.2 + step <= kind.sensitivity <= (0.2 + step) * (1.0 + 1e-8)


def test_models_that_sums_cannot_hold_are_refused() -> None:
    with pytest.raises(InvalidInput, match="too many for sums of 64 bits"):
        GradientLaps(model_of("logistic", 10**9), 0.5, 9)
    with pytest.raises(InvalidInput, match="no other bound"):
        GradientLaps(NeuralModel(features=784), 0.5, 9)
    with pytest.raises(InvalidInput, match="mu"):
        GradientLaps(model_of("logistic"), 0.0, 9)
