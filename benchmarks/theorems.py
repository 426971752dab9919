"""Theorem 3 and Theorem 1 as printed against skipring's closed forms: same numbers, how much faster?

Run it with `python benchmarks/theorems.py`. Both sides run in this process, one after the other; the printed
sums are timed once, skipring takes the best of several runs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
from scipy.special import comb
from scipy.stats import binom

from skipring.convergence import Problem, error_bound
from skipring.privacy.paper import paper_noise_multiplier, stated_epsilon, visits

DELTA = DELTA_PRIME = 1e-6
NOISE = paper_noise_multiplier(1.0, DELTA)


def theorem3_as_printed(nodes: int, steps: int, skip: float) -> float:
    """The triple sum over rounds r, distances d and updates h; the innermost sum is one numpy expression."""
    a = 0.0
    for r in range(visits(nodes, steps, skip, DELTA_PRIME)):
        for d in range(1, nodes):
            h = np.arange(1, d + 1, dtype=np.float64)
            gamma = 4.0 * (1.0 + r * h) * (np.sqrt(1.0 + r * h + h) - np.sqrt(1.0 + r * h)) ** 2
            a += float(np.sum(h * comb(d, h) * skip ** (d - h) * (1.0 - skip) ** h / gamma))
    a /= nodes - 1
    log_label, log_delta = math.log(1.25 / DELTA), math.log(1.0 / DELTA)
    epsilon = math.sqrt(8.0 * log_label) / NOISE
    alpha = min(
        math.sqrt(2.0 * log_delta * log_label) / (epsilon * math.sqrt(a)) + 1.0,
        (1.0 + math.sqrt(16.0 * log_label / epsilon**2 + 1.0)) / 2.0,
    )
    return epsilon**2 * a * alpha / (2.0 * log_label) + log_delta / (alpha - 1.0)


PLAIN = Problem(noise_multiplier=0.0, dimension=1, diameter=1.0, gradient_bound=1.0, learning_rate=1.0)


def bound_as_printed(steps: int, nodes: int, skip: float) -> float:
    """Theorem 1 for diameter, gradient bound and learning rate 1 and no noise; inner sums in numpy."""
    factor = (1.0 - skip) / math.sqrt((1.0 + skip**2) - 2.0 * skip * math.cos(2.0 * math.pi / nodes))
    powers = factor ** np.arange(steps + 2)
    errors = [1.0]
    for h in range(1, steps + 1):
        bracket = float(np.sum(powers[1 : h + 2])) / (h + 1)
        for j in range(1, h + 1):
            bracket += float(np.sum(powers[h + 1 - j : h + 2])) / (j * (j + 1))
        errors.append(2.0 * (2.0 + math.log(h + 1)) / math.sqrt(h + 1) + math.sqrt(nodes) * bracket)
    return float(binom.pmf(np.arange(steps + 1), steps, 1.0 - skip) @ np.array(errors))


def seconds(work: Callable[[], object], repeat: int) -> float:
    best = math.inf
    for _ in range(repeat):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def report(what: str, slow: float, fast: float, difference: float) -> None:
    print(
        f"{what:<52} as printed {slow:8.3f} s   skipring {fast * 1e3:8.3f} ms   "
        f"ratio {slow / fast:9,.0f}   relative difference {difference:.1e}"
    )
    if not difference < 1e-9:
        raise SystemExit(f"{what}: the two do not agree")


def compare_theorem3(nodes: int, steps: int, skip: float) -> None:
    begin = time.perf_counter()
    printed = theorem3_as_printed(nodes, steps, skip)
    slow = time.perf_counter() - begin

    def ours() -> float:
        return stated_epsilon(
            3,
            nodes=nodes,
            steps=steps,
            skip=skip,
            noise_multiplier=NOISE,
            delta=DELTA,
            delta_prime=DELTA_PRIME,
        )

    difference = abs(ours() - printed) / printed
    report(f"Theorem 3, n = {nodes}, {steps} steps, p = {skip}", slow, seconds(ours, 20), difference)


def compare_bounds(steps: int, nodes: int, skip: float) -> None:
    begin = time.perf_counter()
    printed = bound_as_printed(steps, nodes, skip)
    slow = time.perf_counter() - begin

    def ours() -> float:
        return error_bound(PLAIN, schedule="ring", nodes=nodes, steps=steps, skip=skip)

    difference = abs(ours() - printed) / printed
    report(f"Theorem 1, n = {nodes}, {steps} steps, p = {skip}", slow, seconds(ours, 20), difference)


def main() -> None:
    for skip in (0.5, 0.7):
        compare_theorem3(500, 50_000, skip)
    for skip in (1e-4, 0.5):
        compare_bounds(1000, 500, skip)
    long = seconds(lambda: error_bound(PLAIN, schedule="ring", nodes=500, steps=1_000_000, skip=1e-4), 3)
    print(f"Theorem 1, n = 500, 1000000 steps, p = 0.0001: skipring {long * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
