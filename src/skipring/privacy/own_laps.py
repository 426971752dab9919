"""What laps have told about one node so far: the account that it keeps of itself, and that keeps a budget.

A node charges a lap when it opens its mask, and refuses to take part where the charge would exceed its budget. The cost
of a lap may depend on all that was seen before: laps with other sums, other noise or other participants share one
budget. What they cost adds up, as long as the node stops before the sum exceeds what was agreed (docs/laps.md).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from ..errors import InvalidInput, require_integer, require_non_negative, require_positive
from .accountant import USUAL_UNIT, Unit
from .laps import MOST_COORDINATES, Lap, PlannedLaps, tail_of_shares

#: Sums of costs are raised a little, which is more than rounding can take.
_UP = 1.0 + 2.0**-50


@dataclass(kw_only=True)
class OwnLaps:
    """The laps that a node has opened, and whether it may open another.

    Parameters
    ----------
    nodes : number of nodes.
    withstood : how many colluding nodes the noise is chosen for.
    budget, most_tail : the most mu^2 that a unit's laps may cost together, and the most delta that is for noise without
        values far out; infinity and 1 where there is no budget. `within` has both from what was planned.
    parts : into how many parts the node has dealt its units; each lap uses one of them.
    protects : what is hidden.
    sites : at how many nodes one person may have rows. A lap in which k of its nodes take part costs it k^2 times as
        much, at most `sites` times k. So it is hidden if the laps of each node, times sites^2, keep the budget.
    dimension : how many numbers the longest sum has.

    >>> own = OwnLaps(nodes=4, withstood=1, budget=0.1)
    >>> lap = Lap(participants=4, sensitivity=2.0, share=6.0)
    >>> while own.has_room(lap):
    ...     own.open(lap)
    >>> own.opened, round(own.mu2(1), 4), round(own.mu2(3), 4)
    (2, 0.0741, 0.2222)
    """

    whose: ClassVar[str] = "this node"

    nodes: int
    withstood: int
    budget: float = math.inf
    most_tail: float = 1.0
    parts: int = 1
    protects: Unit = USUAL_UNIT
    sites: int = 1
    dimension: int = MOST_COORDINATES
    _laps: Counter[tuple[Lap, int]] = field(default_factory=Counter, repr=False)

    def __post_init__(self) -> None:
        require_integer("nodes", self.nodes, 2, 10**7)
        require_integer("withstood", self.withstood, 0, self.nodes - 1)
        require_integer("parts", self.parts, 1, 10**6)
        require_integer("sites", self.sites, 1, self.nodes)
        require_integer("dimension", self.dimension, 1, MOST_COORDINATES)
        if self.budget != math.inf:
            require_positive("budget", self.budget)
        require_non_negative("most_tail", self.most_tail)
        if self.protects == "node" and self.parts > 1:
            raise InvalidInput.because("parts", self.parts, "a node contributes to each lap")

    @classmethod
    def within(cls, run: PlannedLaps, parts: int = 1) -> OwnLaps:
        """Return the account of a node that keeps what was planned, its units dealt into this many parts."""
        return cls(
            nodes=run.nodes,
            withstood=run.withstood,
            budget=run.mu2(run.withstood),
            most_tail=run.tail(run.withstood),
            parts=parts,
            protects=run.protects,
            sites=run.sites,
            dimension=run.dimension,
        )

    @property
    def method(self) -> str:
        """What the accounting is called."""
        return "laps, a node's own"

    @property
    def opened(self) -> int:
        """How many laps were opened, also those that were opened in vain."""
        return self._laps.total()

    def has_room(self, lap: Lap, part: int = 0, *, tries: int = 1) -> bool:
        """Return whether a lap with this part of the units, opened so often at most, stays within the budget."""
        self._require(lap, part)
        require_integer("tries", tries, 1)
        more = OwnLaps(
            **{name: value for name, value in vars(self).items() if name != "_laps"}, _laps=self._laps.copy()
        )
        more._laps[lap, part] += tries
        return more.mu2(self.withstood) <= self.budget and more.tail(self.withstood) <= self.most_tail

    def open(self, lap: Lap, part: int = 0) -> None:
        """Charge a lap; it was opened, so it counts whether or not there was room."""
        self._require(lap, part)
        self._laps[lap, part] += 1

    def mu2(self, coalition: int, *, units: int | None = None) -> float:
        """Return mu^2 of the unit of which most was learned; or of all of the node's, with `units` of them in a lap."""
        require_integer("coalition", coalition, 0, self.nodes - 1)
        if units is not None:
            return _sum_of(self._laps, None, coalition) * float(units) ** 2 * _UP
        used = {part for _, part in self._laps}
        return max((_sum_of(self._laps, part, coalition) for part in used), default=0.0) * float(self.sites) ** 2

    def tail(self, coalition: int, *, units: int | None = None) -> float:
        """Return what noise that has no values far out adds to each delta."""
        moved = max((lap.moves_a_share(coalition) for lap, _ in self._laps), default=0.0)
        numbers = float(self.dimension) * self.nodes * self.opened
        return tail_of_shares(numbers, moved * (self.sites if units is None else units))

    def _require(self, lap: Lap, part: int) -> None:
        require_integer("part", part, 0, self.parts - 1)
        if lap.participants > self.nodes:
            raise InvalidInput("participants", lap.participants, f"at most nodes = {self.nodes}")


def _sum_of(laps: Counter[tuple[Lap, int]], part: int | None, coalition: int) -> float:
    """Return mu^2 of the laps that used a part, or of all."""
    return math.fsum(times * lap.mu2(coalition) for (lap, used), times in laps.items() if part in (None, used)) * _UP
