"""The simulator against the plain way of writing it: one run at a time, one update at a time, in numpy.

The plain way is `reference_run`, which the tests judge the simulator by. The workload: 1000 nodes of 16 rows or so and
8 features, 24,000 steps, batch 8, evaluated 241 times on 4128 rows.
"""

from __future__ import annotations

import dataclasses
import math
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numba import njit

sys.path.append(str(Path(__file__).parents[1] / "tests" / "simulation"))
from plain_loops import reference_run
from setups import changed, setup_of

from skipring.data import NodeData
from skipring.delays import Exponential
from skipring.learning import LOGISTIC, LinearModel, StepSizes
from skipring.schedules import RandomRing, Schedule
from skipring.simulation.engine import run_many, run_one
from skipring.simulation.lateness import Lateness
from skipring.simulation.setup import Setup
from skipring.simulation.stragglers import draw_hops


def workload(nodes: int = 1000, steps: int = 24_000, rows: int = 16_512) -> Setup:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((rows + 4128, 8))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = (x @ rng.standard_normal(8) + 0.3 * rng.standard_normal(len(x)) > 0.0).astype(np.int64)
    start = np.linspace(0, rows, nodes + 1).astype(np.int64)
    return setup_of(
        model=LinearModel(loss=LOGISTIC, features=8, diameter=10.0),
        data=NodeData(features=x[:rows], labels=y[:rows], start=start),
        test_x=x[rows:],
        test_y=y[rows:].astype(np.float64),
        schedule=RandomRing(nodes),
        protects="node",
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


@njit(nogil=True)
def draw(rng: np.random.Generator, updates: int, uniforms: int, normals: int) -> float:
    """The random numbers of the updates of a run: those that choose batches, and the noise."""
    total = 0.0
    for _ in range(updates):
        for _ in range(uniforms):
            total += rng.random()
        for _ in range(normals):
            total += rng.standard_normal()
    return total


def limit(setup: Setup, runs: int) -> float:
    """Seconds that drawing the random numbers of some runs takes, on as many threads as the runs have.

    No run can be quicker. Two uniform numbers choose 8 of 16 or 17 rows.
    """
    assert isinstance(setup.schedule, Schedule)
    schedule = setup.schedule

    def one(number: int) -> None:
        rng = np.random.Generator(np.random.SFC64(number))
        path = schedule.path(setup.steps, rng)
        delays = draw_hops(setup.delay, path, setup.data.nodes, setup.stragglers, rng).answers
        draw(rng, int((delays <= setup.timeout).sum()), 2, setup.model.parameters)

    one(0)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        begin = time.perf_counter()
        list(pool.map(one, range(runs)))
        return time.perf_counter() - begin


def main() -> None:
    setup = workload()
    begin = time.perf_counter()
    run_one(setup, 0)
    print(f"first run, compilation or its cache included: {time.perf_counter() - begin:.2f} s")
    fast = min(seconds(setup, 200) for _ in range(3))
    least = min(limit(setup, 200) for _ in range(3))
    begin = time.perf_counter()
    for number in range(3):
        reference_run(setup, number)
    slow = (time.perf_counter() - begin) / 3 * 200
    print(f"200 runs of 24,000 steps, 1000 nodes: {fast:.2f} s, plain numpy {slow:.0f} s (3 runs, scaled up)")
    print(f"ratio {slow / fast:.0f}")
    print(f"drawing their random numbers alone: {least:.2f} s, {least / fast:.2f} of the time")
    # Batches of 9 rows at most: two parts of each node, which its turns rotate through; nothing is drawn but noise.
    records = changed(setup, protects="record", batch=9)
    run_one(records, 0)
    print(f"the same with records protected: {min(seconds(records, 200) for _ in range(3)) / fast:.2f} of the time")
    # Nobody is ever skipped, so that all make the same updates; what differs is the clock.
    patient = changed(setup, timeout=math.inf)
    modes = {ready: dataclasses.replace(patient, lateness=Lateness(ready=ready)) for ready in ("kept", "ahead")}
    for mode in modes.values():
        run_one(mode, 0)
    times: dict[str, list[float]] = {name: [] for name in ("fresh", *modes)}
    for _ in range(5):  # in turn, lest a busy moment counts for one of them only
        for name, mode in {"fresh": patient, **modes}.items():
            times[name].append(seconds(mode, 100))
    for name in modes:
        print(f"nodes that remember, {name}: {min(times[name]) / min(times['fresh']):.2f} of the time")
    print(f"half the runs: {seconds(setup, 100) / fast:.2f} of the time")
    print(f"half the steps: {seconds(workload(steps=12_000), 200) / fast:.2f} of the time")
    large = workload(nodes=100_000, steps=300_000, rows=200_000)
    print(f"100,000 nodes, 300,000 steps, 4 runs: {seconds(large, 4):.2f} s")
    print(f"largest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
