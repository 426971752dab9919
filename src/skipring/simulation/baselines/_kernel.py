"""One run of each rival for a linear model, compiled: sparse graphs, all nodes in one sweep, one generator per run.

`random_graph` is here because numba's cache of a function knows the file of that function only: were it elsewhere, a
change to it would leave runs with the old graphs, while accountants draw the new ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .._kernel import add_margin_gradients, add_softmax_gradients, evaluate_margin, evaluate_softmax

__all__ = ["Graph", "random_graph", "run_federated", "run_gossip"]

#: The neighbours of node v are the second array's from the first array's v-th number to its next.
Graph = tuple[NDArray[np.int64], NDArray[np.int32]]
Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.integer[Any]]
_FAST = {"reassoc", "nsz", "contract", "arcp"}


@njit(nogil=True, cache=True, fastmath=_FAST)
def _evaluate(
    loss: int, classes: int, w: Floats, columns: Floats, labels: Floats, span: float, table: Floats
) -> tuple[float, float]:
    if classes > 0:
        return evaluate_softmax(w, columns, labels, np.empty((classes, columns.shape[1]), np.float32))
    return evaluate_margin(loss, w, columns, labels, span, table, np.empty(columns.shape[1], np.float32))


@njit(nogil=True, cache=True, fastmath=_FAST)
def _mean_gradient(
    rng: np.random.Generator,
    loss: int,
    classes: int,
    clip: float,
    limits: Floats,
    slopes: Floats,
    span: float,
    w: Floats,
    x: Floats,
    y: Floats,
    low: int,
    rows: int,
    take: int,
    order: Ints,
    residuals: Floats,
    gradient: Floats,
) -> None:
    gradient[:] = 0.0
    if classes > 0:
        add_softmax_gradients(rng, classes, clip, w, x, y, low, rows, take, order, residuals, gradient)
    else:
        add_margin_gradients(rng, loss, w, x, y, low, rows, take, order, limits, slopes, span, gradient)
    share = 1.0 / take
    for j in range(len(w)):
        gradient[j] *= share


@njit(nogil=True, cache=True, fastmath=_FAST)
def _add_noise(rng: np.random.Generator, noise_std: float, most: float, gradient: Floats) -> None:
    """Add noise to a gradient; if `most` is above 0, clip what comes out to that norm."""
    squares = 0.0
    for j in range(len(gradient)):
        if noise_std > 0.0:
            gradient[j] += noise_std * rng.standard_normal()
        squares += gradient[j] * gradient[j]
    if 0.0 < most * most < squares:
        scale = most / np.sqrt(squares)
        for j in range(len(gradient)):
            gradient[j] *= scale


@njit(nogil=True, cache=True, fastmath=_FAST)
def _project(w: Floats, radius: float) -> None:
    squares = 0.0
    for j in range(len(w)):
        squares += w[j] * w[j]
    if squares > radius * radius:
        scale = radius / np.sqrt(squares)
        for j in range(len(w)):
            w[j] *= scale


@njit(nogil=True, cache=True)
def random_graph(rng: np.random.Generator, nodes: int, probability: float) -> Graph:
    """Draw a graph in which any two nodes are neighbours with this probability; rows of neighbours, sorted.

    Only pairs that are neighbours are visited: the gap to the next one is geometric.
    """
    degrees = np.zeros(nodes + 1, np.int64)
    if probability <= 0.0:
        return degrees, np.empty(0, np.int32)
    size = int(0.5 * nodes * (nodes - 1) * probability)
    first = np.empty(size + 4 * int(np.sqrt(size)) + 16, np.int32)
    second = np.empty(len(first), np.int32)
    edges = 0
    scale = -1.0 / np.log1p(-probability) if probability < 1.0 else 0.0
    v, w = 1, -1
    while v < nodes:
        w += 1
        if probability < 1.0:
            w += int(min(rng.standard_exponential() * scale, 2.0**60))
        while w >= v and v < nodes:
            w -= v
            v += 1
        if v < nodes:
            if edges == len(first):
                longer_first, longer_second = np.empty(2 * edges, np.int32), np.empty(2 * edges, np.int32)
                longer_first[:edges], longer_second[:edges] = first, second
                first, second = longer_first, longer_second
            first[edges], second[edges] = v, w
            edges += 1
            degrees[v + 1] += 1
            degrees[w + 1] += 1
    start = np.cumsum(degrees)
    free = start[:-1].copy()
    neighbours = np.empty(2 * edges, np.int32)
    # Pairs come by the larger node, then the smaller: each row gets its smaller neighbours in order, then the larger.
    for e in range(edges):
        neighbours[free[first[e]]] = second[e]
        free[first[e]] += 1
    for e in range(edges):
        neighbours[free[second[e]]] = first[e]
        free[second[e]] += 1
    return start, neighbours


@njit(nogil=True, cache=True, fastmath=_FAST)
def run_gossip(
    rng: np.random.Generator,
    graph_rng: np.random.Generator,
    loss: int,
    classes: int,
    clip: float,
    limits: Floats,
    ridge: float,
    radius: float,
    slopes: Floats,
    loss_table: Floats,
    span: float,
    x: Floats,
    y: Floats,
    start: Ints,
    batch: int,
    step_sizes: Floats,
    noise_std: float,
    most: float,
    every: int,
    test_columns: Floats,
    test_labels: Floats,
    errors: Floats,
    losses: Floats,
    rounds: int,
    edge_probability: float,
    acceleration: float,
    judges: Ints,
    models: Floats,
) -> None:
    """Let every node step on its own model (a row of `models`, changed in place) and average it with its neighbours.

    A round gives every neighbour the weight 1 / (1 + largest degree). Metrics are means over the models of `judges`.
    """
    nodes, d = models.shape
    iterations = len(step_sizes)
    order = np.arange(len(x))
    gradient, residuals = np.empty(d), np.empty(max(1, classes))
    before, after = np.empty((nodes, d)), np.empty((nodes, d))
    point = 0
    for t in range(iterations + 1):
        if t % every == 0 or t == iterations:
            error, mean_loss = 0.0, 0.0
            for v in judges:
                e, f = _evaluate(loss, classes, models[v], test_columns, test_labels, span, loss_table)
                error += e / len(judges)
                mean_loss += f / len(judges)
            errors[point], losses[point] = error, mean_loss
            point += 1
        if t == iterations:
            break
        eta = step_sizes[t]
        for v in range(nodes):
            w = models[v]
            low = start[v]
            rows = start[v + 1] - low
            take = min(rows, batch)
            _mean_gradient(
                rng, loss, classes, clip, limits, slopes, span, w, x, y, low, rows, take, order, residuals, gradient
            )
            _add_noise(rng, noise_std, most, gradient)
            for j in range(d):
                w[j] -= eta * (gradient[j] + ridge * w[j])
        first, neighbours = random_graph(graph_rng, nodes, edge_probability)
        weight = 1.0 / (1.0 + (first[1:] - first[:-1]).max())
        for r in range(rounds):
            for v in range(nodes):
                stay = 1.0 - weight * (first[v + 1] - first[v])
                for j in range(d):
                    after[v, j] = stay * models[v, j]
                for e in range(first[v], first[v + 1]):
                    u = neighbours[e]
                    for j in range(d):
                        after[v, j] += weight * models[u, j]
            if r > 0 and acceleration != 1.0:
                for v in range(nodes):
                    for j in range(d):
                        after[v, j] = acceleration * after[v, j] + (1.0 - acceleration) * before[v, j]
            before[:] = models
            models[:] = after
        if radius < np.inf:
            for v in range(nodes):
                _project(models[v], radius)


@njit(nogil=True, cache=True, fastmath=_FAST)
def run_federated(
    rng: np.random.Generator,
    loss: int,
    classes: int,
    clip: float,
    limits: Floats,
    ridge: float,
    radius: float,
    slopes: Floats,
    loss_table: Floats,
    span: float,
    x: Floats,
    y: Floats,
    start: Ints,
    batch: int,
    step_sizes: Floats,
    noise_std: float,
    most: float,
    every: int,
    test_columns: Floats,
    test_labels: Floats,
    errors: Floats,
    losses: Floats,
    ready: NDArray[np.bool_],
    w: Floats,
) -> None:
    """Let a server step along the mean of the noisy gradients of all nodes that are ready; w is changed in place."""
    iterations, nodes = ready.shape
    d = len(w)
    order = np.arange(len(x))
    gradient, total, residuals = np.empty(d), np.empty(d), np.empty(max(1, classes))
    point = 0
    for t in range(iterations + 1):
        if t % every == 0 or t == iterations:
            errors[point], losses[point] = _evaluate(loss, classes, w, test_columns, test_labels, span, loss_table)
            point += 1
        if t == iterations:
            break
        total[:] = 0.0
        present = 0
        for v in range(nodes):
            if not ready[t, v]:
                continue
            low = start[v]
            rows = start[v + 1] - low
            take = min(rows, batch)
            _mean_gradient(
                rng, loss, classes, clip, limits, slopes, span, w, x, y, low, rows, take, order, residuals, gradient
            )
            if most > 0.0:
                _add_noise(rng, noise_std, most, gradient)
            for j in range(d):
                total[j] += gradient[j]
            present += 1
        if present == 0:
            continue
        if most == 0.0:
            # The sum of independent noises is one noise with the sum of the variances.
            _add_noise(rng, noise_std * np.sqrt(present), 0.0, total)
        for j in range(d):
            w[j] -= step_sizes[t] * (total[j] / present + ridge * w[j])
        if radius < np.inf:
            _project(w, radius)
