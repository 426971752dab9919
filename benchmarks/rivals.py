"""The rivals of the token against the public way of writing them: a loop over nodes, a dense matrix of all pairs.

`slow_gossip` and `slow_federated` are also the oracles of the tests. The workload: 1000 nodes of 16 rows or so and 8
features (the housing data if SKIPRING_DATA says where it is), whole batches, evaluated every 100 iterations.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulation import seconds, slow_error, slow_gradient, workload  # the benchmark beside this one
from skipring.learning import LinearModel, StepSizes
from skipring.simulation import build, with_changes
from skipring.simulation.baselines import Federated, Gossip
from skipring.simulation.engine import run_one
from skipring.simulation.setup import Setup
from skipring.timeouts import timeout_for_skip

Floats = NDArray[np.floating[Any]]
Links = NDArray[np.bool_]

RUNS, ITERATIONS = 100, 100
SLOW_ITERATIONS = 10


def slow_gossip(setup: Setup, number: int, graphs: Iterable[Links]) -> tuple[Floats, Floats]:
    """Muffliato-SGD as one would write it down; returns test errors and the models of all nodes.

    `graphs` says for each iteration which nodes are neighbours, as a matrix of all pairs.
    """
    model, rival, nodes = setup.model, setup.schedule, setup.data.nodes
    assert isinstance(model, LinearModel)
    assert isinstance(rival, Gossip)
    rng = np.random.default_rng([setup.seed, number])
    models = np.zeros((nodes, *_shape(model)))
    sizes = setup.step_sizes.first(setup.steps)
    judges = np.unique(np.linspace(0, nodes - 1, min(nodes, 32)).astype(int))
    errors = []
    for iteration, links in enumerate(graphs):
        if iteration % setup.evaluate_every == 0:
            errors.append(np.mean([slow_error(model, models[v], setup.test_x, setup.test_y) for v in judges]))
        for v in range(nodes):
            step = _noisy_gradient(setup, v, models[v], rng) + model.ridge * models[v]
            models[v] -= sizes[iteration] * step
        weights = gossip_matrix(links)
        before, now = models, (weights @ models.reshape(nodes, -1)).reshape(models.shape)
        for _ in range(1, rival.rounds):
            averaged = (weights @ now.reshape(nodes, -1)).reshape(models.shape)
            before, now = now, rival.acceleration * averaged + (1.0 - rival.acceleration) * before
        models = np.array([_projected(w, model.radius) for w in now])
    errors.append(np.mean([slow_error(model, models[v], setup.test_x, setup.test_y) for v in judges]))
    return np.array(errors), models.reshape(nodes, -1)


def slow_federated(setup: Setup, number: int, ready: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """FedL-SGD as one would write it down; returns test errors and the model. `ready`: who is, in each iteration."""
    model = setup.model
    assert isinstance(model, LinearModel)
    rng = np.random.default_rng([setup.seed, number])
    w: Floats = np.zeros(_shape(model))
    sizes = setup.step_sizes.first(setup.steps)
    errors = []
    for iteration, present in enumerate(ready):
        if iteration % setup.evaluate_every == 0:
            errors.append(slow_error(model, w, setup.test_x, setup.test_y))
        uploads = [_noisy_gradient(setup, int(v), w, rng) for v in np.flatnonzero(present)]
        if uploads:
            w = _projected(w - sizes[iteration] * (np.mean(uploads, axis=0) + model.ridge * w), model.radius)
    errors.append(slow_error(model, w, setup.test_x, setup.test_y))
    return np.array(errors), w.ravel()


def gossip_matrix(links: Links) -> Floats:
    """The weights of a round of averaging: 1 / (1 + largest degree) for a neighbour, the rest for oneself."""
    degrees = links.sum(axis=1)
    weights = links / (1.0 + degrees.max())
    np.fill_diagonal(weights, 1.0 - degrees / (1.0 + degrees.max()))
    return weights


def dense(start: NDArray[Any], neighbours: NDArray[Any]) -> Links:
    """A graph given by rows of neighbours, as a matrix of all pairs."""
    nodes = len(start) - 1
    links = np.zeros((nodes, nodes), dtype=np.bool_)
    links[np.repeat(np.arange(nodes), np.diff(start)), neighbours] = True
    return links


def plain_graphs(nodes: int, probability: float, rng: np.random.Generator) -> Iterator[Links]:
    while True:
        upper = np.triu(rng.random((nodes, nodes)) < probability, 1)
        yield upper | upper.T


def _shape(model: LinearModel) -> tuple[int, ...]:
    return (model.classes, model.features) if model.loss == "softmax" else (model.features,)


def _noisy_gradient(setup: Setup, node: int, w: Floats, rng: np.random.Generator) -> Floats:
    model, data = setup.model, setup.data
    assert isinstance(model, LinearModel)
    rows = np.arange(data.start[node], data.start[node + 1])
    if setup.batch is not None:
        rows = rng.choice(rows, setup.batch, replace=False)
    gradient = slow_gradient(model, w, data.features[rows], data.labels[rows])
    gradient = gradient + setup.noise_multiplier * model.gradient_bound * rng.standard_normal(w.shape)
    return gradient if setup.clip_noisy is None else _projected(gradient, setup.clip_noisy)


def _projected(w: Floats, radius: float) -> Floats:
    norm = float(np.linalg.norm(w))
    return w * (radius / norm) if norm > radius else w


def rivals() -> tuple[Setup, Setup]:
    """The paper's comparison: skip probability 1e-4, degree ln n, 2 rounds of averaging, constant rate 0.7."""
    base = workload(steps=ITERATIONS, rows=16_000)
    if os.environ.get("SKIPRING_DATA"):
        changes = ["data.name=houses-openml", "data.nodes=1000", "delay.law=exponential:1"]
        base = build(with_changes(None, [*changes, "privacy.noise_multiplier=1"]))
    gossip = dataclasses.replace(
        base,
        model=LinearModel(loss="logistic", features=8, diameter=math.inf),
        schedule=Gossip(nodes=1000, slots=175.0),
        steps=ITERATIONS,
        step_sizes=StepSizes(0.7, "constant"),
        timeout=timeout_for_skip(base.delay, 1e-4),
        noise_multiplier=1.0,
        batch=None,
        evaluate_every=100,
    )
    return gossip, dataclasses.replace(gossip, schedule=Federated(nodes=1000))


