"""Shift and absorb on changing graphs: what an observer of gossip learns about many targets (docs/gossip-privacy.md).

Units: gradient bound k = 1 and noise multiplier 1, so that replacing a target's data moves its gradient by at most 2.
Every absorption below is valid; prices only decide which one is taken, so nothing about them needs proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Doubles

Nodes = NDArray[np.intp]

#: Singular values (relative to the largest possible) up to the first are 0 and from the second on are not. What lies
#: between is not trusted: the target then hides its drift alone, which is always allowed.
_ZERO, _NOT_ZERO = 1e-12, 1e-4
#: So much rounding in a projector is let pass, and more than that is added to every entry of it.
_ROUNDING, _SLACK = 1e-9, 1e-8
#: Where mass mixes well, all n nodes together should absorb what a target adds in a phase. A little more was best for
#: every graph tried (between 1 and 3 it changes mu by less than 1 %).
_SHARE = 1.5
#: Sweeps over a run that settle the price of drift at a target.
_SWEEPS = 8


@dataclass(frozen=True)
class Phase:
    """One phase: how its graph averages, and what the observer is sent.

    Parameters
    ----------
    adjacency : sparse 0/1 matrix of the graph.
    degrees : of each node.
    weight : of an edge.
    within : nodes that the observer can learn about in this phase, without itself.
    hidden : those of them whose values it is not sent as they are (not its neighbours).
    basis : orthonormal rows that span what it is sent about `hidden`; None if rounding leaves that in doubt, or
        no target is among them.
    """

    adjacency: Any
    degrees: Doubles
    weight: float
    within: Nodes
    hidden: Nodes
    basis: Doubles | None

    def average(self, values: Doubles, rounds: int) -> Doubles:
        """Return the values of all nodes after some rounds of averaging."""
        own = (1.0 - self.weight * self.degrees)[:, None]
        for _ in range(rounds):
            values = own * values + self.weight * (self.adjacency @ values)
        return values


def phase_seen_by(adjacency: Any, rounds: int, observer: int, targets: Nodes) -> Phase:
    """Return what the observer sees of one graph, and how nodes can hide a target's drift together."""
    start, ends = adjacency.indptr, adjacency.indices
    degrees = np.diff(start).astype(np.float64)
    weight = float(1.0 / (1.0 + degrees.max()))
    reached = np.zeros(len(degrees), dtype=np.bool_)
    reached[observer] = True
    neighbours = ring = ends[start[observer] : start[observer + 1]].astype(np.intp)
    for _ in range(rounds):
        reached[ring] = True
        if not len(ring):
            break
        further = np.concatenate([ends[start[w] : start[w + 1]] for w in ring])
        ring = np.unique(further[~reached[further]]).astype(np.intp)
    reached[observer] = False
    within = np.flatnonzero(reached)
    reached[neighbours] = False
    hidden = np.flatnonzero(reached)
    phase = Phase(adjacency, degrees, weight, within, hidden, None)
    if not reached[targets].any():
        return phase
    return Phase(adjacency, degrees, weight, within, hidden, _basis(phase, observer, neighbours, rounds))


def _basis(phase: Phase, observer: int, neighbours: Nodes, rounds: int) -> Doubles | None:
    """Return an orthonormal basis of what the neighbours' values in rounds 1, 2, .. say about hidden nodes.

    Their own values are known from round 0. Cutting each way through the graph where it last leaves a neighbour shows
    that the rest spans C, V C, .., V^(rounds - 2) C. Here C are the links of neighbours to hidden nodes, and V the
    weights between all nodes but the observer and its neighbours. Orthogonalising after each product keeps it well
    conditioned.
    """
    known = np.append(neighbours, observer)
    values = np.zeros((len(phase.degrees), len(neighbours)))
    values[neighbours, np.arange(len(neighbours))] = 1.0
    block = (phase.adjacency @ values)[phase.hidden]
    block /= np.linalg.norm(block, 2)
    basis = np.zeros((len(phase.hidden), 0))
    error = 1e-15
    for _ in range(rounds - 1):
        for _ in range(2):  # once is not enough in floating point
            block = block - basis @ (basis.T @ block)
        new, size, _ = np.linalg.svd(block, full_matrices=False)
        if np.any((size > _ZERO) & (size < _NOT_ZERO)):
            return None
        new, size = new[:, size >= _NOT_ZERO], size[size >= _NOT_ZERO]
        if not len(size):
            break
        error = (error + 1e-15) / float(size[-1])
        if error > _ROUNDING:
            return None
        basis = np.concatenate([basis, new], axis=1)
        values = np.zeros((len(phase.degrees), len(size)))
        values[phase.hidden] = new
        values = phase.average(values, 1)
        values[known] = 0.0
        block = values[phase.hidden]
    return basis.T


def _shares(phase: Phase, targets: Nodes) -> Doubles:
    """Return q_u of each target: 0 if the observer sees nothing of it in this phase, 1 if it must hide alone."""
    share = np.zeros(len(targets))
    share[np.isin(targets, phase.within)] = 1.0
    if phase.basis is not None:
        place = np.searchsorted(phase.hidden, targets)
        place[place == len(phase.hidden)] = 0
        among = phase.hidden[place] == targets
        share[among] = np.minimum(1.0, np.sum(phase.basis[:, place[among]] ** 2, axis=0))
    return share


