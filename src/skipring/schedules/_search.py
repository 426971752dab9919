"""Compiled: the exact leakage of every pair of a known order, and a search for an order whose worst pair is better.

Nobody is skipped and step sizes are constant here, so that only places matter. Between two looks of an observer a
target updates at most twice. What that tells is the greatest convex minorant of (noise so far, drift so far), written
out (docs/privacy.md, "Transcript"). Nothing but additions, multiplications and divisions decides, so that the same
numbers, and the same order, come out on every machine.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .._arrays import Floats, Ints

#: In a search among at most this many nodes the sum of weights may grow by a share of 1 / nodes at first: a few nodes
#: get stuck else, and many have no time for it.
_FEW = 50


@njit(nogil=True, cache=True)
def _cost(places: Ints, ends: Ints, interval: int, target: int, observer: int) -> float:
    """Return what one interval between two looks of the observer tells about the target.

    Interval r ends with the observer's look in round r (counted from 0), the last one with the look at the end.
    """
    rounds, nodes = places.shape
    earlier = later = -1
    if interval > 0 and places[interval - 1, target] > places[interval - 1, observer]:
        earlier = (interval - 1) * nodes + places[interval - 1, target]
    look = ends[observer]
    if interval < rounds:
        look = interval * nodes + places[interval, observer]
        if places[interval, target] < places[interval, observer]:
            later = interval * nodes + places[interval, target]
    if earlier < 0 and later < 0:
        return 0.0
    if later < 0:
        return 1.0 / (look - earlier)
    if earlier < 0:
        return 1.0 / (look - later)
    before, after = later - earlier, look - later
    if before <= after:  # both drifts are absorbed at one pace
        return 4.0 / (before + after)
    return 1.0 / before + 1.0 / after


@njit(nogil=True, cache=True)
def all_leakages(places: Ints, ends: Ints) -> Floats:
    """Return the leakage of all pairs [target, observer]; `ends` is the hop before which each node looks last."""
    rounds, nodes = places.shape
    total = np.zeros((nodes, nodes))
    for target in range(nodes):
        for observer in range(nodes):
            if target != observer:
                for interval in range(rounds + 1):
                    total[target, observer] += _cost(places, ends, interval, target, observer)
    return total


@njit(nogil=True, cache=True)
def _random(state: NDArray[np.uint64], below: int) -> int:
    """Return a number below a bound: splitmix64, whose stream no library will change."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return int((z >> np.uint64(11)) % np.uint64(below))


@njit(nogil=True, cache=True)
def _weight(x: float, scale: float) -> float:
    """Return (x / scale)^32: a sum of such weights is nearly the largest of them."""
    x = x / scale
    x = x * x
    x = x * x
    x = x * x
    x = x * x
    return x * x


@njit(nogil=True, cache=True)
def _worst(leakage: Floats) -> tuple[int, int]:
    nodes = len(leakage)
    target, observer, largest = 0, 1, -1.0
    for u in range(nodes):
        for v in range(nodes):
            if leakage[u, v] > largest:
                target, observer, largest = u, v, leakage[u, v]
    return target, observer


@njit(nogil=True, cache=True)
def _swap(
    places: Ints, ends: Ints, leakage: Floats, changed: Floats, of_round: int, x: int, y: int, scale: float
) -> float:
    """Let two nodes change places in a round; return by how much the sum of weights grows.

    `changed` gets the new leakages: rows 0 and 1 about x and y as targets, rows 2 and 3 as observers.
    """
    nodes = len(leakage)
    gain = 0.0
    for w in range(nodes):
        changed[0, w] = leakage[x, w]
        changed[1, w] = leakage[y, w]
        changed[2, w] = leakage[w, x]
        changed[3, w] = leakage[w, y]
    for sign in (-1.0, 1.0):
        if sign > 0.0:
            places[of_round, x], places[of_round, y] = places[of_round, y], places[of_round, x]
        for w in range(nodes):
            for interval in range(of_round, of_round + 2):
                if w != x:
                    changed[0, w] += sign * _cost(places, ends, interval, x, w)
                    changed[2, w] += sign * _cost(places, ends, interval, w, x)
                if w != y:
                    changed[1, w] += sign * _cost(places, ends, interval, y, w)
                    changed[3, w] += sign * _cost(places, ends, interval, w, y)
    for w in range(nodes):
        if w != x:
            gain += _weight(changed[0, w], scale) - _weight(leakage[x, w], scale)
            if w != y:
                gain += _weight(changed[2, w], scale) - _weight(leakage[w, x], scale)
        if w != y:
            gain += _weight(changed[1, w], scale) - _weight(leakage[y, w], scale)
            if w != x:
                gain += _weight(changed[3, w], scale) - _weight(leakage[w, y], scale)
    return gain


@njit(nogil=True, cache=True)
def searched(places: Ints, ends: Ints, moves: int, seed: int) -> None:
    """Improve an order in place by `moves`.

    A move lets a node of the worst pair change places with another node in some round. It is kept if the sum of weights
    does not grow, or grows by little while the search is young. What is left in the end is the best order on the way.
    Only pairs of the two nodes change, and only what is told from one look to the next around that round: a move costs
    as much as there are nodes.
    """
    rounds, nodes = places.shape
    state = np.array([seed], dtype=np.uint64)
    leakage = all_leakages(places, ends)
    changed = np.empty((4, nodes))
    target, observer = _worst(leakage)
    best, scale = leakage[target, observer], leakage[target, observer]
    best_places = places.copy()
    total = 0.0
    for u in range(nodes):
        for v in range(nodes):
            total += _weight(leakage[u, v], scale)
    for move in range(moves):
        patience = max(0.0, 1.0 - 1.25 * move / moves) / nodes if nodes <= _FEW else 0.0
        of_round = _random(state, rounds)
        x = target if _random(state, 2) == 0 else observer
        y = _random(state, nodes)
        if x == y:
            continue
        gain = _swap(places, ends, leakage, changed, of_round, x, y, scale)
        if gain > patience * total:
            places[of_round, x], places[of_round, y] = places[of_round, y], places[of_round, x]
            continue
        total += gain
        for w in range(nodes):
            leakage[x, w] = changed[0, w]
            leakage[y, w] = changed[1, w]
            leakage[w, x] = changed[2, w]
            leakage[w, y] = changed[3, w]
        target, observer = _worst(leakage)
        # Sums of differences drift by some roundings: what is better has to be better by more than that.
        if leakage[target, observer] < best * (1.0 - 1e-12):
            best = leakage[target, observer]
            best_places[:] = places
    places[:] = best_places
