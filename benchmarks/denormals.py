"""Whether an update of a node takes another time for other rows: zeros, denormal numbers, rows of one kind or another.

Run it with `OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/denormals.py [SECONDS]`. All kinds of rows take
turns in this process, and the processor time of each update is measured, so that other processes disturb all alike.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipring.learning import LinearLearner, LinearModel, NeuralModel, Protection, Rows, TorchLearner, loss_named
from skipring.network.node import NoiseSource

Floats = NDArray[np.floating[Any]]
BATCH = 256


def kinds(features: int, denormal: float) -> dict[str, Floats]:
    """Rows of length 1 at most. The first kind is what others are compared with."""
    rng = np.random.default_rng(1)
    usual = rng.standard_normal((BATCH, features))
    usual /= np.linalg.norm(usual, axis=1)[:, None] * 1.000001
    one_denormal = usual.copy()
    one_denormal[0] = denormal
    return {
        "usual": usual,
        "usual again": usual.copy(),
        "zeros": np.zeros_like(usual),
        "denormal": np.full_like(usual, denormal),
        "one row denormal": one_denormal,
    }


def rows_of(x: Floats, classes: int) -> Rows:
    labels = np.arange(BATCH) % classes
    return Rows(train_x=x, train_y=labels, test_x=x[:0], test_y=labels[:0], classes=classes)


def linear(model: LinearModel, protection: Protection, rows: Rows) -> LinearLearner:
    rng, dealt = np.random.default_rng(1), np.random.default_rng(1)
    return LinearLearner(model, rows, protection=protection, rng=rng, dealt=dealt)


def learners() -> dict[str, dict[str, Any]]:
    protection = Protection(unit="record", batch=BATCH)
    found: dict[str, dict[str, Any]] = {}

    def every(name: str, features: int, denormal: float, make: Callable[[Rows], Any], classes: int) -> None:
        found[name] = {kind: make(rows_of(x, classes)) for kind, x in kinds(features, denormal).items()}

    for loss, features, classes in (("logistic", 30, 2), ("logistic", 2000, 2), ("softmax", 784, 10)):
        model = LinearModel(loss=loss_named(loss), features=features, classes=classes, diameter=20.0)
        every(f"{loss}, {features} features", features, 1e-310, partial(linear, model, protection), classes)
    network = NeuralModel(name="small-cnn", features=784, classes=10, clip=1.0, device="cpu")
    every(
        "small-cnn, 784 features",
        784,
        1e-40,
        lambda rows: TorchLearner(
            network, rows, protection=protection, seed=1, rng=np.random.default_rng(1), dealt=np.random.default_rng(1)
        ),
        10,
    )
    return found


def measure(of_kind: dict[str, Any], seconds: float) -> dict[str, list[int]]:
    noise, start = NoiseSource(), next(iter(of_kind.values())).initial()
    # A model in the middle of a run: there is noise on it.
    start = start + np.random.default_rng(2).normal(0.0, 0.1, start.shape).astype(start.dtype)
    times: dict[str, list[int]] = {kind: [] for kind in of_kind}
    order, rng = list(of_kind), np.random.default_rng(3)
    until = time.monotonic() + seconds
    turn = 0
    while time.monotonic() < until or turn < 12:
        rng.shuffle(order)  # nobody is always first, or always after the same
        for kind in order:
            learner, given = of_kind[kind], start.copy()
            learner.prepare(turn)
            began = time.process_time_ns()
            learner.update(given, turn=turn, step_size=0.1, noise_multiplier=2.0, noise=noise)
            if turn >= 2:
                times[kind].append(time.process_time_ns() - began)
        turn += 1
    return times


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    for name, of_kind in learners().items():
        times = measure(of_kind, seconds)
        usual = times["usual"]
        print(f"{name}: {len(usual)} updates of {BATCH} rows for each kind, processor time")
        for kind, found in times.items():
            least, middle = min(found) / 1e6, float(np.median(found)) / 1e6
            print(
                f"  {kind:18} least {least:8.3f} ms ({least * 1e6 / min(usual):.3f})"
                f"  median {middle:8.3f} ms ({middle * 1e6 / float(np.median(usual)):.3f})"
            )


if __name__ == "__main__":
    main()
