"""The clock of a run, compiled: what each node has prepared, when it can be reached, and how long it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from .._arrays import Floats, Ints

if TYPE_CHECKING:
    from .lateness import Timeline
    from .stragglers import Drawn

FRESH, KEPT, AHEAD = 0, 1, 2
SKIP, DECLINE, FEWER_ROWS = 0, 1, 2
#: Of what a node was too slow for, it thinks better with every turn that it declines, as real nodes do.
HOPE = 0.9


class Reach(NamedTuple):
    """When nodes can be reached (`delays.Availability`), for a run that begins at a phase; a period of 0: always."""

    begins: Floats
    ends: Floats
    first: Ints
    period: float
    phase: float


class Links(NamedTuple):
    """How long each hop takes: `seconds` between two nodes' places in a slice; if that is empty, `hop_latency`."""

    seconds: Floats
    slices: Ints
    places: Ints
    hop_latency: float


@njit(nogil=True, cache=True)
def _reachable(moment: float, node: int, reach: Reach) -> float:
    """Return the first moment, not before this one, at which a node can be reached; a trace repeats for ever."""
    which = node % (len(reach.first) - 1)
    low, high = reach.first[which], reach.first[which + 1]
    if low == high:
        return np.inf
    into = (moment + reach.phase) % reach.period
    start = moment - into
    i = low + np.searchsorted(reach.ends[low:high], into, side="right")
    if i == high:
        return start + reach.period + reach.begins[low]
    return moment if reach.begins[i] <= into else start + reach.begins[i]


@njit(nogil=True, cache=True)
def follow(
    ready: int,
    late: int,
    drawn: Drawn,
    timeouts: Floats,
    links: Links,
    reach: Reach,
    least_share: float,
    ready_at: Floats,
    filled: Timeline,
) -> None:
    """Fill in the last argument; `ready_at` says when each node will be ready, nan if it prepares nothing."""
    # How long each node computed when it last did, and until when it is busy with work that came too late.
    pace, busy_until = np.zeros(len(ready_at)), np.zeros(len(ready_at))
    now = 0.0
    holder = drawn.path[0]
    for h in range(len(drawn.path)):
        node, limit = drawn.path[h], timeouts[h]
        if len(links.seconds) > 0:
            now += links.seconds[links.slices[h], links.places[holder], links.places[node]] if h > 0 else 0.0
        else:
            now += links.hop_latency
        if drawn.dead[h]:
            ready_at[node] = np.nan
            pace[node] = busy_until[node] = 0.0
        if drawn.dead[h] or drawn.lost[h]:
            now += limit
            filled.clock[h] = now
            continue
        too_slow = late == DECLINE and (now < busy_until[node] or pace[node] > limit)
        if too_slow and (reach.period == 0.0 or _reachable(now, node, reach) == now):
            if now >= busy_until[node]:
                pace[node] *= HOPE
            filled.clock[h] = now  # it says so, and nobody waits
            continue
        if ready == FRESH or np.isnan(ready_at[node]):
            # Not as a difference of moments, which rounds: a delay of just the timeout is in time.
            begin = now
            if reach.period > 0.0:
                begin = _reachable(now, node, reach)
            ready_at[node] = begin + drawn.delays[h]
            wait = (begin - now) + drawn.delays[h]
        else:
            wait = max(ready_at[node] - now, 0.0)
        if reach.period > 0.0:
            wait = _reachable(now + wait, node, reach) - now
        if wait > limit:
            now += limit
            filled.clock[h] = now
            continue
        # From here on the node has seen the token.
        holder = node
        full = pace[node] = drawn.computing[h]
        if wait + full <= limit:
            filled.updated[h] = True
            now += wait + full
        else:
            fits = (limit - wait) / full
            if late == FEWER_ROWS and fits >= least_share:
                filled.updated[h] = True
                filled.share[h] = fits
            else:
                filled.passed_on[h] = True
                # Busy until the abandoned work has ended; what was prepared is still there.
                ready_at[node] = busy_until[node] = now + wait + full
            now += limit
        filled.clock[h] = now
        if filled.updated[h]:
            ready_at[node] = now + drawn.delays[h] if ready == AHEAD else np.nan
