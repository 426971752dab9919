"""Algorithm 1 as one would write it down, one update at a time: what compiled runs are judged by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from ..learning import LinearModel, reference
from ..schedules import Schedule
from .setup import Setup


class ReferenceRun(NamedTuple):
    """Test errors and mean losses at the setup's points, the last model, and how long all hops took."""

    errors: Floats
    losses: Floats
    model: Floats
    latency: float


def reference_run(
    setup: Setup, number: int, path: Iterable[int] | None = None, updated: NDArray[np.bool_] | None = None
) -> ReferenceRun:
    """Walk the token along its path, or along one that is given, with random numbers of its own.

    `updated`, if given, says at which hops the node is ready, whatever its delay.

    A compiled run of the same number has other random numbers: the two agree where nothing is left to chance, and in
    law elsewhere. Delays are independent, whatever the setup's stragglers are.
    """
    model = setup.model
    assert isinstance(model, LinearModel)
    assert isinstance(setup.schedule, Schedule)
    rng = np.random.default_rng([setup.seed, number])
    w: Floats = np.zeros(model.parameters)
    metrics, latency, updates = [], 0.0, 0
    sizes = setup.step_sizes.first(setup.hops)
    turns = [0] * setup.data.nodes
    for hop, node in enumerate(setup.path(rng) if path is None else path):
        if hop % setup.evaluate_every == 0:
            metrics.append(_metrics(setup, model, w))
        delay = float(setup.delay.sample(rng, 1)[0])
        latency += setup.hop_latency + min(delay, setup.timeout)
        if delay <= setup.timeout if updated is None else updated[hop]:
            if hop < setup.steps:
                gradient = noisy_gradient(setup, node, turns[node], w, rng)
                w = reference.stepped(model, w, gradient, float(sizes[updates]))
            else:
                noise = setup.protection.noise_std(model, setup.noise_multiplier) * rng.standard_normal(len(w))
                w = reference.projected(w - float(sizes[updates]) * noise, model.radius)
            updates += 1
        turns[node] += 1
    metrics.append(_metrics(setup, model, w))
    errors, losses = np.array(metrics).T
    return ReferenceRun(errors, losses, w, latency)


def noisy_gradient(setup: Setup, node: int, turn: int, w: Floats, rng: np.random.Generator) -> Floats:
    """Return the gradient of a node at its turn number `turn`, each row's clipped, with noise."""
    model, data = setup.model, setup.data
    assert isinstance(model, LinearModel)
    protection = setup.protection
    rows = data.start[node] + setup.parts[node][turn % len(setup.parts[node])]
    if protection.unit == "node" and setup.batch is not None:
        rows = rng.choice(rows, setup.batch, replace=False)
    divisor = protection.divisor(len(rows))
    gradient = reference.gradient(model, w, data.features[rows], data.labels[rows], divisor)
    return gradient + protection.noise_std(model, setup.noise_multiplier) * rng.standard_normal(len(w))


def _metrics(setup: Setup, model: LinearModel, w: Floats) -> tuple[float, float]:
    x, y = setup.test_x, setup.test_y
    return reference.test_error(model, w, x, y), reference.mean_loss(model, w, x, y)
