"""Compiled kernels of the transcript accountant: the exact cost of a path between two looks of an observer."""

from __future__ import annotations

import numpy as np
from numba import njit

from .._arrays import Floats, Ints

_LARGEST_WEIGHT = 1e60

# A path is the same arrays in every signature, one by one, in the order in which a transcript hands them over.


@njit(nogil=True, cache=True)
def _add_short_interval(
    low: int,
    high: int,
    node: Ints,
    previous: Ints,
    following: Ints,
    shift: Floats,
    variance: Floats,
    weight: Floats,
    noise: Floats,
    stack: Floats,
    out: Floats,
) -> None:
    """Add what updates low..high-1 tell; `weight` and `noise` have been filled in from the end."""
    for c in range(low, high):
        if previous[c] >= low:
            continue  # handled from its first update in the interval
        depth = 0
        k = c
        while 0 <= k < high:
            nxt = following[k]
            v = noise[k]
            if 0 <= nxt < high:
                # Rounded down, but never below the update's own noise.
                v = max(v * (1.0 - 4e-16) - noise[nxt] * (1.0 + 4e-16), variance[k] * weight[k] * weight[k])
            s = shift[k] * weight[k]
            while depth > 0 and (stack[1, depth - 1] == 0.0 or stack[0, depth - 1] / stack[1, depth - 1] >= s / v):
                depth -= 1
                s += stack[0, depth]
                v += stack[1, depth]
            stack[0, depth] = s
            stack[1, depth] = v
            depth += 1
            k = nxt
        cost = 0.0
        for i in range(depth):
            if stack[0, i] > 0.0:
                cost += stack[0, i] * stack[0, i] / stack[1, i]
        out[node[c]] += cost


@njit(nogil=True, cache=True)
def _add_interval(
    low: int,
    high: int,
    node: Ints,
    previous: Ints,
    following: Ints,
    shift: Floats,
    variance: Floats,
    contraction: Floats,
    weight: Floats,
    noise: Floats,
    stack: Floats,
    out: Floats,
) -> None:
    """Add to out[u], for every target u, what updates low..high-1 tell someone who looks after update high-1.

    The cheapest way to absorb the shifts of u in the noise is the greatest convex minorant of (noise so far, shift so
    far), found by pooling adjacent violators. Between u's updates only the sum of the noise matters. Seen from the end
    of the interval, update i weighs the product of the later contraction factors. `node` is whose target each update is
    of: a node, or a part of a node's data. `previous` and `following` link the updates of one target; `weight`, `noise`
    and `stack` are scratch space.
    """
    w = 1.0
    total = 0.0
    c = high - 1
    while c >= low:
        weight[c] = w
        total += variance[c] * w * w
        noise[c] = total
        w *= contraction[c]
        if w > _LARGEST_WEIGHT and c > low:
            # Expanding maps let weights grow without end. An extra look here only adds, and starts afresh.
            _add_short_interval(c, high, node, previous, following, shift, variance, weight, noise, stack, out)
            high = c
            w = 1.0
            total = 0.0
        c -= 1
    _add_short_interval(low, high, node, previous, following, shift, variance, weight, noise, stack, out)


@njit(nogil=True, cache=True)
def observers_mu2(
    first: int,
    last: int,
    look: Ints,
    look_start: Ints,
    node: Ints,
    previous: Ints,
    following: Ints,
    shift: Floats,
    variance: Floats,
    contraction: Floats,
    out: Floats,
) -> None:
    """Fill out[v - first] for observers v = first..last-1; look[look_start[v]:look_start[v+1]] is when v looked."""
    updates = len(node)
    weight = np.empty(updates)
    noise = np.empty(updates)
    stack = np.empty((2, updates + 1))
    for v in range(first, last):
        low = 0
        row = out[v - first]
        for i in range(look_start[v], look_start[v + 1]):
            if look[i] > low:
                _add_interval(
                    low,
                    look[i],
                    node,
                    previous,
                    following,
                    shift,
                    variance,
                    contraction,
                    weight,
                    noise,
                    stack,
                    row,
                )
                low = look[i]
