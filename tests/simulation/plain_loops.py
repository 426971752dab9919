"""Algorithm 1 and its rivals as one would write them down, one update at a time: what compiled runs are judged by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skipring._arrays import Floats
from skipring.learning import LinearModel, reference
from skipring.schedules import Gossip, Schedule
from skipring.simulation.setup import Setup

#: Which nodes are neighbours, as a matrix of all pairs.
Links = NDArray[np.bool_]


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
    rng = np.random.default_rng([setup.run.simulation.seed, number])
    w: Floats = np.zeros(model.parameters)
    metrics, latency, updates = [], 0.0, 0
    sizes = setup.step_sizes.first(setup.hops)
    turns = [0] * setup.data.nodes
    for hop, node in enumerate(setup.path(rng) if path is None else path):
        if hop % setup.run.simulation.evaluate_every == 0:
            metrics.append(_metrics(setup, model, w))
        delay = float(setup.delay.sample(rng, 1)[0])
        latency += setup.run.delay.hop_latency + min(delay, setup.timeout)
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
    if protection.unit == "node" and setup.protection.batch is not None:
        rows = rng.choice(rows, setup.protection.batch, replace=False)
    divisor = protection.divisor(len(rows))
    gradient = reference.gradient(model, w, data.features[rows], data.labels[rows], divisor)
    return gradient + protection.noise_std(model, setup.noise_multiplier) * rng.standard_normal(len(w))


def _metrics(setup: Setup, model: LinearModel, w: Floats) -> tuple[float, float]:
    x, y = setup.test_x, setup.test_y
    return reference.test_error(model, w, x, y), reference.mean_loss(model, w, x, y)


def reference_gossip(setup: Setup, number: int, graphs: Iterable[Links]) -> tuple[Floats, Floats]:
    """Muffliato-SGD; returns test errors and the models of all nodes. `graphs`: that of each iteration."""
    model, rival, nodes = setup.model, setup.schedule, setup.data.nodes
    assert isinstance(model, LinearModel)
    assert isinstance(rival, Gossip)
    rng = np.random.default_rng([setup.run.simulation.seed, number])
    models = np.zeros((nodes, model.parameters))
    sizes = setup.step_sizes.first(setup.steps)
    judges = np.unique(np.linspace(0, nodes - 1, min(nodes, 32)).astype(int))
    errors = []
    for iteration, links in enumerate(graphs):
        if iteration % setup.run.simulation.evaluate_every == 0:
            errors.append(_mean_error(setup, model, models[judges]))
        for v in range(nodes):
            step = _uploaded(setup, v, iteration, models[v], rng) + model.ridge * models[v]
            models[v] -= sizes[iteration] * step
        weights = gossip_matrix(links)
        before, now = models, weights @ models
        for _ in range(1, rival.rounds):
            before, now = now, rival.acceleration * (weights @ now) + (1.0 - rival.acceleration) * before
        models = np.array([reference.projected(w, model.radius) for w in now])
    errors.append(_mean_error(setup, model, models[judges]))
    return np.array(errors), models


def reference_federated(setup: Setup, number: int, ready: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """FedL-SGD; returns test errors and the model. `ready`: which nodes are, in each iteration."""
    model = setup.model
    assert isinstance(model, LinearModel)
    rng = np.random.default_rng([setup.run.simulation.seed, number])
    w: Floats = np.zeros(model.parameters)
    sizes = setup.step_sizes.first(setup.steps)
    errors = []
    for iteration, present in enumerate(ready):
        if iteration % setup.run.simulation.evaluate_every == 0:
            errors.append(_mean_error(setup, model, w[None]))
        uploads = [_uploaded(setup, int(v), iteration, w, rng) for v in np.flatnonzero(present)]
        if uploads:
            w = reference.stepped(model, w, np.mean(uploads, axis=0), float(sizes[iteration]))
    errors.append(_mean_error(setup, model, w[None]))
    return np.array(errors), w


def gossip_matrix(links: Links) -> Floats:
    """Return the weights of a round of averaging: 1 / (1 + largest degree) for a neighbour, the rest for oneself."""
    degrees = links.sum(axis=1)
    weights = links / (1.0 + degrees.max())
    np.fill_diagonal(weights, 1.0 - degrees / (1.0 + degrees.max()))
    return weights


def dense(start: NDArray[Any], neighbours: NDArray[Any]) -> Links:
    """Return a graph given by rows of neighbours as a matrix of all pairs."""
    nodes = len(start) - 1
    links = np.zeros((nodes, nodes), dtype=np.bool_)
    links[np.repeat(np.arange(nodes), np.diff(start)), neighbours] = True
    return links


def _uploaded(setup: Setup, node: int, iteration: int, w: Floats, rng: np.random.Generator) -> Floats:
    gradient = noisy_gradient(setup, node, iteration, w, rng)
    return (
        gradient
        if setup.run.learning.clip_noisy is None
        else reference.projected(gradient, setup.run.learning.clip_noisy)
    )


def _mean_error(setup: Setup, model: LinearModel, models: Floats) -> float:
    return float(np.mean([reference.test_error(model, w, setup.test_x, setup.test_y) for w in models]))
