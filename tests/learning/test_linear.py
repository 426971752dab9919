"""Linear models: their bounds hold, and their updates are contractions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.learning import LOGISTIC, SOFTMAX, SQUARED, LinearModel, StepSizes, loss_named
from skipring.learning.reference import gradient as gradient_of

MODELS = [
    LinearModel(loss=LOGISTIC, features=5, diameter=6.0),
    LinearModel(loss=LOGISTIC, features=5, diameter=6.0, ridge=0.1),
    LinearModel(loss=LOGISTIC, features=5, diameter=6.0, clip=0.3),
    LinearModel(loss=SOFTMAX, features=5, diameter=6.0, classes=4),
    LinearModel(loss=SOFTMAX, features=5, diameter=6.0, classes=4, clip=0.5),
    LinearModel(loss=SQUARED, features=5, diameter=6.0, label_bound=2.0),
    LinearModel(loss=SQUARED, features=5, diameter=6.0, label_bound=2.0, clip=0.5),
    LinearModel(loss=SQUARED, features=5, diameter=6.0, label_bound=math.inf, clip=20.0),
]


def random_rows(model: LinearModel, rng: np.random.Generator, rows: int) -> tuple[Any, Any]:
    x = rng.standard_normal((rows, model.features))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(1.0, 2.0, (rows, 1))
    if model.loss == SQUARED:
        largest = min(model.label_bound, 10.0 * model.gradient_bound)
        return x, rng.uniform(-largest, largest, rows)
    return x, rng.integers(model.classes, size=rows)


def random_point(model: LinearModel, rng: np.random.Generator) -> Any:
    w = rng.standard_normal(model.parameters)
    return w * model.radius * rng.random() / np.linalg.norm(w)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_nodes_gradient_is_never_larger_than_its_bound(model: LinearModel) -> None:
    rng = np.random.default_rng(1)
    largest = 0.0
    for _ in range(500):
        x, y = random_rows(model, rng, int(rng.integers(1, 4)))
        largest = max(largest, float(np.linalg.norm(gradient_of(model, random_point(model, rng), x, y, len(y)))))
    assert largest <= model.gradient_bound * (1 + 1e-12)
    assert largest >= 0.3 * model.gradient_bound  # and the bound is not idle


@pytest.mark.parametrize("model", [model for model in MODELS if model.contracts(2.0 / model.smoothness)], ids=str)
def test_updates_up_to_two_over_smoothness_are_contractions(model: LinearModel) -> None:
    rng = np.random.default_rng(2)
    eta = 2.0 / model.smoothness
    for _ in range(500):
        x, y = random_rows(model, rng, int(rng.integers(1, 4)))
        a, b = random_point(model, rng), random_point(model, rng)
        after = [w - eta * (gradient_of(model, w, x, y, len(y)) + model.ridge * w) for w in (a, b)]
        assert np.linalg.norm(after[0] - after[1]) <= np.linalg.norm(a - b) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("loss", "bound", "smoothness"), [("logistic", 1.0, 0.25), ("softmax", 2.0**0.5, 0.5), ("squared", 6.0, 1.0)]
)
def test_bounds_follow_from_unit_rows(loss: str, bound: float, smoothness: float) -> None:
    model = LinearModel(loss=loss_named(loss), features=3, diameter=10.0, label_bound=1.0)
    assert model.gradient_bound == pytest.approx(bound)
    assert model.smoothness == smoothness
    assert model.contracts(2.0 / smoothness)
    assert not model.contracts(2.01 / smoothness)
    assert "above 2 / smoothness" in model.why_not(2.01 / smoothness)


def test_clipping_keeps_contraction() -> None:
    model = LinearModel(loss=SOFTMAX, features=3, diameter=10.0, classes=3, clip=1.0)
    assert model.gradient_bound == 1.0
    assert model.contracts(4.0)
    assert not model.contracts(4.01)


@pytest.mark.parametrize("clip", [0.1, 6.0, 1e6])
def test_a_clipped_squared_loss_has_its_bound_whatever_the_labels_are(clip: float) -> None:
    model = LinearModel(loss=SQUARED, features=3, diameter=10.0, label_bound=math.inf, clip=clip)
    assert model.clips
    assert model.gradient_bound == clip
    assert model.contracts(2.0)


def test_step_sizes() -> None:
    assert StepSizes(0.5, "constant").first(3).tolist() == [0.5] * 3
    assert StepSizes(1.0, "own", (0.3, 0.1)).first(2).tolist() == [0.3, 0.1]
    assert StepSizes(1.0, "own", (0.3, 0.1)).largest == 0.3
    with pytest.raises(InvalidInput, match="at least 3"):
        StepSizes(1.0, "own", (0.3, 0.1)).first(3)
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidInput, match="rate"):
            StepSizes(wrong)
    with pytest.raises(InvalidInput, match="step_size"):
        StepSizes(1.0, "own", (0.1, 0.0))


@pytest.mark.parametrize(
    "changes",
    [{"loss": "hinge"}, {"features": 0}, {"diameter": 0.0}, {"ridge": -1.0}, {"classes": 3}, {"clip": 0.0}],
)
def test_bad_models_are_refused(changes: dict[str, Any]) -> None:
    good: dict[str, Any] = {"loss": LOGISTIC, "features": 3, "diameter": 1.0}
    with pytest.raises(InvalidInput):
        LinearModel(**(good | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"label_bound": math.inf}, "label_bound = inf: must be a finite number above 0"),
        ({"label_bound": math.nan}, "label_bound = nan"),
        ({"label_bound": math.nan, "clip": 1.0}, "label_bound = nan"),
        ({"label_bound": 1e300}, "label_bound = 1e+300: must be below 1e+100: squares"),
        ({"label_bound": 1.7e308, "diameter": 1.7e308}, "label_bound = 1.7e+308: must be below"),
        ({"label_bound": math.inf, "clip": 1e200}, "gradient_bound = 1e+200: must be below"),
        ({"loss": LOGISTIC, "label_bound": math.inf, "clip": 1.0}, "label_bound = inf"),
    ],
)
def test_bounds_that_bound_nothing_are_refused(changes: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {"loss": SQUARED, "features": 3, "diameter": 1.0}
    with pytest.raises(InvalidInput) as refusal:
        LinearModel(**(good | changes))
    assert str(refusal.value).startswith(said)


def test_a_step_size_that_is_not_a_number_is_no_contraction() -> None:
    model = LinearModel(loss=LOGISTIC, features=3, diameter=10.0)
    assert not model.contracts(math.nan)
    assert model.why_not(math.nan)
