"""Whom the noise protects (a record, a person or a node), and which rows of a node an update takes for that.

All agree on B (`batch`, the rows that an update takes at most) before a run. For records and persons an update is

    G = (1/B) x the sum of what each unit contributes,    noise of z x (the most that one unit can contribute) / B

so every record counts the same at each node, and is protected by the same noise. A node with fewer rows uses all of
them; their sum is still divided by B. A node with more deals its rows once into parts of at most B, and at its turn
number r (skipped or not) it uses part r modulo their number. With k parts, a unit then contributes at every k-th turn
only. For nodes G is the mean over the rows, at most as long as the gradient bound, and a batch is drawn anew for each
update.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._arrays import AnyInts
from ..errors import InvalidInput, require_integer
from ..privacy import Unit
from .linear import LinearModel
from .networks import NeuralModel

#: The stream of random numbers that deals a node's rows into parts: the same in a simulation and at the node.
_PARTS = 2**32 - 5


#: What becomes of rows that are too many of one person.
FIRST_ROWS_ONLY = "of each person the first data.rows_per_person are used"


def rows_of_one(unit: Unit, given: int | None) -> int:
    """Return the most rows of one person, or 1 for any other unit, for which nothing may be given."""
    if unit == "person" and given is None:
        reason = "persons are protected: say how many rows of a person are used at most, without looking at the data"
        raise InvalidInput.because("rows_per_person", "missing", reason)
    if unit != "person" and given is not None:
        raise InvalidInput.because("rows_per_person", given, f"is for persons, and what is protected is a {unit}")
    return 1 if given is None else given


@dataclass(frozen=True)
class Protection:
    """Whom the noise protects, and how many rows an update takes.

    Parameters
    ----------
    unit : ``record`` (one row), ``person`` (all rows of one person) or ``node`` (all rows of a node).
    batch : the most rows of an update, the same for all nodes. For a node None means all of its rows.
    rows_per_person : no person has more rows than this in a node's training rows.

    >>> Protection(unit="record", batch=100).divisor(7), Protection(unit="node").divisor(7)
    (100, 7)
    """

    unit: Unit
    batch: int | None = None
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        if self.unit not in ("record", "person", "node"):
            raise InvalidInput("protects", self.unit, "record, person or node")
        require_integer("rows_per_person", self.rows_per_person, 1)
        if self.batch is not None:
            require_integer("batch", self.batch, 1)
        elif self.unit != "node":
            reason = f"all nodes must agree on the most rows of an update, since a {self.unit} is protected"
            raise InvalidInput.because("batch", "missing", reason)
        if self.unit != "person" and self.rows_per_person != 1:
            raise InvalidInput.because("rows_per_person", self.rows_per_person, "needs persons as what is protected")
        if self.unit == "person" and self.batch is not None and self.batch < self.rows_per_person:
            reason = f"a person's rows must fit into one update, and may be {self.rows_per_person}"
            raise InvalidInput.because("batch", self.batch, reason)

    def divisor(self, rows: int) -> int:
        """Return what the sum over the rows of an update is divided by, if it takes these rows."""
        return rows if self.unit == "node" or self.batch is None else self.batch

    def contribution(self, model: LinearModel | NeuralModel) -> float:
        """Return the most that one unit can contribute to the sum (for nodes: to the mean) of an update."""
        rows = self.rows_per_person if model.bounds_rows else 1
        return rows * model.gradient_bound

    def noise_std(self, model: LinearModel | NeuralModel, noise_multiplier: float) -> float:
        """Return the standard deviation of the noise on an update's gradient."""
        return noise_multiplier * self.contribution(model) / self.divisor(1)

    def parts(self, units: int) -> int:
        """Return how many parts a node with this number of units (for nodes: any) has."""
        return 1 if self.unit == "node" else -(-units // self.units_per_update)

    @property
    def rows_of_one(self) -> int:
        """The most rows of one unit, where that is a record or a person."""
        return self.rows_per_person

    @property
    def units_per_update(self) -> int:
        """The most units that an update takes."""
        return self.divisor(1) // self.rows_per_person


def parts_stream(seed: int, node: int) -> np.random.Generator:
    """Return the random numbers that deal a node's rows into parts. They are no secret: no accountant rests on them."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PARTS, node)))


def deal_parts(
    rows: int, protection: Protection, rng: np.random.Generator, persons: AnyInts | None = None
) -> list[AnyInts]:
    """Deal a node's rows into parts that its turns rotate through; all rows of a person lie in one part.

    Which unit lies in which part depends on how many units there are, and on chance. It never depends on what the rows
    say, nor where they stand. Nor does it on how many rows a person has: each has room for as many as a person may
    have. Persons are taken in the order of their numbers: who is in the data is public, and what their rows say is not.

    >>> [len(part) for part in deal_parts(10, Protection(unit="record", batch=4), np.random.default_rng(1))]
    [4, 3, 3]
    """
    if protection.unit == "node":
        return [np.arange(rows)]
    if protection.unit == "record":
        unit_of: AnyInts = np.arange(rows)
    elif persons is None or len(persons) != rows:
        raise InvalidInput.because("person", "missing", "persons are protected, so every row must say whose it is")
    else:
        unit_of = np.unique(persons, return_inverse=True)[1]
        if (most := int(np.bincount(unit_of).max(initial=0))) > protection.rows_per_person:
            raise InvalidInput("rows_per_person", protection.rows_per_person, f"at least {most}, which a person has")
    units = int(unit_of.max(initial=-1)) + 1
    count = max(1, protection.parts(units))
    order = rng.permutation(units) if count > 1 else np.arange(units)
    # Parts are alike in size, so that every turn of a node weighs about the same.
    part_of = np.empty(units, np.int64)
    for number, some in enumerate(np.array_split(order, count)):
        part_of[some] = number
    # One sort: to look for the rows of each part among all rows would take minutes for millions of rows.
    parts = part_of[unit_of]
    rows_of_parts = np.argsort(parts, kind="stable")
    return np.split(rows_of_parts, np.cumsum(np.bincount(parts, minlength=count))[:-1])


def unit_count(rows: int, protection: Protection, persons: AnyInts | None = None) -> int:
    """Return how many protected units a node with this number of rows has."""
    if protection.unit == "node":
        return 1
    return rows if persons is None or protection.unit == "record" else len(np.unique(persons))


def most_units(parts: list[AnyInts], protection: Protection, persons: AnyInts | None = None) -> int:
    """Return how many protected units the largest part has; 1 for nodes."""
    if protection.unit == "node":
        return 1
    if protection.unit == "record" or persons is None:
        return max(map(len, parts))
    return max(len(np.unique(persons[part])) for part in parts)


class Batches:
    """The rows of one update after the other: those of a turn's part, or for nodes all rows or some, drawn anew."""

    def __init__(
        self,
        rows: int,
        protection: Protection,
        rng: np.random.Generator,
        *,
        parts: list[AnyInts] | None = None,
    ) -> None:
        self._rows, self._batch, self._rng = rows, protection.batch or rows, rng
        self.parts = parts if protection.unit != "node" else None
        if protection.unit != "node" and parts is None:
            raise InvalidInput.because("parts", "missing", f"a {protection.unit} is protected, so rows are dealt")
        self._next: AnyInts | None = None

    def peek(self, turn: int) -> AnyInts:
        """Return the rows that `take` would."""
        if self.parts is not None:
            return self.parts[turn % len(self.parts)]
        if self._next is None:
            self.prepare()
        assert self._next is not None
        return self._next

    def prepare(self) -> None:
        """Draw the rows of the next update, where they are drawn."""
        if self.parts is not None:
            return
        if self._batch < self._rows:
            self._next = self._rng.choice(self._rows, self._batch, replace=False, shuffle=False)
        else:
            self._next = np.arange(self._rows)

    def take(self, turn: int) -> AnyInts:
        """Return the rows of an update at a node's turn number `turn`, the first being 0.

        Rows that are drawn are those that were prepared, if no update has taken them yet.
        """
        taken = self.peek(turn)
        self._next = None
        return taken
