"""The plain update against its definition: gradients row by row, clipped one by one, and derivatives of the loss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from skipring.learning import SOFTMAX, SQUARED, LinearModel, loss_named, reference

Floats = NDArray[np.floating[Any]]


def one_gradient(model: LinearModel, w: Floats, x: Floats, y: float) -> Floats:
    """The gradient of one row's loss, by the textbook, then clipped: as a whole vector, softmax by its slope."""
    if model.loss == SOFTMAX:
        scores = [float(part @ x) for part in w.reshape(model.classes, -1)]
        total = sum(math.exp(score - max(scores)) for score in scores)
        shares = [math.exp(score - max(scores)) / total for score in scores]
        gradient = np.concatenate([(share - (k == int(y))) * x for k, share in enumerate(shares)])
        most = math.sqrt(2.0) * float(np.linalg.norm(x)) * sum(share for k, share in enumerate(shares) if k != int(y))
        return gradient * min(1.0, model.gradient_bound / max(most, 1e-300))
    elif model.loss == SQUARED:
        gradient = (float(w @ x) - y) * x
    else:
        sign = 2.0 * y - 1.0
        gradient = -sign * x / (1.0 + math.exp(sign * float(w @ x)))
    length = float(np.linalg.norm(gradient))
    return gradient * min(1.0, model.gradient_bound / max(length, 1e-300))


def a_case(loss: str, seed: int, far: float, **more: Any) -> tuple[LinearModel, Floats, Floats, NDArray[Any]]:
    """A model with its parameters `far` radii from 0, and up to 6 rows of norm at most 1; one of them may be 0."""
    rng = np.random.default_rng(seed)
    features, classes = int(rng.integers(1, 7)), int(rng.integers(2, 5)) if loss == "softmax" else 2
    model = LinearModel(
        loss=loss_named(loss), features=features, diameter=6.0, classes=classes, label_bound=2.0, **more
    )
    rows = int(rng.integers(1, 7))
    x = rng.standard_normal((rows, features))
    x *= rng.random((rows, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    x[0] *= rng.random() < 0.9
    y = rng.uniform(-2.0, 2.0, rows) if loss == "squared" else rng.integers(classes, size=rows)
    w = rng.standard_normal(model.parameters)
    return model, w * far * model.radius / np.linalg.norm(w), x, y


LOSS = st.sampled_from(["logistic", "softmax", "squared"])
SEED = st.integers(0, 2**32 - 1)


@settings(max_examples=200, deadline=None)
@given(LOSS, SEED, st.sampled_from([None, 0.01, 0.2, 50.0]), st.sampled_from([0.0, 0.5, 1.0, 4.0, 100.0]))
def test_the_gradient_is_the_mean_of_clipped_gradients(loss: str, seed: int, clip: float | None, far: float) -> None:
    """Outside the ball as well, where the natural bound is what clips."""
    model, w, x, y = a_case(loss, seed, far, clip=clip)
    expected = np.mean([one_gradient(model, w, row, float(label)) for row, label in zip(x, y, strict=True)], axis=0)
    found = reference.gradient(model, w, x, y, len(y))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert np.linalg.norm(found) <= model.gradient_bound * (1.0 + 1e-12)


@settings(max_examples=50, deadline=None)
@given(LOSS, SEED)
def test_the_gradient_is_the_losss_derivative(loss: str, seed: int) -> None:
    """Central differences of the mean loss, to 1e-6."""
    model, w, x, y = a_case(loss, seed, 0.9)
    for j, slope in enumerate(reference.gradient(model, w, x, y, len(y))):
        aside = 1e-5 * np.eye(len(w))[j]
        ends = [reference.mean_loss(model, point, x, y) for point in (w + aside, w - aside)]
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(LOSS, SEED, st.sampled_from([0.0, 0.3]), st.floats(0.0, 5.0))
def test_a_step_is_projected_onto_the_ball(loss: str, seed: int, ridge: float, step_size: float) -> None:
    model, w, x, y = a_case(loss, seed, 0.9, ridge=ridge)
    gradient = reference.gradient(model, w, x, y, len(y))
    free = w - step_size * (gradient + ridge * w)
    found = reference.stepped(model, w, gradient, step_size)
    assert found == pytest.approx(free * min(1.0, 3.0 / max(float(np.linalg.norm(free)), 1e-300)), abs=1e-12)


def test_ties_count_as_the_first_class() -> None:
    for loss in ("logistic", "softmax"):
        model = LinearModel(loss=loss_named(loss), features=1, diameter=1.0)
        assert reference.test_error(model, np.zeros(model.parameters), np.ones((4, 1)), np.array([0, 0, 0, 1])) == 0.25
    assert math.isnan(reference.test_error(model, np.zeros(2), np.ones((0, 1)), np.zeros(0)))
