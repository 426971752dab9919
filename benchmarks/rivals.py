"""The rivals of the token against the public way of writing them: a loop over nodes, a dense matrix of all pairs.

The public way is in `tests/simulation/plain_loops.py`, which the tests judge ours by. The workload: 1000 nodes of 16
rows or so and 8 features (the housing data if SKIPRING_DATA says where it is), whole batches, evaluated every 100
iterations.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterator

import numpy as np
from plain_loops import Links, reference_federated, reference_gossip
from setups import changed

from simulation import seconds, workload  # the benchmark beside this one, which finds the next file
from skipring.learning import LOGISTIC, LinearModel, StepSizes
from skipring.runs import with_changes
from skipring.schedules import Federated, Gossip
from skipring.simulation import build
from skipring.simulation.engine import run_one
from skipring.simulation.setup import Setup
from skipring.timeouts import timeout_for_skip

RUNS, ITERATIONS = 100, 100
SLOW_ITERATIONS = 10


def plain_graphs(nodes: int, probability: float, rng: np.random.Generator) -> Iterator[Links]:
    while True:
        upper = np.triu(rng.random((nodes, nodes)) < probability, 1)
        yield upper | upper.T


def rivals() -> tuple[Setup, Setup]:
    """The paper's comparison: skip probability 1e-4, degree ln n, 2 rounds of averaging, constant rate 0.7."""
    base = workload(steps=ITERATIONS, rows=16_000)
    if os.environ.get("SKIPRING_DATA"):
        changes = ["data.name=houses-openml", "data.nodes=1000", "delay.law=exponential:1"]
        base = build(with_changes(None, [*changes, "privacy.noise_multiplier=1"]))
    gossip = changed(
        base,
        model=LinearModel(loss=LOGISTIC, features=8, diameter=math.inf),
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
        reference_gossip(setup, 0, (next(graphs) for _ in range(setup.steps)))
    else:
        reference_federated(setup, 0, rng.random((setup.steps, nodes)) >= 1e-4)


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
    slow = quickest(lambda: slow_run(changed(setup, steps=SLOW_ITERATIONS))) / SLOW_ITERATIONS
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
