"""What every accountant can be asked, and what its numbers claim: who is protected from whom, and by which argument."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

#: What is hidden: all data of a node, all rows of one person at a node, or one record of a node.
Unit = Literal["node", "person", "record"]
#: What is hidden where nobody says; to hide a whole node is asked for.
USUAL_UNIT: Unit = "record"
#: Which data sets nobody can tell apart: those in which one unit's data is replaced by any other. How many persons or
#: records a node has is the same in both, and may be known.
Relation = Literal["replace-one"]

#: What the noise of others may be counted under, and what holds without it.
AMPLIFIED = "the noise of others counts: the loss must be convex and smooth, with learning rate at most 2 / smoothness"
IN_FULL = "each update of the node counts in full, whatever the loss"

#: Who looks in view final, and where that is not enough.
OUTSIDER = "somebody outside the network who is shown the final model and nothing else, but may know the path"
ALONE = "it does not hold if the outsider and a node put together what they saw"

_WHAT: dict[Unit, str] = {
    "node": "all data of",
    "person": "all rows of any one person of",
    "record": "any one record of",
}
#: What the relation leaves out where the unit is less than a node.
_KNOWN: dict[Unit, tuple[str, ...]] = {
    "node": (),
    "person": ("how many persons each node has is public, and what is replaced is what their rows say",),
    "record": ("how many records each node has is public, and what is replaced is what they say",),
}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What an epsilon says: everything that a print-out needs beside the numbers.

    Parameters
    ----------
    protected, against : in words, whose data, and who looks and what they know.
    method : the accountant's name.
    view : what of the run an observer sees, in one word.
    assumptions : sentences without a full stop: what the claim rests on, and what it leaves out.
    stated_by : who states it, where it is not proven here; empty where it is.
    unit, relation : what is hidden (all data of a node, all rows of one of its persons, one of its records), and which
        data sets are neighbours.

    >>> Claim(protected="any node", against="any other node", method="tight", view="offered",
    ...       assumptions=("each update counts in full",), unit="node").sentence()
    'Protects all data of any node against any other node. Each update counts in full.'
    >>> Claim(protected="any node", against="any other node", method="tight", view="offered", assumptions=(),
    ...       unit="person").sentence().partition(".")[0]
    'Protects all rows of any one person of any node against any other node'
    """

    protected: str
    against: str
    method: str
    view: str
    assumptions: tuple[str, ...]
    stated_by: str = ""
    unit: Unit = USUAL_UNIT
    relation: Relation = "replace-one"

    def sentence(self) -> str:
        """Say it to people."""
        whose = f"{_WHAT[self.unit]} {self.protected}"
        first = f"{self.stated_by} as stated: {whose}," if self.stated_by else f"Protects {whose}"
        sentences = (f"{first} against {self.against}", *self.assumptions, *_KNOWN[self.unit])
        return " ".join(f"{words[0].upper()}{words[1:]}." for words in sentences)


def large_delta(delta: float, unit: Unit, units: int, *, at_least: bool = False) -> str | None:
    """Say so where delta is above 1 / units, the (least) number of units of all nodes; None where it is not.

    A mechanism that gives away one unit chosen at random, and hides nothing of it, keeps such a delta.

    >>> large_delta(1e-3, "record", 500) is None
    True
    >>> str(large_delta(1e-2, "record", 500)).partition(":")[0]
    'delta 0.01 is above 1 / 500, one over the number of records'
    """
    if delta * units <= 1.0:
        return None
    number = f"and there are {units} {unit}s at least" if at_least else f"one over the number of {unit}s"
    return (
        f"delta {delta:g} is above 1 / {units}, {number}: giving one of them away would keep it; choose a smaller one"
    )


@runtime_checkable
class Accountant(Protocol):
    """Says what a run costs, as (epsilon, delta) for either of the two; all numbers are upper bounds.

    Values outside of what the mathematics covers are refused. `delta` never falls with a smaller epsilon, nor `epsilon`
    with a smaller delta, and each is the other's inverse up to rounding.
    """

    @property
    def claim(self) -> Claim:
        """Who is protected from whom, and by which argument."""

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that goes with a delta."""

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta that goes with an epsilon."""

    def curve(self, epsilons: Iterable[float]) -> NDArray[np.floating[Any]]:
        """Return delta for each epsilon."""
