"""Compiled: how the looks of an observer cut a known order, for one pair and for all of them."""

from __future__ import annotations

import numpy as np
from numba import njit

from .._arrays import Floats, Ints


@njit(nogil=True, cache=True)
def cut(
    places: Ints, last_looks: Ints, closing: Ints, target: int, observer: int, every: int, unit: int, out: Ints
) -> int:
    """Write a row for each interval between two looks in which the unit contributes; return how many there are.

    A row is (k1, k2, first, second, left out). `first` and `second` are the rounds of the target's contributions, -1 if
    there is none, with k1 other nodes between the two and k2 between the last of them and the look. (k1 is 0 where
    there is one contribution.) `left out` counts the target's hops in between that do not contribute, whose noise is
    not counted. The unit contributes in rounds unit, unit + every, ...
    """
    rounds, nodes = places.shape
    found = 0
    for interval in range(rounds + 1):
        earlier = later = -1
        if interval > 0 and places[interval - 1, target] > places[interval - 1, observer]:
            earlier = (interval - 1) * nodes + places[interval - 1, target]
        look = last_looks[observer]
        if interval < rounds:
            look = interval * nodes + places[interval, observer]
            if places[interval, target] < places[interval, observer]:
                later = interval * nodes + places[interval, target]
        one = earlier >= 0 and (interval - 1) % every == unit
        two = later >= 0 and interval % every == unit
        if one and two:
            out[found] = (later - earlier - 1, look - later - 1, interval - 1, interval, 0)
        elif two:
            out[found] = (0, look - later - 1, -1, interval, 0)
        elif one:
            own = 1 if later >= 0 else 0
            if interval == rounds:
                for place in range(len(closing)):
                    if closing[place] == target and rounds * nodes + place < look:
                        own += 1
            out[found] = (0, look - earlier - 1 - own, interval - 1, -1, own)
        else:
            continue
        found += 1
    return found


@njit(nogil=True, cache=True)
def pair_log_mgfs(
    begin: int,
    end: int,
    places: Ints,
    last_looks: Ints,
    closing: Ints,
    every: int,
    unit: int,
    group: Ints,
    floor: Ints,
    off: Ints,
    alone: Floats,
    after: Floats,
    out: Floats,
) -> None:
    """Fill out[target, observer], for targets begin..end-1, with a bound of ln E[exp(theta X)] of the pair.

    group[k] is the group of k other nodes, floor[round, node] that of the number of the node's update, off[k] that of a
    number that is left out. `alone` has the values of one contribution and the noise after it, by (left out, floor,
    others). `after` has those of two contributions that are absorbed in what comes after the second one.
    """
    nodes = places.shape[1]
    rows = np.empty((places.shape[0] + 1, 5), dtype=np.int64)
    for target in range(begin, end):
        for observer in range(nodes):
            total = -np.inf  # nobody observes itself
            if target != observer:
                total = 0.0
                found = cut(places, last_looks, closing, target, observer, every, unit, rows)
                for i in range(found):
                    k1, k2, first, second, left = rows[i]
                    if first < 0:
                        total += alone[0, floor[second, target], group[k2]]
                    elif second < 0:
                        total += alone[off[left], floor[first, target], group[k2]]
                    else:
                        apart = alone[0, floor[first, target], group[k1]] + alone[0, floor[second, target], group[k2]]
                        total += min(apart, after[off[k1 + 1], floor[first, target], group[k2]])
            out[target, observer] = total
