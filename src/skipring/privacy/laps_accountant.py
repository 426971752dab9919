"""What a coalition of any size learns from laps: those that were planned, that happened, or that a node has opened."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from ..errors import LEAST_DELTA, InvalidInput, require_delta, require_integer, require_non_negative
from .accountant import ALL_OTHERS, ANOTHER_NODE, EACH_LAP, OUTSIDER, Guarantee, Unit, coalition
from .gaussian import GaussianAccountant, gdp_epsilon
from .laps import MOST_LAPS, PlannedLaps


class SeveralLaps(Protocol):
    """Laps of a run, before it or after it: what a coalition of each size learns, and who is meant by it."""

    @property
    def protects(self) -> Unit:
        """What is hidden."""

    @property
    def nodes(self) -> int:
        """The number of nodes."""

    @property
    def withstood(self) -> int:
        """How many colluding nodes the noise was chosen for."""

    @property
    def method(self) -> str:
        """What the accounting is called."""

    @property
    def whose(self) -> str:
        """Whose units they are about, in words."""

    def mu2(self, coalition: int, *, units: int | None = None) -> float:
        """Return mu^2 of the unit of which most is learned; or of a node that has `units` of them in a lap."""

    def tail(self, coalition: int, *, units: int | None = None) -> float:
        """Return what noise that has no values far out adds to each delta."""


class LapsAccountant(GaussianAccountant):
    """What a coalition learns about a unit in laps, planned ones or those that happened.

    `coalition` is how many nodes put together what they know; by default as many as the noise was chosen for. With 0 it
    is an outsider, who sees everything on the wire and each model.

    >>> from skipring.schedules import Laps
    >>> run = PlannedLaps(among=Laps(nodes=8, coalition=2), laps=20, noise_multiplier=33.4)
    >>> [round(LapsAccountant(run, coalition).epsilon(1e-5), 2) for coalition in (2, 7)]
    [1.0, 2.7]
    """

    def __init__(self, laps: SeveralLaps, coalition: int | None = None, *, units: int | None = None) -> None:
        self.laps = laps
        self.coalition = laps.withstood if coalition is None else coalition
        require_integer("coalition", self.coalition, 0, laps.nodes - 1)
        if units is not None:
            require_integer("units", units, 1, 10**9)
        self._units = units
        self._mu = math.sqrt(laps.mu2(self.coalition, units=units))
        self._tail = laps.tail(self.coalition, units=units)

    def _worst_mu(self) -> float:
        return self._mu

    @property
    def facts(self) -> dict[str, object]:
        """What is told of the accounting beside its guarantee."""
        return {}

    def with_noise(self, noise_multiplier: float) -> LapsAccountant:
        """Return the accountant of the same laps, still to come, with another noise."""
        assert isinstance(self.laps, PlannedLaps)
        return LapsAccountant(self.laps.with_noise(noise_multiplier), self.coalition, units=self._units)

    def epsilon(self, delta: float) -> float:
        """Return epsilon against the coalition."""
        require_delta(delta)
        if self._mu > 0.0 and not self._tail < 1.0:
            reason = "there is far too little noise for any delta, as noise has no values far out"
            raise InvalidInput.because("delta", delta, reason)
        if self._mu > 0.0 and not self._tail < delta:
            raise InvalidInput(
                "delta", delta, f"above {self._tail:.2g}: noise has no values far out, which costs so much"
            )
        return gdp_epsilon(self._mu, max(delta - self._tail, LEAST_DELTA)) if self._mu > 0.0 else 0.0

    def delta(self, epsilon: float) -> float:
        """Return delta against the coalition."""
        return min(1.0, super().delta(epsilon) + self._tail) if self._mu > 0.0 else 0.0

    def guarantee(self, delta: float, epsilon: float | None = None, *, units: int | None = None) -> Guarantee:
        """Return the epsilon at a delta (or one that is known to be kept) with all that it cannot be read without.

        It also says what holds against others. `units` is the most records or persons that a node has in a lap, for
        what is promised to a whole node.
        """
        first = self._one(delta, epsilon)
        return replace(first, also=tuple(self._further(first, units)))

    def _one(self, delta: float, epsilon: float | None = None) -> Guarantee:
        nodes, colluders = self.laps.nodes, self.coalition
        against = ANOTHER_NODE if colluders == 1 else coalition(colluders)
        against = OUTSIDER if colluders == 0 else ALL_OTHERS if colluders == nodes - 1 and nodes > 2 else against
        looks = "which put together what they know, and see" if colluders > 1 else "which sees"
        refused = None
        try:
            epsilon = self.epsilon(delta) if epsilon is None else epsilon
        except InvalidInput as refusal:
            refused = refusal.reason if self._tail >= 1.0 else f"delta {refusal.reason}"
        return Guarantee(
            protects=self.laps.protects if self._units is None else "node",
            whose=self.laps.whose,
            against=against,
            sees=f"{looks} everything on the wire, who took part in each lap, and every model",
            method=self.laps.method,
            delta=delta,
            epsilon=epsilon,
            refused=refused,
            assumptions=tuple(self._assumptions()),
        )

    def _assumptions(self) -> Iterator[str]:
        yield EACH_LAP
        if self.coalition < self.laps.nodes - 1:
            yield "pads look like random bits to all who do not have their keys"
        else:
            yield "its node's own share of the noise alone hides it"

    def _further(self, first: Guarantee, units: int | None) -> Iterator[Guarantee]:
        for colluders in (0, self.laps.nodes - 1):
            if colluders != self.coalition:
                yield LapsAccountant(self.laps, colluders)._one(first.delta)
        if units is not None and self.laps.protects != "node":
            yield LapsAccountant(self.laps, self.coalition, units=units)._one(first.delta)


def most_laps(run: PlannedLaps, epsilon: float, delta: float) -> int:
    """Return how many laps, equal ones with this noise, keep a budget together with the tries that are reserved.

    >>> from skipring.schedules import Laps
    >>> most_laps(PlannedLaps(among=Laps(nodes=8), laps=1, noise_multiplier=33.4), epsilon=1.0, delta=1e-5)
    20
    """
    require_non_negative("epsilon", epsilon)

    def kept(laps: int) -> bool:
        account = LapsAccountant(replace(run, laps=laps, weights=()))
        return account.delta(epsilon) <= delta

    require_delta(delta)
    if not kept(1):
        raise InvalidInput("noise_multiplier", run.noise_multiplier, "larger: not even one lap keeps the budget")
    found, above = 1, MOST_LAPS + 1  # the first is kept, the last is more than there may be
    while above - found > 1:
        middle = (found + above) // 2
        found, above = (middle, above) if kept(middle) else (found, middle)
    return found
