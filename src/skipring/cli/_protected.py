"""Whom the epsilon of a calculator protects: as options, in JSON and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._numbers import ordinal
from ..errors import InvalidInput, require_integer
from ._options import PER_PERSON

if TYPE_CHECKING:
    from ..privacy import PlannedRun, Unit
    from ._options import Account

#: The most parts that are accounted for.
_MOST_PARTS = 10**6
#: The most rows of a node.
_MOST_ROWS = 10**12


@dataclass(frozen=True, kw_only=True)
class Protected:
    """Whom an epsilon protects, and how many rows an update takes.

    `parts` is the number of a node's turns after which a unit's comes round again, and `units` the most units of an
    update; None where nobody said how many. Both are 1 for nodes, for which the rows of an update do not matter.
    `of_a_node` is how many units a node has, where that is known.
    """

    unit: Unit
    batch: int | None = None
    rows_of_one: int | None = None
    parts: int = 1
    units: int | None = 1
    of_a_node: int | None = 1

    def facts(self, noise_multiplier: float) -> dict[str, Any]:
        """Return what JSON says of an update beside what a guarantee does.

        The noise on an update's gradient is given in units of the most that one protected unit can contribute.
        """
        facts: dict[str, Any] = {"batch": self.batch, "parts": self.parts}
        if self.rows_of_one is not None:
            facts[PER_PERSON] = self.rows_of_one
        known = self.unit == "node" or self.batch is not None
        return facts | {"noise_over_gradient_bound": noise_multiplier / (self.batch or 1) if known else None}

    @property
    def update_rows(self) -> list[tuple[str, str]]:
        """What a table says of an update; nothing for nodes."""
        if self.unit == "node":
            return []
        if self.batch is None:
            often = "" if self.parts == 1 else f"one part of {self.parts} of "
            return [("rows per update", f"{often}all rows of a node")]
        of = f", of a person at most {self.rows_of_one}" if self.rows_of_one is not None else ""
        turns = "each at every turn" if self.parts == 1 else f"each at every {ordinal(self.parts)} turn"
        return [("rows per update", f"at most {self.batch}{of}; {turns}")]

    def noise_note(self, noise_multiplier: float) -> str:
        """Say what a noise multiplier comes to on the gradient of an update."""
        if self.unit == "node":
            return "Noise std on the gradient: noise multiplier x gradient bound."
        if self.batch is None:
            return "Noise std on the gradient: noise multiplier x gradient bound / rows per update (--batch, --rows)."
        share = noise_multiplier / self.batch
        words = (
            "Noise std on the gradient: noise multiplier x gradient bound / rows per update ="
            f" {share:.4g} x gradient bound"
        )
        if self.rows_of_one is None:
            return words + "."
        return (
            f"{words} where a person's rows are bounded together (networks), and x rows per person ="
            f" {share * self.rows_of_one:.4g} x gradient bound where each row is (linear models)."
        )


def protected(asked: Account) -> Protected:
    """Return whom the options protect; refuse what does not go together."""
    protects, batch, rows, parts = asked.protects, asked.batch, asked.rows, asked.parts
    per_person = asked.rows_of_one
    if protects == "node":
        if parts is not None:
            reason = "a node contributes at each of its turns; rotation goes with --protects record or person"
            raise InvalidInput.because("parts", parts, reason)
        for parameter, given in (("batch", batch), (PER_PERSON, per_person), ("rows", rows)):
            if given is not None:
                reason = "a node's noise does not depend on its rows; it goes with --protects record or person"
                raise InvalidInput.because(parameter, given, reason)
        return Protected(unit="node")

    if batch is None and rows is None:  # an update takes all rows (or a part of them), however many those are
        if per_person is not None and protects != "person":
            raise InvalidInput.because(PER_PERSON, per_person, "goes with --protects person")
        require_integer("parts", 1 if parts is None else parts, 1, _MOST_PARTS)
        return Protected(unit=_unit(protects), rows_of_one=per_person, parts=parts or 1, units=None, of_a_node=None)

    from ..learning import Protection  # only where rows matter: it loads more than the accountants do

    if protects == "person" and per_person is None:
        raise InvalidInput.because(PER_PERSON, "missing", "say how many rows a person has at most")
    if rows is not None:
        require_integer("rows", rows, 1, _MOST_ROWS)
    batch = rows if batch is None else batch
    agreed = Protection(_unit(protects), batch, 1 if per_person is None else per_person)
    if per_person is not None and protects != "person":  # also where it is 1
        raise InvalidInput.because(PER_PERSON, per_person, "goes with --protects person")
    if parts is not None:
        if rows is not None:
            raise InvalidInput.because("parts", parts, "follows from --rows; give one of the two")
        require_integer("parts", parts, 1, _MOST_PARTS)
    elif rows is not None:
        require_integer("rows", rows, 1, _MOST_PARTS * agreed.units_per_update * agreed.rows_of_one)
        parts = agreed.parts(-(-rows // agreed.rows_of_one))
    return Protected(
        unit=agreed.unit,
        batch=batch,
        rows_of_one=per_person,
        parts=1 if parts is None else parts,
        units=agreed.units_per_update,
        of_a_node=None if rows is None else -(-rows // agreed.rows_of_one),
    )


def _unit(protects: str) -> Unit:
    if protects not in ("record", "person", "node"):
        raise InvalidInput("protects", protects, "record, person or node")
    return protects  # type: ignore[return-value] # it was checked


def delta_note(unit: Unit, of_a_node: int | None, nodes: int, delta: float) -> list[str]:
    """Warn of a delta above one over the number of protected units of all nodes; each node has one at least."""
    from ..privacy import large_delta

    found = large_delta(delta, unit, nodes * (of_a_node or 1), at_least=of_a_node is None)
    return [] if found is None else [f"{found[0].upper()}{found[1:]}."]


def same_parts(run: PlannedRun) -> list[str]:
    """Say whom a number that rests on rotation is about: no number of parts is the worst for all runs."""
    notes, every = [], run.unit.every
    if every > 1 and run.order.schedule.has_rounds():  # where it is not counted
        notes.append(
            f"It is about nodes whose rows take {every} turns: where nodes differ, ask for each number of parts (1"
            " if all rows fit into an update); the largest epsilon holds."
        )
    if every > (turns := -(-run.steps // run.nodes)):
        notes.append(
            f"Some rows are never used: they take {every} turns, and a node has {turns}; take more rows per update,"
            " or more steps."
        )
    return notes
