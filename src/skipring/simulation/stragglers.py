"""Who is late beyond the law of delays: slow nodes, nodes that stay slow, nodes that die and return, lost links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import AnyInts, Floats, times_before
from ..delays import Delay
from ..errors import InvalidInput, require_positive

if TYPE_CHECKING:
    from ..data import NodeData
    from ..runs import RunFile


@dataclass(frozen=True, kw_only=True)
class Stragglers:
    """Departures from independent, identically distributed delays; by default there are none.

    Parameters
    ----------
    speeds : a factor for the delays of each node (one number per node), or nothing.
    slow_factor, become_slow, become_fast : a node is fast or slow; slow delays are longer by the factor; between two of
        its turns it changes state with these probabilities. It starts in its long-run state.
    die, revive : between two of its turns a node dies, or comes back, with these probabilities; the dead never answer.
        All start alive.
    lost_link : probability that a hop's offer or answer is lost.

    >>> Stragglers(become_slow=0.05, become_fast=0.2, slow_factor=20.0).identical
    False
    """

    speeds: Sequence[float] | None = None
    slow_factor: float = 1.0
    become_slow: float = 0.0
    become_fast: float = 1.0
    die: float = 0.0
    revive: float = 1.0
    lost_link: float = 0.0

    def __post_init__(self) -> None:
        require_positive("slow_factor", self.slow_factor)
        for name in ("become_slow", "become_fast", "die", "revive", "lost_link"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidInput(name, getattr(self, name), "a probability")
        if self.lost_link == 1.0:
            raise InvalidInput("lost_link", 1.0, "below 1: nobody would ever be reached")
        if self.speeds is not None and not all(speed > 0.0 for speed in self.speeds):
            raise InvalidInput("speeds", min(self.speeds), "above 0 for every node")

    def check(self, nodes: int) -> None:
        """Refuse speeds of more or fewer nodes than there are."""
        if self.speeds is not None and len(self.speeds) != nodes:
            raise InvalidInput("speeds", f"{len(self.speeds)} numbers", f"one for each of the {nodes} nodes")

    @property
    def identical(self) -> bool:
        """Whether delays are independent and identically distributed, as forecasts of privacy assume."""
        return self.speeds is None and not self._drifts and self.die == 0.0

    @property
    def _drifts(self) -> bool:
        return self.slow_factor != 1.0 and self.become_slow > 0.0

    @property
    def may_never_answer(self) -> bool:
        """Whether some hops have no answer at all, so that a timeout is needed."""
        return self.die > 0.0 or self.lost_link > 0.0


def stragglers_of(run: RunFile, data: NodeData) -> Stragglers:
    """Return the stragglers of a run file; a node that holds mostly the slow class has a speed of its own."""
    given = run.stragglers.model_dump(exclude={"slow_class", "class_factor", "availability"})
    slow = run.stragglers.slow_class
    if slow is None:
        return Stragglers(**given)
    require_positive("class_factor", run.stragglers.class_factor)
    if given["speeds"] is not None:
        raise InvalidInput.because("slow_class", slow, "give either speeds or slow_class, not both")
    held = np.add.reduceat(np.asarray(data.labels) == slow, data.start[:-1])
    if not held.any():
        raise InvalidInput("slow_class", slow, "the number of a class that some rows have")
    speeds = np.where(2 * held > data.sizes, run.stragglers.class_factor, 1.0)
    return Stragglers(**(given | {"speeds": speeds.tolist()}))


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
    if stragglers._drifts:
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
