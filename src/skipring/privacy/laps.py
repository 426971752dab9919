"""What laps cost: private sums to which every node that is ready adds, each followed by the same step for all.

In a lap each participant adds the sum of its units' contributions, a share of noise, and pads that cancel in the total.
A coalition takes off its own contributions, shares and pads. What is left is the sum over the other participants, with
all of their noise. The pads between them are uniform on what adds up to 0, so nothing else is learned (docs/laps.md).
With h such participants whose shares have standard deviation sigma, a change of the sum by at most D costs

    mu^2 = (D^2 + d g^2 h^2 / 4) / (h sigma^2)

where g is the grid of the sum and d the number of its coordinates that the change can move. The second term is what it
costs to deal a whole number of grid steps to h nodes. It grows with h, and fewer of them suffice for the proof, so the
cost is the least over 1 to h.

What is made of the sums costs nothing: neither the model nor the step needs to be convex.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from .._arrays import Floats
from ..errors import InvalidInput, require_integer, require_non_negative, require_positive
from ..schedules import Laps
from .accountant import USUAL_UNIT, Unit
from .record import Protected

#: Bounds are raised by this much, which is more than rounding can take.
_UP = 1.0 + 1e-12
#: The grid of a sum is at most this, over the root of its coordinates, in units of what one unit contributes at most.
FINEST = 1e-6
#: Shares of noise are Gaussian up to this many standard deviations: a simulation's, which numpy draws, have no values
#: beyond 12.22, and those of nodes (`network.node.noise`) are beyond 16 coarser.
_REACH = 12.0
#: The most laps of a run.
MOST_LAPS = 10**7
#: Squares of such noise are numbers that a double holds.
_RANGE = (1e-100, 1e100)
#: As many coordinates as any sum may have, where nobody said how many.
MOST_COORDINATES = 10**10


def share_of_noise(
    mu: float, *, participants: int, coalition: int, sensitivity: float, grid: float = 0.0, coordinates: int = 0
) -> float:
    """Return the standard deviation of each participant's noise with which a lap costs mu against a coalition.

    >>> round(share_of_noise(0.5, participants=8, coalition=2, sensitivity=2.0), 4)
    1.633
    """
    require_positive("mu", mu)
    lap = Lap(
        participants=participants, sensitivity=sensitivity, share=1.0, grid=grid, coordinates=coordinates
    )  # it checks the rest
    require_integer("coalition", coalition, 0, participants - 1)
    return math.sqrt(lap.mu2(coalition)) / float(mu) * _UP


@dataclass(frozen=True, kw_only=True)
class Lap:
    """A lap whose sum was opened: all that its cost depends on.

    Parameters
    ----------
    participants : how many nodes added to the sum.
    sensitivity : how far one protected unit can move the sum, rounding to the grid included.
    share : the standard deviation of each participant's noise.
    grid, coordinates : the grid of the sum, and how many of its coordinates one unit can move; a grid of 0: none.

    >>> lap = Lap(participants=8, sensitivity=2.0, share=1.633)
    >>> [round(math.sqrt(lap.mu2(coalition)), 3) for coalition in (0, 2, 7)]
    [0.433, 0.5, 1.225]
    """

    participants: int
    sensitivity: float
    share: float
    grid: float = 0.0
    coordinates: int = 0

    def __post_init__(self) -> None:
        require_integer("participants", self.participants, 1, 10**7)
        require_positive("sensitivity", self.sensitivity)
        require_positive("share", self.share)
        require_non_negative("grid", self.grid)
        require_integer("coordinates", self.coordinates, 0)
        if self.grid > 0.0 and self.coordinates == 0:
            raise InvalidInput("coordinates", 0, "at least 1: a sum on a grid has some")

    def mu2(self, coalition: int) -> float:
        """Return mu^2 of this lap against a coalition, as many of whose members took part as can have."""
        honest, step2 = self._honest(coalition), float(self.coordinates) * float(self.grid) ** 2
        moved = float(self.sensitivity) ** 2 + 0.25 * step2 * honest**2
        return moved / (honest * float(self.share) ** 2) * _UP

    def moves_a_share(self, coalition: int) -> float:
        """Return by how many deviations a change moves one share, where the others hide it together."""
        dealt = float(self.sensitivity) / self._honest(coalition) + float(self.grid)
        return dealt / float(self.share) * _UP

    def _honest(self, coalition: int) -> int:
        """Return how many nodes hide a change: not more than the grid leaves something to."""
        require_integer("coalition", coalition, 0)
        honest = max(1, self.participants - coalition)
        step = math.sqrt(float(self.coordinates)) * float(self.grid)
        # The cost falls up to this number of nodes, and rises after it.
        return min(honest, max(1, int(2.0 * self.sensitivity / step))) if step > 1e-150 else honest


@dataclass(frozen=True, kw_only=True)
class PlannedLaps:
    """Laps that have not happened yet: everything that their privacy depends on.

    Parameters
    ----------
    among, laps : the nodes that take part, with the coalition to withstand and the least of a lap; how many laps.
    noise_multiplier : noise std of a lap's sum that the coalition cannot take off, over the most that one unit
        contributes: a lap costs mu = 2 / noise multiplier, with any participants.
    weights : how mu^2 is divided among the laps; equal parts if empty.
    extra : how many laps may be opened in vain, each at the price of the dearest.
    floor : the least noise of one node's share, over the most that one unit contributes: what is left if all others
        collude.
    unit : what is hidden, and into how many parts each node may have dealt its units. Lap i uses part i mod that
        number.
    sites : at how many nodes one person may have rows.

    >>> from skipring.schedules import Laps
    >>> run = PlannedLaps(among=Laps(nodes=8, coalition=2), laps=20, noise_multiplier=36.0)
    >>> [round(math.sqrt(run.mu2(others)), 4) for others in (0, 1, 2, 3, 7)]
    [0.2152, 0.23, 0.2485, 0.3043, 0.6086]
    """

    whose: ClassVar[str] = "any node"

    among: Laps
    laps: int
    noise_multiplier: float
    weights: tuple[float, ...] = ()
    extra: int = 0
    floor: float = 0.0
    unit: Protected = field(default_factory=Protected)
    sites: int = 1
    dimension: int = MOST_COORDINATES

    def __post_init__(self) -> None:
        require_integer("laps", self.laps, 1, MOST_LAPS)
        require_positive("noise_multiplier", self.noise_multiplier)
        if not _RANGE[0] <= self.noise_multiplier <= _RANGE[1]:
            raise InvalidInput("noise_multiplier", self.noise_multiplier, f"from {_RANGE[0]:g} to {_RANGE[1]:g}")
        if self.weights and len(self.weights) != self.laps:
            raise InvalidInput("weights", f"{len(self.weights)} numbers", f"one for each of {self.laps} laps")
        for weight in self.weights:
            require_positive("weights", weight)
        require_integer("extra", self.extra, 0, 10**6)
        require_non_negative("floor", self.floor)
        require_integer("sites", self.sites, 1)
        if self.sites > self.nodes:
            raise InvalidInput("sites", self.sites, f"at most nodes = {self.nodes}")
        if self.sites > 1 and self.protects != "person":
            raise InvalidInput.because("sites", self.sites, f"is for persons, and a {self.protects} is protected")
        require_integer("dimension", self.dimension, 1, MOST_COORDINATES)

    @property
    def protects(self) -> Unit:
        """What is hidden."""
        return self.unit.protects

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.among.nodes

    @property
    def withstood(self) -> int:
        """How many colluding nodes the noise was chosen for."""
        return self.among.withstood

    @property
    def method(self) -> str:
        """What the accounting is called."""
        return "laps"

    @property
    def keywords(self) -> dict[str, Any]:
        """What is told of these laps beside whom they protect."""
        return {
            "schedule": self.among.name,
            "nodes": self.nodes,
            "laps": self.laps,
            "coalition": self.withstood,
            "least_nodes": self.among.needed,
            "extra": self.extra,
            "floor": self.floor,
            "noise_multiplier": self.noise_multiplier,
            "noise_beside_a_server": self.noise_beside_a_server,
        }

    @property
    def noise_beside_a_server(self) -> float:
        """How many times more noise a sum over all nodes has than a trusted server would add."""
        return math.sqrt(self.nodes) * max(
            1.0 / math.sqrt(self.nodes - self.withstood), self.floor / self.noise_multiplier
        )

    def tail(self, coalition: int, *, units: int | None = None) -> float:
        """Return what noise that has no values far out adds to each delta.

        With h nodes to hide a change, a lap that costs mu moves each of their shares by mu / sqrt(h), and a grid step.
        """
        most, least = float(self._costs(coalition).max()), self._least_honest(coalition)
        moved = math.sqrt(most / least) * (1.0 + FINEST * self.nodes)
        numbers = float(self.dimension) * self.nodes * float(self.laps + self.extra)
        return tail_of_shares(numbers, moved * (self.sites if units is None else units))

    def with_noise(self, noise_multiplier: float) -> PlannedLaps:
        """Return the same laps with another noise."""
        return replace(self, noise_multiplier=noise_multiplier)

    @cached_property
    def _mu2s(self) -> Floats:
        """mu^2 of each lap against the coalition that the noise was chosen for."""
        each = (2.0 / float(self.noise_multiplier)) ** 2
        weights = np.ones(self.laps) if not self.weights else np.asarray(self.weights, dtype=np.float64)
        return each * weights / weights.mean() * _UP

    def mu2(self, coalition: int, *, units: int | None = None) -> float:
        """Return mu^2 of the unit of which most is learned; or of a node that has `units` of them in a lap."""
        costs = self._costs(coalition)
        charged = max(
            math.fsum(costs[part::parts])
            for parts in (self.unit.parts if units is None else (1,))  # all of a node's units together are in every lap
            for part in range(min(parts, self.laps))
        )
        charged += self.extra * float(costs.max())
        return charged * (self.sites if units is None else units) ** 2 * _UP

    def _least_honest(self, coalition: int) -> int:
        """Return how many nodes are left to hide a change where as few take part as may."""
        return max(1, self.among.needed - coalition)

    def _costs(self, coalition: int) -> Floats:
        """Return the most that each lap may cost against a coalition."""
        require_integer("coalition", coalition, 0, self.nodes - 1)
        costs = self._mu2s * self._most(coalition)
        if self.floor > 0.0:  # with a floor, shares are never smaller than it
            honest = self._least_honest(coalition)
            costs = np.minimum(costs, (2.0 / float(self.floor)) ** 2 / honest * _on_grid(honest) * _UP)
        return costs

    def _most(self, coalition: int) -> float:
        """Return how much more a lap tells a coalition of this size than the one that its noise was chosen for.

        With p participants the shares of p - c nodes are enough, and p - c' of them are left. The cost is largest at
        one end of what p can be. For fewer colluders that is p = n. For more of them it is where the target alone is
        honest, or where as few take part as may. The grid costs a little, which grows with the nodes that share a
        change.
        """
        withstood = self.withstood
        if coalition < withstood:
            honest = self.nodes - coalition
            return min(1.0, (self.nodes - withstood) / honest * _on_grid(honest))
        participants = max(self.among.needed, coalition + 1)
        return (participants - withstood) / max(1, participants - coalition)


@dataclass(frozen=True, kw_only=True, eq=False)
class LapsTranscript:
    """Laps that happened: who took part in each, and what it was.

    Parameters
    ----------
    nodes : number of nodes; they are numbered from 0.
    opened : the laps whose sums were opened, also those that were opened in vain.
    took_part : for each of them and each node, whether it was among the participants.
    numbers : the lap's number, from 0: a lap that is tried again keeps it. By default 0, 1, 2, ...
    withstood : how many colluding nodes the noise was chosen for.
    parts : into how many parts each node has dealt its units; lap i uses part i mod that number.
    protects : what is hidden.

    >>> lap = Lap(participants=3, sensitivity=2.0, share=10.0)
    >>> run = LapsTranscript(nodes=4, opened=(lap, lap), took_part=[[1, 1, 1, 0], [1, 0, 1, 1]], withstood=1)
    >>> run.by_node(1).round(4)
    array([0.04, 0.02, 0.04, 0.02])
    """

    whose: ClassVar[str] = "any node"

    nodes: int
    opened: Sequence[Lap]
    took_part: ArrayLike
    withstood: int
    numbers: ArrayLike | None = None
    parts: ArrayLike = 1
    protects: Unit = USUAL_UNIT
    dimension: int = MOST_COORDINATES
    _took: NDArray[np.bool_] = field(init=False)
    _numbers: NDArray[np.int64] = field(init=False)
    _parts: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        require_integer("nodes", self.nodes, 2, 10**7)
        require_integer("withstood", self.withstood, 0, self.nodes - 1)
        took = np.asarray(self.took_part).astype(np.bool_)
        if took.shape != (len(self.opened), self.nodes):
            given = f"an array of shape {took.shape}"
            raise InvalidInput("took_part", given, f"one of shape {(len(self.opened), self.nodes)}")
        said = np.array([lap.participants for lap in self.opened], dtype=np.int64)
        if not np.array_equal(took.sum(axis=1), said):
            raise InvalidInput("took_part", "another number of nodes", "as many as each lap had participants")
        numbers = np.arange(len(self.opened)) if self.numbers is None else np.asarray(self.numbers, dtype=np.int64)
        if numbers.shape != said.shape or (len(numbers) and numbers.min() < 0):
            raise InvalidInput("numbers", numbers.tolist(), f"a number of at least 0 for each of {len(said)} laps")
        parts = np.broadcast_to(np.asarray(self.parts, dtype=np.int64), self.nodes)
        if parts.min() < 1:
            raise InvalidInput("parts", int(parts.min()), "at least 1 for each node")
        if self.protects not in get_args(Unit):
            raise InvalidInput("protects", self.protects, "one of " + ", ".join(get_args(Unit)))
        if self.protects == "node" and parts.max() > 1:
            raise InvalidInput.because("parts", int(parts.max()), "a node contributes to each lap")
        for name, value in (("_took", took), ("_numbers", numbers), ("_parts", parts)):
            object.__setattr__(self, name, value)

    @property
    def method(self) -> str:
        """What the accounting is called."""
        return "laps, transcript"

    def tail(self, coalition: int, *, units: int | None = None) -> float:
        """Return what noise that has no values far out adds to each delta."""
        moved = max((lap.moves_a_share(coalition) for lap in self.opened), default=0.0)
        return tail_of_shares(
            float(self.dimension) * self.nodes * len(self.opened), moved * (1 if units is None else units)
        )

    def by_node(self, coalition: int, *, units: int | None = None) -> Floats:
        """Return mu^2 about each node's units against a coalition, of those in the part about which most is known."""
        require_integer("coalition", coalition, 0, self.nodes - 1)
        costs = np.array([lap.mu2(coalition) for lap in self.opened])
        found = np.zeros(self.nodes)
        for parts in (1,) if units is not None else np.unique(self._parts):
            of_these = self._took & ((self._parts == parts) | (units is not None))
            for part in range(min(int(parts), 1 + int(self._numbers.max(initial=0)))):
                charged = costs @ (of_these & (self._numbers % parts == part)[:, None])
                found = np.maximum(found, charged)
        worst: Floats = found * (1.0 + 1e-15 * len(costs)) * (1 if units is None else units) ** 2
        return worst

    def mu2(self, coalition: int, *, units: int | None = None) -> float:
        """Return mu^2 of the unit of which most is learned; or of a node that has `units` of them in a lap."""
        return float(self.by_node(coalition, units=units).max())


def _on_grid(honest: int) -> float:
    """Return how much more a lap costs where nodes share a change in whole steps of the coarsest grid."""
    return 1.0 + (FINEST * honest) ** 2 / 16.0


def tail_of_shares(numbers: float, mu: float) -> float:
    """Return the mass that Gaussian numbers, shifted by at most mu, have where the noise has no values.

    A share has no values beyond `_REACH` standard deviations, and a change moves each share by at most mu of them.
    """
    if mu == 0.0 or numbers == 0.0:
        return 0.0
    if mu >= _REACH:
        return 1.0
    return min(1.0, 2.0 * numbers * math.exp(float(log_ndtr(mu - _REACH))))
