"""All pairs of a finished run, and one more update of a running one: skipring against a plain Python loop.

Run it with `python benchmarks/transcript.py`. Both sides run in this process, one after the other. The plain loop is
timed on a few observers and scaled up to all of them (its cost is the same for each); skipring does all of them.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipring.privacy.transcript import Transcript, TranscriptAccountant
from skipring.schedules import RandomRing

Floats = NDArray[np.floating[Any]]

NODES, UPDATES, NOISE = 1000, 24_000, 10.597605053700947
SAMPLED_OBSERVERS = 20


def interval_cost(shifts: list[float], noises: list[float]) -> float:
    """Pool adjacent violators, in plain Python."""
    blocks: list[list[float]] = []
    for shift, noise in zip(shifts, noises, strict=True):
        blocks.append([shift, noise])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1][0] += last[0]
            blocks[-1][1] += last[1]
    return sum(shift**2 / noise for shift, noise in blocks)


def plain_observer(run: Transcript, observer: int) -> Floats:
    """mu about every target for one observer: numpy prefix sums, a Python loop over intervals and updates."""
    updaters, steps = run.updaters, np.asarray(run.step_sizes)
    noise_so_far = np.concatenate([[0.0], np.cumsum((steps * NOISE) ** 2)])
    looks, start = run.looks()
    mu2 = np.zeros(run.nodes)
    low = 0
    for high in looks[start[observer] : start[observer + 1]].tolist():
        mine: dict[int, list[int]] = {}
        for c in range(low, high):
            mine.setdefault(int(updaters[c]), []).append(c)
        for node, updates in mine.items():
            edges = noise_so_far[[*updates, high]]
            mu2[node] += interval_cost((2.0 * steps[updates]).tolist(), np.diff(edges).tolist())
        low = max(low, high)
    mu2[observer] = 0.0
    return np.sqrt(mu2)


def seconds(work: Callable[[], object], repeat: int = 1) -> float:
    best = math.inf
    for _ in range(repeat):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def random_ring(nodes: int, updates: int) -> Transcript:
    return Transcript(
        nodes=nodes,
        offered=RandomRing(nodes).path(updates, np.random.default_rng(0)),
        updated=np.ones(updates, dtype=np.bool_),
        step_sizes=1.0 / np.sqrt(1.0 + np.arange(updates)),
        noise_multiplier=NOISE,
    )


def compare_all_pairs() -> None:
    run = random_ring(NODES, UPDATES)
    account = TranscriptAccountant(run)
    cores = os.cpu_count() or 1
    one, all_cores = seconds(lambda: account.matrix(threads=1), 3), seconds(account.matrix, 3)
    sample = np.linspace(0, NODES - 1, SAMPLED_OBSERVERS).astype(int).tolist()
    plain: list[Floats] = []
    slow = seconds(lambda: plain.extend(plain_observer(run, observer) for observer in sample))
    scaled = slow * NODES / len(sample)
    matrix = account.matrix()
    difference = max(
        float(np.max(np.abs(matrix[:, observer] - mu))) for observer, mu in zip(sample, plain, strict=True)
    ) / float(matrix.max())
    print(f"all pairs, n = {NODES}, {UPDATES:,} updates (random ring, nobody skipped):")
    print(f"  skipring, 1 thread       {one:8.3f} s")
    print(f"  skipring, {cores} cores        {all_cores:8.3f} s")
    print(f"  plain numpy/Python loop  {scaled:8.1f} s   ({slow:.2f} s for {len(sample)} observers, scaled up)")
    print(f"  ratio (1 thread)         {scaled / one:8,.0f}     largest relative difference {difference:.1e}")
    if not difference < 1e-9:
        raise SystemExit("the two do not agree")


def main() -> None:
    def warm_up() -> None:
        TranscriptAccountant(random_ring(3, 9)).matrix()

    print(f"compiling (or loading compiled code from its cache), not in the times below: {seconds(warm_up):.2f} s")
    compare_all_pairs()


if __name__ == "__main__":
    main()
