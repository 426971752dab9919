"""The rivals as one would write them down: a loop over nodes, and a dense matrix of all pairs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._arrays import Floats
from ...learning import LinearModel, reference
from ..reference import noisy_gradient
from ..setup import Setup
from .kinds import Gossip

#: Which nodes are neighbours, as a matrix of all pairs.
Links = NDArray[np.bool_]


def reference_gossip(setup: Setup, number: int, graphs: Iterable[Links]) -> tuple[Floats, Floats]:
    """Muffliato-SGD; returns test errors and the models of all nodes. `graphs`: that of each iteration."""
    model, rival, nodes = setup.model, setup.schedule, setup.data.nodes
    assert isinstance(model, LinearModel)
    assert isinstance(rival, Gossip)
    rng = np.random.default_rng([setup.seed, number])
    models = np.zeros((nodes, model.parameters))
    sizes = setup.step_sizes.first(setup.steps)
    judges = np.unique(np.linspace(0, nodes - 1, min(nodes, 32)).astype(int))
    errors = []
    for iteration, links in enumerate(graphs):
        if iteration % setup.evaluate_every == 0:
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
    rng = np.random.default_rng([setup.seed, number])
    w: Floats = np.zeros(model.parameters)
    sizes = setup.step_sizes.first(setup.steps)
    errors = []
    for iteration, present in enumerate(ready):
        if iteration % setup.evaluate_every == 0:
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
    return gradient if setup.clip_noisy is None else reference.projected(gradient, setup.clip_noisy)


def _mean_error(setup: Setup, model: LinearModel, models: Floats) -> float:
    return float(np.mean([reference.test_error(model, w, setup.test_x, setup.test_y) for w in models]))
