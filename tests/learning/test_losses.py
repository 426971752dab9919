"""A loss of your own: refused if it is not what it says, and otherwise as good as logistic loss, everywhere."""

from __future__ import annotations

import dataclasses
import math
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from plain_loops import reference_federated, reference_run
from setups import changed, setup_of

from skipring.data import NodeData
from skipring.delays import Exponential
from skipring.errors import InvalidInput
from skipring.learning import (
    BUILT_IN,
    LOGISTIC,
    LOSSES,
    SOFTMAX,
    SQUARED,
    LinearLearner,
    LinearModel,
    MarginLoss,
    Protection,
    Rows,
    StepSizes,
    loss_named,
    reference,
    register_loss,
)
from skipring.learning._compiled import loss_table
from skipring.schedules import Federated, RandomRing
from skipring.simulation.engine import run_one
from skipring.simulation.rivals.runs import who_is_ready
from skipring.simulation.setup import Setup

Floats = NDArray[np.floating[Any]]


def hinge_value(m: Floats) -> Floats:
    return np.where(m < 0.0, 0.5 - m, 0.5 * np.maximum(1.0 - m, 0.0) ** 2)


def hinge_slope(m: Floats) -> Floats:
    return np.clip(m - 1.0, -1.0, 0.0)


def root_value(m: Floats) -> Floats:
    return 0.5 * (np.sqrt(1.0 + m * m) - m)


def root_slope(m: Floats) -> Floats:
    return 0.5 * (m / np.sqrt(1.0 + m * m) - 1.0)


HINGE = MarginLoss(name="own-hinge", value=hinge_value, slope=hinge_slope, bound=1.0, smoothness=1.0)
#: Its slope comes to rest slowly, so its table is long.
ROOT = MarginLoss(name="own-root", value=root_value, slope=root_slope, bound=1.0, smoothness=0.5, flat=1000.0)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Each test here knows the usual losses only, and so do others after it."""
    before = dict(LOSSES)
    for name in before.keys() - BUILT_IN:
        del LOSSES[name]
    yield
    LOSSES.clear()
    LOSSES.update(before)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"slope": lambda m: -hinge_slope(-m)}, "value is off"),
        ({"slope": np.sin, "value": lambda m: -np.cos(m)}, "not convex"),
        ({"bound": 0.9}, "reaches 1, above the bound 0.9"),
        ({"smoothness": 0.5}, "rises by 1 per margin, above 0.5"),
        ({"slope": lambda m: np.where(m < 0.0, -1.0, 0.0)}, "per margin, above 1"),
        ({"slope": lambda m: 0.5 * hinge_slope(m)}, "value is off"),
        ({"slope": lambda m: -1.0}, "finite number for each margin"),
        ({"slope": lambda m: np.where(m > 3.0, np.nan, hinge_slope(m))}, "finite number for each margin"),
        ({"slope": root_slope, "value": root_value}, "still changes beyond margins of 40; give a larger flat"),
        ({"bound": 0.0}, "bound"),
        ({"smoothness": math.inf}, "smoothness"),
        ({"flat": -1.0}, "flat"),
        ({"name": "softmax"}, "is the name of another loss"),
        ({"name": "logistic"}, "is the name of another loss"),
        ({"name": "no name"}, "letters, digits"),
    ],
)
def test_a_loss_that_is_not_what_it_says_is_refused(changes: dict[str, Any], reason: str) -> None:
    loss = dataclasses.replace(HINGE, **changes)
    known = dict(LOSSES)
    for use in (register_loss, lambda loss: LinearModel(loss=loss, features=2, diameter=1.0)):
        with pytest.raises(InvalidInput, match=reason):
            use(loss)
    assert known == LOSSES


def test_the_losses_that_are_there_are_what_they_say() -> None:
    for loss in LOSSES.values():
        if isinstance(loss, MarginLoss):
            loss.check()


def test_a_name_stands_for_one_loss() -> None:
    with pytest.raises(InvalidInput, match="one of logistic, softmax, squared"):
        loss_named("own-hinge")
    assert register_loss(HINGE) is HINGE
    assert register_loss(HINGE) is HINGE
    with pytest.raises(InvalidInput, match="is the name of another loss"):
        register_loss(dataclasses.replace(HINGE, bound=2.0))
    by_name = LinearModel(loss=loss_named("own-hinge"), features=2, diameter=1.0)
    assert by_name == LinearModel(loss=HINGE, features=2, diameter=1.0)
    assert by_name.name == "own-hinge"
    assert by_name.loss is HINGE
    assert dataclasses.replace(by_name, ridge=0.5).smoothness == 1.5
    with pytest.raises(InvalidInput, match="own-hinge is for two"):
        dataclasses.replace(by_name, classes=3)


def test_a_model_takes_its_loss_along_to_other_processes() -> None:
    model = pickle.loads(pickle.dumps(LinearModel(loss=ROOT, features=2, diameter=1.0)))
    assert model.loss == ROOT
    assert "own-root" not in LOSSES
    assert dataclasses.replace(model, ridge=0.1).loss == ROOT
    for loss in (SOFTMAX, SQUARED):  # which come as copies there
        model = pickle.loads(pickle.dumps(LinearModel(loss=loss, features=2, diameter=1.0)))
        assert dataclasses.replace(model, ridge=0.1).loss == loss


@pytest.mark.parametrize("loss", [LOGISTIC, HINGE, ROOT], ids=lambda loss: loss.name)
@pytest.mark.parametrize("radius", [0.05, 3.0, math.inf])
def test_between_the_points_of_its_table_a_loss_is_as_convex_and_as_smooth(loss: MarginLoss, radius: float) -> None:
    slopes, values, span = loss_table(loss, radius)
    assert span == min(radius, loss.flat)
    steps, cell = np.diff(slopes[:-1]), 2.0 * span / (len(slopes) - 2)
    assert steps.min() >= -1e-15
    assert steps.max() <= loss.smoothness * cell * (1.0 + 1e-6) + 1e-15
    assert np.abs(slopes).max() <= loss.bound
    between = np.linspace(-span, span, 5000)
    points = np.linspace(-span, span, len(slopes) - 1)
    assert np.interp(between, points, slopes[:-1]) == pytest.approx(loss.slope(between), abs=1e-4)
    assert np.interp(between, points, values[:-1]) == pytest.approx(loss.value(between), abs=1e-4, rel=1e-6)


@pytest.mark.parametrize("loss", [HINGE, ROOT], ids=lambda loss: loss.name)
@pytest.mark.parametrize("clip", [None, 0.3])
def test_bounds_hold_and_updates_are_contractions(loss: MarginLoss, clip: float | None) -> None:
    model = LinearModel(loss=loss, features=4, diameter=6.0, clip=clip, ridge=0.2)
    rng, eta, largest = np.random.default_rng(3), 2.0 / model.smoothness, 0.0
    assert model.contracts(eta)
    assert not model.contracts(1.01 * eta)
    for _ in range(500):
        x = rng.standard_normal((2, 4))
        x /= np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(1.0, 1.5, (2, 1))
        y = rng.integers(2, size=2)
        a, b = (model.radius * rng.random() * v / np.linalg.norm(v) for v in rng.standard_normal((2, 4)))
        gradients = [reference.gradient(model, w, x, y, len(y)) for w in (a, b)]
        largest = max(largest, *(float(np.linalg.norm(g)) for g in gradients))
        after = [reference.stepped(model, w, g, eta) for w, g in zip((a, b), gradients, strict=True)]
        assert np.linalg.norm(after[0] - after[1]) <= np.linalg.norm(a - b) * (1.0 + 1e-9)
    assert 0.3 * model.gradient_bound <= largest <= model.gradient_bound * (1.0 + 1e-12)


def a_setup(loss: MarginLoss, **changes: Any) -> Setup:
    """12 nodes of 5 rows, 6 features, nothing left to chance but the path."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((100, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = (x @ rng.standard_normal(6) > 0.0).astype(np.int64)
    values: dict[str, Any] = {
        "model": LinearModel(loss=loss, features=6, diameter=8.0),
        "data": NodeData(features=x[:60], labels=y[:60], start=np.arange(0, 61, 5)),
        "test_x": x[60:],
        "test_y": y[60:].astype(np.float64),
        "schedule": RandomRing(12),
        "steps": 240,
        "delay": Exponential(1.0),
        "timeout": math.inf,
        "hop_latency": 0.01,
        "step_sizes": StepSizes(0.5),
        "protects": "node",
        "noise_multiplier": 0.0,
        "evaluate_every": 25,
    }
    return setup_of(**(values | changes))


