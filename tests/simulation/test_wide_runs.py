"""Linear models with many features: matrix products do what compiled loops and the plain update do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from setups import setup_of

from skipring.data import NodeData
from skipring.delays import Exponential
from skipring.learning import SOFTMAX, LinearModel, StepSizes, loss_named, reference
from skipring.schedules import RandomRing
from skipring.simulation.compiled_runs import CompiledRuns
from skipring.simulation.engine import run_one
from skipring.simulation.setup import Setup
from skipring.simulation.wide_runs import WideRuns, is_wide


def a_setup(loss: str = "softmax", **changes: Any) -> Setup:
    """Six nodes of different sizes, and rows of some features."""
    rng = np.random.default_rng(11)
    x = rng.standard_normal((90, 20))
    x *= rng.uniform(0.2, 1.0, (90, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    classes = 5 if loss == "softmax" else 2
    y = rng.uniform(-1.0, 1.0, 90) if loss == "squared" else rng.integers(classes, size=90)
    values: dict[str, Any] = {
        "model": LinearModel(loss=loss_named(loss), features=20, diameter=6.0, classes=classes, clip=0.2, ridge=0.01),
        "data": NodeData(x[:60], y[:60], np.array([0, 3, 20, 26, 40, 51, 60])),
        "test_x": x[60:],
        "test_y": y[60:].astype(np.float64),
        "schedule": RandomRing(6),
        "steps": 60,
        "delay": Exponential(1.0),
        "timeout": 1.0,
        "hop_latency": 0.01,
        "step_sizes": StepSizes(2.0, "constant"),
        "noise_multiplier": 0.0,
        "protects": "record",
        "batch": 7,
        "evaluate_every": 13,
    }
    return setup_of(**(values | changes))


@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
@pytest.mark.parametrize(("protects", "batch"), [("record", 7), ("record", 40), ("node", None)])
def test_matrix_products_follow_the_compiled_run(loss: str, protects: str, batch: int | None) -> None:
    case = a_setup(loss, protects=protects, batch=batch)
    fast, wide = run_one(case, 3, CompiledRuns(case)), run_one(case, 3, WideRuns(case))
    assert wide.model == pytest.approx(fast.model, abs=2e-6)
    assert wide.loss == pytest.approx(fast.loss, abs=1e-5)
    assert wide.test_error == pytest.approx(fast.test_error, abs=1e-5)
    assert wide.updates.tolist() == fast.updates.tolist()
    assert 0 < wide.updates[-1] < case.steps


def test_its_noise_and_its_batches_have_the_same_law() -> None:
    """Mean and deviation of the model over runs; false alarm below 1e-3."""
    case = a_setup(protects="node", batch=3, noise_multiplier=0.5, steps=12)
    kernel, wide = CompiledRuns(case), WideRuns(case)
    a, b = (np.array([run_one(case, n, shared).model for n in range(400)]) for shared in (kernel, wide))
    spread = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
    assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) <= 5.0 * spread).all()
    assert np.mean(a.std(axis=0)) == pytest.approx(np.mean(b.std(axis=0)), rel=0.05)


@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
def test_the_device_takes_the_plain_steps(loss: str) -> None:
    torch = pytest.importorskip("torch")
    from skipring.learning import LinearToken

    case = a_setup(loss)
    model = case.model
    assert isinstance(model, LinearModel)
    x, y = case.data.features, case.data.labels
    token = LinearToken(model, (x, y), (case.test_x, case.test_y), device=torch.device("cpu"))
    w: Any = np.zeros(model.parameters)
    rng = np.random.default_rng(2)
    for _ in range(30):
        rows = rng.choice(60, 11, replace=False)
        token.update(rows, 13, 1.5)
        w = reference.stepped(model, w, reference.gradient(model, w, x[rows], y[rows], 13), 1.5)
    assert token.parameters() == pytest.approx(w, abs=2e-6)
    error, value = token.metrics()
    assert error == pytest.approx(reference.test_error(model, w, case.test_x, case.test_y), abs=1e-5)
    assert value == pytest.approx(reference.mean_loss(model, w, case.test_x, case.test_y), abs=1e-5)
    token.begin(1, 0.01)
    assert not token.parameters().any()
    token.update(slice(0, 0), 10, 1.0)
    assert np.std(token.parameters()) == pytest.approx(0.01, rel=0.6)


def test_only_wide_models_are_computed_so() -> None:
    assert not is_wide(a_setup())
    rng = np.random.default_rng(1)
    x = rng.standard_normal((200, 4000)) / 100.0
    data = NodeData(x, rng.integers(5, size=200), np.arange(0, 201, 100))
    model = LinearModel(loss=SOFTMAX, features=4000, diameter=6.0, classes=5)
    wide = a_setup(model=model, data=data, test_x=x[:5], test_y=np.zeros(5), schedule=RandomRing(2), batch=100)
    assert is_wide(wide)
    assert run_one(wide, 0).updates[-1] > 0
