"""One run of each rival for a linear model, compiled: sparse graphs, all nodes in one sweep, one generator per run.

`random_graph` is here because numba's cache of a function knows the file of that function only. Were it elsewhere, a
change to it would leave runs with the old graphs, while accountants draw the new ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..._arrays import AnyInts, Floats
from ...learning._compiled import (
    FAST,
    SOURCE,
    Examples,
    RunMetrics,
    Scratch,
    Test,
    UpdateRule,
    draw_batch,
    draw_noise,
    project,
    take_step,
)
from ...learning._evaluated import evaluate, gradients

#: The neighbours of node v are the second array's from the first array's v-th number to its next.
Graph = tuple[NDArray[np.int64], NDArray[np.int32]]


class Averaging(NamedTuple):
    """How nodes average with their neighbours: rounds per iteration, how likely two are neighbours, acceleration."""

    rounds: int
    edge_probability: float
    acceleration: float


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def _hide(rng: np.random.Generator, std: float, most: float, gradient: Floats, room: Scratch) -> None:
    """Add noise to a gradient; if `most` is above 0, clip what comes out to that norm."""
    if std > 0.0:
        draw_noise(rng, room)
        for j in range(len(gradient)):
            gradient[j] += std * room.noise[j]
    if most > 0.0:
        project(gradient, most)


@njit(nogil=True, cache=True)
def random_graph(rng: np.random.Generator, nodes: int, probability: float) -> Graph:
    """Draw a graph in which any two nodes are neighbours with this probability; rows of neighbours, sorted.

    Only pairs that are neighbours are visited: the gap to the next one is geometric.
    """
    # Loops, where numpy would do: to take arrays as a whole, numba compiles texts for shapes that do not fit, which
    # would take longer than all the rest.
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
                for e in range(edges):
                    longer_first[e], longer_second[e] = first[e], second[e]
                first, second = longer_first, longer_second
            first[edges], second[edges] = v, w
            edges += 1
            degrees[v + 1] += 1
            degrees[w + 1] += 1
    start, free = np.empty(nodes + 1, np.int64), np.empty(nodes + 1, np.int64)
    before = 0
    for v in range(nodes + 1):
        before += degrees[v]
        start[v] = free[v] = before
    neighbours = np.empty(2 * edges, np.int32)
    # Pairs come by the larger node, then the smaller: each row gets its smaller neighbours in order, then the larger.
    for e in range(edges):
        neighbours[free[first[e]]] = second[e]
        free[first[e]] += 1
    for e in range(edges):
        neighbours[free[second[e]]] = first[e]
        free[second[e]] += 1
    return start, neighbours


def _gossip_for(source: int) -> Any:
    """Return a run of gossip, compiled anew if what it inlines has changed."""

    @njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
    def gossip(
        rng: np.random.Generator,
        graph_rng: np.random.Generator,
        model: Any,
        rows: Examples,
        rule: UpdateRule,
        most: float,
        averaging: Averaging,
        test: Test,
        room: Scratch,
        judges: AnyInts,
        models: Floats,
        metrics: RunMetrics,
    ) -> None:
        """Let every node step on its own model (a row of `models`, changed in place), and average with its neighbours.

        A round gives every neighbour the weight 1 / (1 + largest degree). Metrics are means over the models of
        `judges`. If `most` is above 0, noisy gradients are clipped to it.
        """
        if source < 0:  # never
            return
        nodes, d = models.shape
        before, after = np.empty((nodes, d)), np.empty((nodes, d))
        for point in range(len(metrics.errors)):
            metrics.errors[point], metrics.losses[point] = 0.0, 0.0
            for v in judges:
                error, loss = evaluate(model, models[v], test, room)
                metrics.errors[point] += error / len(judges)
                metrics.losses[point] += loss / len(judges)
            for t in range(point * metrics.every, min((point + 1) * metrics.every, len(rule.step_sizes))):
                eta = rule.step_sizes[t]
                for v in range(nodes):
                    w = models[v]
                    take = draw_batch(
                        rng, model.choices, rows, rows.first[v] + t % (rows.first[v + 1] - rows.first[v]), room
                    )
                    gradients(model, w, rows, take, room)
                    divisor = rule.divisor if rule.divisor > 0.0 else float(take)
                    for j in range(d):
                        room.gradient[j] /= divisor
                    _hide(rng, rule.noise_std, most, room.gradient, room)
                    take_step(w, room.gradient, eta, room.noise, 0.0, 1.0 - eta * rule.ridge, np.inf)
                first, neighbours = random_graph(graph_rng, nodes, averaging.edge_probability)
                largest = 0
                for v in range(nodes):
                    largest = max(largest, first[v + 1] - first[v])
                weight = 1.0 / (1.0 + largest)
                for r in range(averaging.rounds):
                    for v in range(nodes):
                        stay = 1.0 - weight * (first[v + 1] - first[v])
                        for j in range(d):
                            after[v, j] = stay * models[v, j]
                        for e in range(first[v], first[v + 1]):
                            u = neighbours[e]
                            for j in range(d):
                                after[v, j] += weight * models[u, j]
                    if r > 0 and averaging.acceleration != 1.0:
                        c = averaging.acceleration
                        for v in range(nodes):
                            for j in range(d):
                                after[v, j] = c * after[v, j] + (1.0 - c) * before[v, j]
                    for v in range(nodes):
                        for j in range(d):
                            before[v, j], models[v, j] = models[v, j], after[v, j]
                if rule.radius < np.inf:
                    for v in range(nodes):
                        project(models[v], rule.radius)

    return gossip


def _federated_for(source: int) -> Any:
    """Return a run of federated learning; see `_gossip_for`."""

    @njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
    def federated(
        rng: np.random.Generator,
        model: Any,
        rows: Examples,
        rule: UpdateRule,
        most: float,
        ready: NDArray[np.bool_],
        test: Test,
        room: Scratch,
        w: Floats,
        metrics: RunMetrics,
    ) -> None:
        """Let a server step along the mean of the noisy gradients of all nodes that are ready; w is changed in place.

        If `most` is above 0, each node's noisy gradient is clipped to it.
        """
        if source < 0:  # never
            return
        iterations, nodes = ready.shape
        total = np.empty(len(w))
        for point in range(len(metrics.errors)):
            error, loss = evaluate(model, w, test, room)
            metrics.errors[point], metrics.losses[point] = error, loss
            for t in range(point * metrics.every, min((point + 1) * metrics.every, iterations)):
                total[:] = 0.0
                present = 0
                for v in range(nodes):
                    if not ready[t, v]:
                        continue
                    take = draw_batch(
                        rng, model.choices, rows, rows.first[v] + t % (rows.first[v + 1] - rows.first[v]), room
                    )
                    gradients(model, w, rows, take, room)
                    divisor = rule.divisor if rule.divisor > 0.0 else float(take)
                    for j in range(len(w)):
                        room.gradient[j] /= divisor
                    if most > 0.0:
                        _hide(rng, rule.noise_std, most, room.gradient, room)
                    for j in range(len(w)):
                        total[j] += room.gradient[j]
                    present += 1
                if present == 0:
                    continue
                if most == 0.0:
                    # The sum of independent noises is one noise with the sum of the variances.
                    _hide(rng, rule.noise_std * np.sqrt(present), 0.0, total, room)
                eta = rule.step_sizes[t]
                take_step(w, total, eta / present, room.noise, 0.0, 1.0 - eta * rule.ridge, rule.radius)

    return federated


#: A compiled run of each rival.
GOSSIP, FEDERATED = _gossip_for(SOURCE), _federated_for(SOURCE)
