"""The clock of a run, compiled: what each node has prepared, when it can be reached, and how long it computes."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .._arrays import Floats, Ints

Bools = NDArray[np.bool_]

FRESH, KEPT, AHEAD = 0, 1, 2
#: Of what a node was too slow for, it thinks better with every turn that it declines, as real nodes do.
HOPE = 0.9


@njit(nogil=True, cache=True)
def _reachable(
    moment: float, node: int, begins: Floats, ends: Floats, first: Ints, period: float, phase: float
) -> float:
    """Return the first moment, not before this one, at which a node can be reached; a trace repeats for ever."""
    which = node % (len(first) - 1)
    low, high = first[which], first[which + 1]
    if low == high:
        return np.inf
    into = (moment + phase) % period
    start = moment - into
    i = low + np.searchsorted(ends[low:high], into, side="right")
    if i == high:
        return start + period + begins[low]
    return moment if begins[i] <= into else start + begins[i]


@njit(nogil=True, cache=True)
def follow(
    ready: int,
    fewer_rows: bool,
    declines: bool,
    path: Ints,
    delays: Floats,
    computing: Floats,
    dead: Bools,
    lost: Bools,
    timeouts: Floats,
    hop_latency: float,
    pairs: Floats,
    slices: Ints,
    places: Ints,
    begins: Floats,
    ends: Floats,
    first: Ints,
    period: float,
    phase: float,
    least_share: float,
    ready_at: Floats,
    updated: Bools,
    passed_on: Bools,
    share: Floats,
    clock: Floats,
) -> None:
    """Fill in the last four arrays; `ready_at` says when each node will be ready, nan if it prepares nothing."""
    # How long each node computed when it last did, and until when it is busy with work that came too late.
    pace, busy_until = np.zeros(len(ready_at)), np.zeros(len(ready_at))
    now = 0.0
    holder = path[0]
    for h in range(len(path)):
        node, limit = path[h], timeouts[h]
        if len(pairs) > 0:
            now += pairs[slices[h], places[holder], places[node]] if h > 0 else 0.0
        else:
            now += hop_latency
        if dead[h]:
            ready_at[node] = np.nan
            pace[node] = busy_until[node] = 0.0
        if dead[h] or lost[h]:
            now += limit
            clock[h] = now
            continue
        too_slow = declines and (now < busy_until[node] or pace[node] > limit)
        if too_slow and (period == 0.0 or _reachable(now, node, begins, ends, first, period, phase) == now):
            if now >= busy_until[node]:
                pace[node] *= HOPE
            clock[h] = now  # it says so, and nobody waits
            continue
        if ready == FRESH or np.isnan(ready_at[node]):
            # Not as a difference of moments, which rounds: a delay of just the timeout is in time.
            begin = now
            if period > 0.0:
                begin = _reachable(now, node, begins, ends, first, period, phase)
            ready_at[node] = begin + delays[h]
            wait = (begin - now) + delays[h]
        else:
            wait = max(ready_at[node] - now, 0.0)
        if period > 0.0:
            wait = _reachable(now + wait, node, begins, ends, first, period, phase) - now
        if wait > limit:
            now += limit
            clock[h] = now
            continue
        # From here on the node has seen the token.
        holder = node
        full = pace[node] = computing[h]
        if wait + full <= limit:
            updated[h] = True
            now += wait + full
        else:
            fits = (limit - wait) / full
            if fewer_rows and fits >= least_share:
                updated[h] = True
                share[h] = fits
            else:
                passed_on[h] = True
                # Busy until the abandoned work has ended; what was prepared is still there.
                ready_at[node] = busy_until[node] = now + wait + full
            now += limit
        clock[h] = now
        if updated[h]:
            ready_at[node] = now + delays[h] if ready == AHEAD else np.nan