def _levels(phases: Sequence[Phase], rounds: int, steps: Doubles) -> Doubles:
    """Return up to what drift each node absorbs in each phase although the observer does not look, [phase, node].

    That is its share of what a target adds, times the part of a drift here that the observer would meet later.
    """
    nodes = len(phases[0].degrees)
    met = np.zeros((len(phases), nodes))
    for t in range(len(phases) - 1, 0, -1):
        seen = met[t].copy()
        seen[phases[t].within] = 1.0
        met[t - 1] = phases[t - 1].average(seen[:, None], rounds)[:, 0]
    level: Doubles = met * (2.0 * _SHARE / nodes * steps)[:, None]
    return level


def _prices(stay: Doubles, share: Doubles, level: Doubles, steps: Doubles) -> Doubles:
    """Return up to what drift each target absorbs in each phase although the observer does not look.

    A drift costs its square over the squared step size. Absorbing one unit less now leaves a part `stay` at the target,
    where it costs 2 B x share when the observer looks. From the last phase backwards this gives the price of drift,
    given B, the drift at hand. And B follows from the prices. What leaves the target is worth the `level` of others.
    """
    square = (steps**2)[:, None]
    elsewhere = level / square
    price = np.zeros_like(stay)
    drift = np.empty_like(stay)
    for sweep in range(_SWEEPS):
        left = np.zeros(stay.shape[1])
        for t in range(len(stay)):
            drift[t] = left + 2.0 * steps[t]
            absorbed = np.where(share[t] > 0.0, share[t] * drift[t], np.minimum(drift[t], square[t] * price[t]))
            left = stay[t] * (drift[t] - absorbed)
        wanted = np.zeros_like(price)
        here = np.zeros(stay.shape[1])
        for t in range(len(stay) - 1, -1, -1):
            wanted[t] = stay[t] * here + (1.0 - stay[t]) * elsewhere[t]
            bare = drift[t] / square[t]
            here = np.where(share[t] > 0.0, share[t] * bare + (1.0 - share[t]) * wanted[t], np.minimum(wanted[t], bare))
        price = wanted if sweep == 0 else 0.5 * (price + wanted)
    return price * square


def _stays(phase: Phase, rounds: int, targets: Nodes) -> Doubles:
    """Return about what part of a target's value is still there after the averaging: at most one way out and back."""
    own = 1.0 - phase.weight * phase.degrees[targets]
    back = 0.5 * rounds * (rounds - 1) * phase.degrees[targets] * phase.weight**2
    stay: Doubles = own**rounds + back * own ** max(0, rounds - 2)
    return np.minimum(1.0, stay)


def leaked_mu2(phases: Sequence[Phase], rounds: int, observer: int, targets: Nodes, steps: Doubles) -> Doubles:
    """Return mu^2 about each target after each phase, as an array [phase, target], for noise multiplier 1."""
    nodes, count = len(phases[0].degrees), len(targets)
    each = np.arange(count)
    share = np.stack([_shares(phase, targets) for phase in phases])
    level = _levels(phases, rounds, steps)
    stay = np.stack([_stays(phase, rounds, targets) for phase in phases])
    price = _prices(stay, share, level[:, targets], steps)
    drift = np.zeros((nodes, count))
    cost = np.zeros((len(phases), count))
    for t, phase in enumerate(phases):
        drift[targets, each] += 2.0 * steps[t]
        absorbed = np.minimum(drift, level[t, :, None])
        absorbed[targets, each] = np.minimum(drift[targets, each], price[t])
        absorbed[phase.within] = drift[phase.within]
        together = np.flatnonzero((share[t] > 0.0) & (share[t] < 1.0 - _SLACK))
        if not len(together):
            cost[t] = np.einsum("wk,wk->k", absorbed, absorbed)
            drift = phase.average(drift - absorbed, rounds)
        else:
            rest = drift - absorbed
            who = targets[together]
            bare = drift[who, together]
            left, spread = _hide_together(phase, who, bare, share[t, together], level[t], price[t, together])
            absorbed[who, together] = 0.0
            absorbed[np.ix_(phase.hidden, together)] += spread
            cost[t] = np.einsum("wk,wk->k", absorbed, absorbed)
            # The shared drifts are multiples of one vector, so that they may cancel where they meet.
            both = phase.average(np.concatenate([rest, left], axis=1), rounds)
            drift = both[:, :count]
            drift[:, together] += np.abs(both[:, count:]) + _SLACK * bare
        # All that the observer was sent is the same in both worlds, hence also what it makes of it.
        drift[observer] = 0.0
    return np.cumsum(cost / (steps**2)[:, None], axis=0)


def _hide_together(
    phase: Phase, who: Nodes, drift: Doubles, share: Doubles, level: Doubles, price: Doubles
) -> tuple[Doubles, Doubles]:
    """Return (left, absorbed): the multiples of the targets' drifts that stay at all nodes, and what hidden ones hide.

    The projection q of the target shifts what the observer is sent by exactly as much as the target does. So does a
    mixture of it with the target alone, and the price of what is left decides which.
    """
    assert phase.basis is not None
    at = np.searchsorted(phase.hidden, who)
    column = np.arange(len(who))
    q = phase.basis.T @ phase.basis[:, at]
    remainder = -q
    remainder[at, column] += 1.0
    size = np.abs(remainder)
    worth = level[phase.hidden] @ size + (price - level[who]) * size[at, column]
    alone = np.minimum(1.0, worth / ((1.0 - share) * drift))
    remainder *= (1.0 - alone) * drift
    shift = (1.0 - alone) * q
    shift[at, column] += alone
    left = np.zeros((len(phase.degrees), len(who)))
    left[phase.hidden] = remainder
    return left, (np.abs(shift) + _SLACK) * drift
