"""The simulator against the plain way of writing it: one run at a time, one update at a time, in numpy.

`slow_run` is also the oracle of the tests. The workload: 1000 nodes of 16 rows or so and 8 features, 24,000 steps,
batch 8, evaluated 241 times on 4128 rows.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipring.data import NodeData
from skipring.delays import Exponential
from skipring.learning import LinearModel, StepSizes
from skipring.schedules import RandomRing, Schedule
from skipring.simulation.engine import run_many, run_one
from skipring.simulation.setup import Setup

Floats = NDArray[np.floating[Any]]


def slow_run(setup: Setup, number: int) -> tuple[Floats, Floats, float]:
    """Algorithm 1 as one would write it down; returns test errors, the model, and the latency."""
    model, data = setup.model, setup.data
    assert isinstance(model, LinearModel)
    assert isinstance(setup.schedule, Schedule)
    rng = np.random.default_rng([setup.seed, number])
    w = np.zeros((model.classes, model.features)) if model.loss == "softmax" else np.zeros(model.features)
    path = setup.schedule.path(setup.steps, rng)
    sizes = setup.step_sizes.first(setup.steps)
    errors, latency, updates = [], 0.0, 0
    for hop, node in enumerate(path):
        if hop % setup.evaluate_every == 0:
            errors.append(slow_error(model, w, setup.test_x, setup.test_y))
        delay = float(setup.delay.sample(rng, 1)[0])
        latency += setup.hop_latency + min(delay, setup.timeout)
        if delay > setup.timeout:
            continue
        rows = np.arange(data.start[node], data.start[node + 1])
        if setup.batch is not None:
            rows = rng.choice(rows, setup.batch, replace=False)
        gradient = slow_gradient(model, w, data.features[rows], data.labels[rows]) + model.ridge * w
        noise = setup.noise_multiplier * model.gradient_bound * rng.standard_normal(w.shape)
        w = w - sizes[updates] * (gradient + noise)
        norm = np.linalg.norm(w)
        if norm > model.radius:
            w = w * (model.radius / norm)
        updates += 1
    errors.append(slow_error(model, w, setup.test_x, setup.test_y))
    return np.array(errors), w.ravel(), latency


def slow_gradient(model: LinearModel, w: Floats, x: Floats, y: NDArray[Any]) -> Floats:
    """The mean of the examples' gradients, each clipped."""
    if model.loss == "softmax":
        scores = x @ w.T
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        shares[np.arange(len(y)), y.astype(int)] -= 1.0
        each = shares[:, :, None] * x[:, None, :]
    else:
        signs = 2.0 * y - 1.0
        slopes = x @ w - y if model.loss == "squared" else -signs / (1.0 + np.exp(signs * (x @ w)))
        each = slopes[:, None] * x
    if model.clips:
        norms = np.sqrt((each**2).reshape(len(each), -1).sum(axis=1))
        factors = np.minimum(1.0, model.gradient_bound / np.maximum(norms, 1e-300))
        each = each * factors.reshape(-1, *[1] * (each.ndim - 1))
    mean: Floats = each.mean(axis=0)
    return mean


def slow_error(model: LinearModel, w: Floats, x: Floats, y: NDArray[Any]) -> float:
    """The share of wrong test rows, or the mean squared residual."""
    if model.loss == "squared":
        return float(np.mean((x @ w - y) ** 2))
    if model.loss == "softmax":
        return float(np.mean(np.argmax(x @ w.T, axis=1) != y))
    return float(np.mean((x @ w > 0.0) != (y > 0.5)))


def workload(nodes: int = 1000, steps: int = 24_000, rows: int = 16_512) -> Setup:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((rows + 4128, 8))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = (x @ rng.standard_normal(8) + 0.3 * rng.standard_normal(len(x)) > 0.0).astype(np.int64)
    start = np.linspace(0, rows, nodes + 1).astype(np.int64)
    return Setup(
        model=LinearModel(loss="logistic", features=8, diameter=10.0),
        data=NodeData(features=x[:rows], labels=y[:rows], start=start),
        test_x=x[rows:],
        test_y=y[rows:].astype(np.float64),
        schedule=RandomRing(nodes),
        steps=steps,
        delay=Exponential(1.0),
        timeout=9.21034,
        hop_latency=0.01,
        step_sizes=StepSizes(0.3),
        noise_multiplier=10.5976,
        batch=8 if rows >= 8 * nodes else None,
        seed=1,
        evaluate_every=100,
    )


def seconds(setup: Setup, runs: int) -> float:
    begin = time.perf_counter()
    for _ in run_many(setup, list(range(runs))):
        pass
    return time.perf_counter() - begin


def main() -> None:
    setup = workload()
    begin = time.perf_counter()
    run_one(setup, 0)
    print(f"first run, compilation or its cache included: {time.perf_counter() - begin:.2f} s")
    fast = min(seconds(setup, 200) for _ in range(3))
    begin = time.perf_counter()
    for number in range(3):
        slow_run(setup, number)
    slow = (time.perf_counter() - begin) / 3 * 200
    print(f"200 runs of 24,000 steps, 1000 nodes: {fast:.2f} s, plain numpy {slow:.0f} s (3 runs, scaled up)")
    print(f"ratio {slow / fast:.0f}")
    print(f"half the runs: {seconds(setup, 100) / fast:.2f} of the time")
    print(f"half the steps: {seconds(workload(steps=12_000), 200) / fast:.2f} of the time")
    large = workload(nodes=100_000, steps=300_000, rows=200_000)
    print(f"100,000 nodes, 300,000 steps, 4 runs: {seconds(large, 4):.2f} s")
    print(f"largest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
