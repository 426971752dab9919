"""Who is late beyond the law of delays: slow nodes, nodes that stay slow, nodes that die and return, lost links."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import AnyInts, Floats, times_before
from ..delays import Delay
from ..errors import InvalidInput
from ..runs import RunFile, Stragglers

if TYPE_CHECKING:
    from ..data import NodeData


def stragglers_of(run: RunFile, data: NodeData) -> Stragglers:
    """Return the stragglers of a run file; a node that holds mostly the slow class has a speed of its own."""
    given = run.stragglers
    if given.slow_class is None:
        return given
    if given.speeds is not None:
        raise InvalidInput.because("slow_class", given.slow_class, "give either speeds or slow_class, not both")
    held = np.add.reduceat(np.asarray(data.labels) == given.slow_class, data.start[:-1])
    if not held.any():
        raise InvalidInput("slow_class", given.slow_class, "the number of a class that some rows have")
    speeds = np.where(2 * held > data.sizes, given.class_factor, 1.0)
    return given.model_copy(update={"speeds": speeds.tolist()})


class Drawn(NamedTuple):
    """What is drawn for each hop of a path: how long its node takes to be ready, and then to compute on a full batch.

    It may be dead, or its offer or answer lost.
    """

    path: AnyInts
    delays: Floats
    computing: Floats
    dead: NDArray[np.bool_]
    lost: NDArray[np.bool_]

    @property
    def answers(self) -> Floats:
        """How long each hop's node takes to answer; infinity means no answer."""
        return np.where(self.dead | self.lost, np.inf, self.delays)


def draw_hops(
    delay: Delay,
    path: AnyInts,
    nodes: int,
    stragglers: Stragglers,
    rng: np.random.Generator,
    compute: Delay | None = None,
) -> Drawn:
    """Draw what every hop of a path meets; without `compute`, nodes compute in no time."""
    hops = len(path)
    delays = delay.at_turns(path, rng)
    dead, lost, factors = np.zeros(hops, np.bool_), np.zeros(hops, np.bool_), np.ones(hops)
    if stragglers.speeds is not None:
        stragglers.check(nodes)
        factors = np.asarray(stragglers.speeds, np.float64)[path]
        delays = delays * factors
    if stragglers.drifts:
        stationary = stragglers.become_slow / (stragglers.become_slow + stragglers.become_fast)
        slow = _two_states(path, nodes, stationary, stragglers.become_slow, stragglers.become_fast, rng)
        delays = np.where(slow, delays * stragglers.slow_factor, delays)
        factors = np.where(slow, factors * stragglers.slow_factor, factors)
    if stragglers.die > 0.0:
        dead = _two_states(path, nodes, 0.0, stragglers.die, stragglers.revive, rng)
    if stragglers.lost_link > 0.0:
        lost = rng.random(hops) < stragglers.lost_link
    computing = np.zeros(hops) if compute is None else compute.at_turns(path, rng) * factors
    return Drawn(path, delays, computing, dead, lost)


def _two_states(
    path: AnyInts, nodes: int, first: float, enter: float, leave: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Return for each hop whether its node is in the second state, which it may enter or leave between its turns."""
    # All nodes' k-th visits are moved at once.
    visit = times_before(path)
    by_visit = np.argsort(visit, kind="stable")
    ends = np.cumsum(np.bincount(visit))
    state = rng.random(nodes) < first
    result = np.empty(len(path), dtype=np.bool_)
    begin = 0
    for end in ends:
        hops = by_visit[begin:end]
        who = path[hops]
        if begin:
            u = rng.random(len(hops))
            state[who] = np.where(state[who], u >= leave, u < enter)
        result[hops] = state[who]
        begin = end
    return result