@pytest.mark.parametrize("loss", [HINGE, ROOT], ids=lambda loss: loss.name)
@pytest.mark.parametrize("changes", [{}, {"clip": 0.2}, {"ridge": 0.3, "diameter": 0.5}, {"diameter": math.inf}])
def test_simulated_runs_are_the_plain_ones(loss: MarginLoss, changes: dict[str, Any]) -> None:
    case = a_setup(loss)
    case = changed(case, model=dataclasses.replace(case.model, **changes))
    fast = run_one(case, 0)
    plain = reference_run(case, 0, fast.offered)
    assert fast.model == pytest.approx(plain.model, abs=1e-4)
    assert fast.loss == pytest.approx(plain.losses, abs=1e-4)
    assert fast.test_error == pytest.approx(plain.errors, abs=1e-6)
    assert np.linalg.norm(plain.model) > 0.1


def test_rivals_and_nodes_know_it_too() -> None:
    case = a_setup(HINGE, schedule=Federated(nodes=12), steps=30)
    _, model = reference_federated(case, 1, who_is_ready(case, 1))
    assert run_one(case, 1).model == pytest.approx(model, abs=1e-4)
    assert isinstance(case.model, LinearModel)
    rows = Rows(case.data.features, case.data.labels, case.test_x, case.test_y, 2)
    learner = LinearLearner(case.model, rows, protection=Protection(unit="node"), rng=np.random.default_rng(0))
    w = np.full(6, 0.1)
    gradient = reference.gradient(case.model, w, case.data.features, case.data.labels, len(case.data.labels))
    assert learner.name == "own-hinge"
    # Without noise nobody asks for a source of it.
    updated = learner.update(w, turn=0, step_size=0.5, noise_multiplier=0.0, noise=None)  # type: ignore[arg-type]
    assert updated == pytest.approx(w - 0.5 * gradient)
