"""The law of the leakage on the uniform random walk, before a run (docs/privacy.md, "Random walk").

A step is one hop: a node is drawn uniformly (the present holder may be drawn again), and it takes part or is skipped.
For one pair the hops are independent, each of one of four kinds: U, the target takes part (probability a); V, the
observer is sent the token (b); N, another node takes part (g); or nothing that matters. An update of the target is
charged to the noise up to the next U or V: with H noise terms (its own included) and update number at least c it costs
at most 1/H + 1/(2c) for step sizes rate/sqrt(c), and 1/H for constant ones. What follows bounds the moment generating
function of the sum of these costs over all hops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import spence

from .._binomial import binomial_floor
from .leakage import ChernoffLeakage
from .record import PlannedRun

__all__ = ["random_walk_leakage"]

Floats = NDArray[np.float64]

_EXPONENTS = np.geomspace(2e-3, 300.0, 64)
_EXACT_HOPS = 3000
_EXACT_STATES = 256
_TERMS = np.arange(1.0, 513.0)


@dataclass(frozen=True)
class _HopKinds:
    target: float  # a
    observer: float  # b
    other: float  # g

    @property
    def any(self) -> float:
        return self.target + self.observer + self.other


def random_walk_leakage(run: PlannedRun, failure: float) -> ChernoffLeakage:
    """Return the leakage of any pair on the random walk, for both views."""
    n = run.nodes
    kinds = _HopKinds(run.target_ready / n, run.observer_sees / n, (n - 2) * (1.0 - run.skip) / n)
    levels = _counter_levels(run, kinds, failure)
    log_mgf = _log_mgf(_EXPONENTS, kinds, levels, run.steps)
    return ChernoffLeakage(
        _EXPONENTS, log_mgf * (1.0 + 1e-9), failure=failure if run.step_size == "sqrt" else 0.0
    )


def _counter_levels(run: PlannedRun, kinds: _HopKinds, failure: float) -> list[tuple[int, float]]:
    """Return (number of hops, penalty 1/(2c)) in order, c being a floor of the number of the update at those hops.

    Updates of target and others are counted, the observer's are not. All floors together fail with probability
    `failure`.
    """
    if run.step_size == "constant":
        return [(run.steps, 0.0)]
    ready = kinds.target + kinds.other
    floors = [1]
    while floors[-1] < run.steps:
        floors.append(max(floors[-1] + 1, math.floor(1.12 * floors[-1])))
    share = failure / len(floors)
    levels: list[tuple[int, float]] = []
    begun, hop = 1, 1  # the floor in force, and the first hop at which it is
    for floor in floors[1:]:
        following = _first_hop(floor - 1, ready, share, hop, run.steps)
        if following is None:
            break
        if following > hop:
            levels.append((following - hop, 0.5 / begun))
        begun, hop = floor, following
    levels.append((run.steps + 1 - hop, 0.5 / begun))
    return levels


def _first_hop(updates: int, ready: float, failure: float, low: int, steps: int) -> int | None:
    """Return the first hop before which there were `updates` updates but for `failure`; None if not within `steps`."""

    def reached(hop: int) -> bool:
        return binomial_floor(hop - 1, ready, failure) >= updates

    if not reached(steps):
        return None
    high = max(low, min(steps, 2 * low + 64))
    while not reached(high):
        low, high = high, min(steps, 2 * high)
    while low < high:
        middle = (low + high) // 2
        if reached(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _log_mgf(theta: Floats, kinds: _HopKinds, levels: list[tuple[int, float]], steps: int) -> Floats:
    """Bound ln E exp(theta X): the first hops exactly, then block by block with a supersolution."""
    exact = min(_EXACT_HOPS, steps, sum(hops for hops, penalty in levels if penalty > 0.5 / 24.0) + 1)
    result = np.zeros_like(theta)
    growth = np.exp(theta[:, None] / np.arange(1.0, _EXACT_STATES + 1.0))  # w_h = exp(theta/h)
    idle, pending = np.ones_like(theta), np.zeros((len(theta), _EXACT_STATES))
    stay = 1.0 - kinds.any
    done = 0
    remaining: list[tuple[int, float]] = []
    for hops, penalty in levels:
        now = max(0, min(hops, exact - done))
        jump = kinds.target * np.exp(theta * penalty)
        for _ in range(now):
            closed = np.einsum("th,th->t", growth, pending)
            entered = jump * (idle + closed)
            idle = (1.0 - kinds.target) * idle + kinds.observer * closed
            moved = kinds.other * pending
            pending *= stay
            pending[:, 1:] += moved[:, :-1]
            # The last state stands for all larger ones: fewer noise terms only add.
            pending[:, -1] += moved[:, -1]
            pending[:, 0] += entered
            scale = idle + pending.sum(axis=1)
            idle, pending = idle / scale, pending / scale[:, None]
            result += np.log(scale)
        done += now
        if hops > now:
            remaining.append((hops - now, penalty))
    # Close what is pending: from "pending with h terms" the future is worth at most w_h times that from "idle".
    result += np.log(idle + np.einsum("th,th->t", growth, pending))
    if not remaining:
        return result
    previous: Floats | None = None
    rate: Floats | None = None
    weight = np.zeros_like(theta)
    for hops, penalty in remaining:
        rate, weight, entry = _supersolution(theta, kinds, penalty, rate)
        result += hops * np.log1p(rate)
        if previous is not None:
            result += np.log(np.maximum(1.0, previous / entry))
        previous = entry
    return result + np.log1p(weight)


def _supersolution(
    theta: Floats, kinds: _HopKinds, penalty: float, feasible: Floats | None
) -> tuple[Floats, Floats, Floats]:
    """Return x, W, y_1 such that one hop multiplies y = (1, y_1, y_1 gamma, y_1 gamma^2, ...) by at most 1 + x.

    With W = (x + a)/b, gamma = g/(x + a + b + g) and y_1 = a s (1 + W)/(x + a + b + g) that holds as soon as
    y_1 sum_h gamma^(h-1) w_h <= W. `feasible` is an x known to do (a block before this one had a larger penalty).
    """
    a, b, g = kinds.target, kinds.observer, kinds.other
    jump = a * np.exp(theta * penalty)

    def candidate(x: Floats) -> tuple[Floats, Floats, Floats]:
        weight, total = (x + a) / b, x + kinds.any
        entry = jump * (1.0 + weight) / total
        return entry * _geometric_sum(theta, g / total), weight, entry

    if feasible is None:
        high = np.full_like(theta, a)
        for _ in range(2000):
            value, weight, _ = candidate(high)
            short = value > weight
            if not short.any():
                break
            high = np.where(short, 2.0 * high, high)
    else:
        high = feasible.copy()
    low = 0.25 * high
    for _ in range(200):  # go down while that still does
        value, weight, _ = candidate(low)
        does = value <= weight
        if not does.any():
            break
        high, low = np.where(does, low, high), np.where(does, 0.25 * low, low)
        if np.all(low < 1e-18):
            break
    for _ in range(26):
        middle = np.sqrt(low) * np.sqrt(high)
        value, weight, _ = candidate(middle)
        does = value <= weight
        low, high = np.where(does, low, middle), np.where(does, middle, high)
    _, weight, entry = candidate(high)
    return high, weight, entry


def _geometric_sum(theta: Floats, gamma: Floats) -> Floats:
    """Return an upper bound of sum_{h >= 1} gamma^(h-1) exp(theta/h).

    The first three terms of the exponential have closed sums (geometric, logarithm, dilogarithm); the rest decays like
    1/h^3 and is summed up to 512, with the integral as a bound of what is left.
    """
    tiny = gamma < 1e-12
    safe = np.where(tiny, 0.5, gamma)
    ratio = theta[:, None] / _TERMS
    with np.errstate(over="ignore"):
        rest = np.where(
            ratio < 0.05,
            ratio**3 / 6.0 * (1.0 + ratio / 4.0 * (1.0 + ratio / 5.0 * (1.0 + ratio / 5.9))),
            np.exp(ratio) - 1.0 - ratio - 0.5 * ratio * ratio,
        )
    powers = np.exp(np.log(safe)[:, None] * (_TERMS - 1.0))
    last = float(_TERMS[-1])
    remainder = theta**3 / (12.0 * last * last) * np.exp(theta / last)
    total = (
        1.0 / (1.0 - safe)
        - theta * np.log1p(-safe) / safe
        + 0.5 * theta * theta * spence(1.0 - safe) / safe
        + np.einsum("th,th->t", rest, powers)
        + remainder
    )
    return np.where(tiny, np.exp(theta) * (1.0 + 1e-9), total)