def slow_run(setup: Setup) -> None:
    """A few iterations the public way, graphs and lateness drawn the public way as well."""
    nodes, rng = setup.data.nodes, np.random.default_rng(1)
    if isinstance(setup.schedule, Gossip):
        graphs = plain_graphs(nodes, setup.schedule.edge_probability(1e-4), rng)
        slow_gossip(setup, 0, (next(graphs) for _ in range(setup.steps)))
    else:
        slow_federated(setup, 0, rng.random((setup.steps, nodes)) >= 1e-4)


def quickest(task: Callable[[], object]) -> float:
    """The least time of three: other programs only ever add to it."""
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        task()
        times.append(time.perf_counter() - begin)
    return min(times)


def compare(setup: Setup) -> None:
    """Print the time of an iteration: ours, in one run and in many at once, and the public way's."""
    begin = time.perf_counter()
    run_one(setup, 0)
    print(f"  first run, compilation or its cache included: {time.perf_counter() - begin:.2f} s")
    slow = quickest(lambda: slow_run(dataclasses.replace(setup, steps=SLOW_ITERATIONS))) / SLOW_ITERATIONS
    alone = quickest(lambda: run_one(setup, 0)) / ITERATIONS
    fast = quickest(lambda: seconds(setup, RUNS))
    each = fast / RUNS / ITERATIONS
    print(f"  an iteration, the public way: {1e3 * slow:.1f} ms")
    print(f"  an iteration here: {1e3 * alone:.2f} ms in one run, {1e3 * each:.2f} ms in many at once")
    print(f"  ratio {slow / alone:.0f} for one run, {slow / each:.0f} for many")
    print(f"  {RUNS} runs of {ITERATIONS} iterations, {setup.data.nodes} nodes: {fast:.2f} s")


def main() -> None:
    for setup in rivals():
        print(f"{setup.schedule.name}:")
        compare(setup)


if __name__ == "__main__":
    main()
