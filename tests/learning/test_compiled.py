"""Compiled updates are the plain ones, number by number: gradients, noise, steps and test errors, whatever the size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numpy.typing import NDArray

from skipring.learning import LOGISTIC, SOFTMAX, SQUARED, LinearModel, Loss, MarginLoss, reference
from skipring.learning import _compiled as compiled
from skipring.learning import _evaluated as evaluated

Floats = NDArray[np.floating[Any]]


def smooth_hinge(name: str = "test-hinge", width: float = 1.0) -> MarginLoss:
    """0 above a margin of 1, a straight line below 1 - width, and a parabola between."""
    return MarginLoss(
        name=name,
        value=lambda m: np.where(
            m < 1.0 - width, 1.0 - m - 0.5 * width, 0.5 * np.maximum(1.0 - np.maximum(m, 1.0 - width), 0.0) ** 2 / width
        ),
        slope=lambda m: np.clip((m - 1.0) / width, -1.0, 0.0),
        bound=1.0,
        smoothness=1.0 / width,
    )


HINGE = smooth_hinge()


@njit
def _draw(rng: np.random.Generator, choices: float, rows: Any, node: int, room: Any) -> int:
    return compiled.draw_batch(rng, choices, rows, node, room)


@njit
def _noise(rng: np.random.Generator, room: Any) -> None:
    compiled.draw_noise(rng, room)


@njit
def _step(w: Any, gradient: Any, share: float, noise: Any, std: float, shrink: float, radius: float) -> None:
    compiled.take_step(w, gradient, share, noise, std, shrink, radius)


@njit
def _judged(model: Any, w: Any, rows: Any, take: int, test: Any, room: Any) -> Any:
    evaluated.gradients(model, w, rows, take, room)
    return evaluated.evaluate(model, w, test, room)


def a_case(loss: Loss, seed: int, clip: float | None, diameter: float) -> Any:
    """A model within its ball, a node of up to 9 rows beside others, and some test rows."""
    rng = np.random.default_rng(seed)
    features, tests = int(rng.integers(1, 14)), int(rng.integers(1, 90))
    classes = int(rng.integers(2, 5)) if loss == SOFTMAX else 2
    model = LinearModel(loss=loss, features=features, diameter=diameter, classes=classes, clip=clip)
    start = np.append(0, np.cumsum(rng.integers(1, 10, 4)))
    x = rng.standard_normal((int(start[-1]) + tests, features))
    x *= rng.random((len(x), 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    y = rng.uniform(-1.0, 1.0, len(x)) if loss == SQUARED else rng.integers(classes, size=len(x))
    w = rng.standard_normal(model.parameters)
    w *= min(model.radius, 30.0) * rng.random() / np.linalg.norm(w)
    split = int(start[-1])
    return model, w, start, (x[:split], y[:split]), (x[split:], y[split:])


@pytest.mark.early  # what it compiles is kept nowhere: it would be found again after a change
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([LOGISTIC, SOFTMAX, SQUARED, HINGE]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, 0.05, 0.4]),
    st.sampled_from([0.5, 6.0, 200.0]),
)
def test_gradients_and_metrics_are_the_plain_ones(loss: Loss, seed: int, clip: float | None, diameter: float) -> None:
    """To 2e-8 of the table for logistic loss, and to 1e-4 for one whose slope bends; metrics in single precision."""
    model, w, start, (x, y), (test_x, test_y) = a_case(loss, seed, clip, diameter)
    rows = compiled.examples_of(model, x, y, start, batch=9)
    test = compiled.tests_of(model, test_x, test_y)
    room = compiled.scratch_for(model, rows, test)
    fast = compiled.compiled_model(model, rows.x)
    node = seed % 4
    mine = slice(int(start[node]), int(start[node + 1]))
    take = _draw(np.random.default_rng(0), fast.choices, rows, node, room)
    assert room.picked[:take].tolist() == list(range(mine.start, mine.stop))
    error, value = _judged(fast, w, rows, take, test, room)
    plain = reference.gradient(model, w, x[mine], y[mine], len(y[mine]))
    assert room.gradient / take == pytest.approx(plain, abs=1e-4 if loss is HINGE else 5e-8)
    assert np.linalg.norm(room.gradient / take) <= model.gradient_bound * (1.0 + 1e-9)
    assert value == pytest.approx(reference.mean_loss(model, w, test_x, test_y), rel=1e-4, abs=2e-5)
    # A margin within rounding of 0 may fall on either side.
    wrong = reference.test_error(model, w, test_x, test_y)
    assert error == pytest.approx(wrong, rel=1e-4, abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 19), st.sampled_from([0.0, 0.7]), st.floats(0.1, 3.0))
def test_a_noisy_step_is_the_plain_one(seed: int, parameters: int, ridge: float, step_size: float) -> None:
    """The same random numbers in the same order, and what is left over by groups of four is stepped as well."""
    rng = np.random.default_rng(seed)
    model = LinearModel(loss=LOGISTIC, features=parameters, diameter=4.0, ridge=ridge)
    w, gradient = rng.uniform(-1.0, 1.0, parameters), rng.standard_normal(parameters)
    rows = compiled.examples_of(model, np.zeros((1, parameters)), np.zeros(1), np.array([0, 1]), 1)
    room = compiled.scratch_for(model, rows, compiled.tests_of(model, rows.x, np.zeros(1)))
    _noise(np.random.default_rng(seed), room)
    noise = np.random.default_rng(seed).standard_normal(parameters)
    assert room.noise.tolist() == noise.tolist()
    found = w.copy()
    _step(found, gradient, step_size / 3, room.noise, step_size * 0.5, 1.0 - step_size * ridge, model.radius)
    assert found == pytest.approx(reference.stepped(model, w, gradient / 3 + 0.5 * noise, step_size), abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.sampled_from([0.0, 1e6]))
def test_a_batch_is_the_start_of_a_shuffle(seed: int, many: int, choices: float) -> None:
    """Drawn with whole numbers: a uniform number stands for the digits of a number in a mixed base."""
    take = 1 + seed % (many - 1)
    model = LinearModel(loss=LOGISTIC, features=1, diameter=1.0)
    rows = compiled.examples_of(model, np.zeros((many + 3, 1)), np.zeros(many + 3), np.array([0, 3, many + 3]), take)
    room = compiled.scratch_for(model, rows, compiled.tests_of(model, rows.x, np.zeros(many + 3)))
    assert _draw(np.random.default_rng(seed), choices, rows, 1, room) == take
    rng, left, chosen, expected, u = np.random.default_rng(seed), list(range(3, many + 3)), np.inf, [], 0.0
    for i in range(take):
        chosen *= many - i
        if chosen > choices:
            u, chosen = rng.random(), many - i
        u *= many - i
        at = int(u)
        u -= at
        left[i], left[i + at] = left[i + at], left[i]
        expected.append(left[i])
    assert room.picked.tolist() == expected
    assert len(set(expected)) == take
