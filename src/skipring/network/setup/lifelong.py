"""What all runs have given away of one data set, told from the ledger that its owner keeps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ...errors import InvalidInput
from ...privacy import Guarantee
from ..node import LifeTotal, NodeBudget, known_of, life_guarantee, life_totals, read_node_config, run_guarantee
from ..storage import LedgerFile, LedgerRecord, LedgerUnusable

#: If neither the settings nor any run says which.
_DELTA = 1e-5
#: How each line of a ledger begins.
_LINE = re.compile(rb"[0-9a-f]{64} ")
_ONE = "The observer who learned most in each run counts as one and the same: members may put together what they saw."
_UNITS = (
    "A record is part of its person and its node, and a person of its node: runs that protect those count for it, too."
    " What runs that protect less have told of a person or a node comes on top."
)
_SHARED = "Two nodes on this data took part in one run: there, each release counts in full."


@dataclass(frozen=True, kw_only=True)
class LedgerLine:
    """A node's part in one run: when it `began`, when it was last `updated` (seconds since 1970), and what it cost.

    `mu2` is of the observer who knows most, and `mu2_in_full` with each release in full. `guarantee` says both as an
    epsilon, at the delta of all others in the table.
    """

    run: str
    node: str
    began: float
    updated: float
    updates: int
    steps: int
    noise_multiplier: float
    mu2: float
    mu2_in_full: float
    guarantee: Guarantee


@dataclass(frozen=True, kw_only=True)
class LedgerTotal:
    """What runs have given away of one unit: those that hide it, or what it is part of; the others are `left_out`."""

    runs: int
    left_out: int
    updates: int
    mu2: float
    mu2_in_full: float
    guarantee: Guarantee


@dataclass(frozen=True, kw_only=True)
class LifeAccount:
    """A ledger, read: each node's part in each run, and the total for each unit.

    `delta` is that of all epsilons but the `budget`, which goes with `budget_delta`; both are None where none is set.
    """

    ledger: str
    lines: int
    delta: float
    budget: float | None
    runs: tuple[LedgerLine, ...]
    totals: tuple[LedgerTotal, ...]
    notes: tuple[str, ...]
    budget_delta: float | None = None


def _records_of(ledger: LedgerFile, place: Path) -> tuple[LedgerRecord, ...]:
    """Read a ledger that was given as a file; what is wrong with it is said of that file."""
    try:
        return ledger.read()
    except LedgerUnusable as problem:
        with ledger.path.open("rb") as file:
            start = file.read(65)
        if start and _LINE.fullmatch(start) is None:  # one that is empty was a ledger, perhaps
            raise InvalidInput.because("FILE", place, "is not a ledger") from None
        raise LedgerUnusable("FILE", place, problem.reason, must_be=False) from None
    except InvalidInput as problem:
        raise InvalidInput.because("FILE", place, problem.reason) from None


def life_account(place: str | Path, delta: float | None = None) -> LifeAccount:
    """Read the ledger of a node's folder, or of a file; `delta` is the budget's, or the smallest of all runs."""
    place = Path(place)
    budget, ledger = _kept_by(place)
    records = ledger.read() if place.is_dir() else _records_of(ledger, place)
    delta = budget.delta if delta is None else delta
    used = min((record.about.delta for record in records), default=_DELTA) if delta is None else delta
    known = known_of(records)
    totals = life_totals(records)
    runs = len({record.about.run for record in records})
    notes = []
    if budget.epsilon is not None:
        notes.append(f"Budget for life: epsilon {budget.epsilon:g} at delta {budget.delta:g}, for each total.")
    notes += [_ONE] if len(records) > 1 else []
    notes += [_UNITS] if len(totals) > 1 else []
    notes += [_SHARED] if any(mu2 != record.mu2 for mu2, record in zip(known, records, strict=True)) else []
    uncovered = dict.fromkeys(record.about.not_covered for record in records if record.about.not_covered)
    notes += [f"Nodes of some runs shared a data set: {what}." for what in uncovered]
    return LifeAccount(
        ledger=str(ledger.path),
        lines=ledger.lines,
        delta=used,
        budget=budget.epsilon,
        budget_delta=budget.delta,
        runs=tuple(_line_of(record, mu2, used) for record, mu2 in zip(records, known, strict=True)),
        totals=tuple(_total_of(total, runs - total.runs, used) for total in totals),
        notes=tuple(notes),
    )


def _kept_by(place: Path) -> tuple[NodeBudget, LedgerFile]:
    """Return the budget and the ledger of a node's folder; of a file no budget is known."""
    if not place.is_dir():
        return NodeBudget(), LedgerFile(place)
    if not (place / "node.toml").is_file():
        raise InvalidInput.because("DIR", place, "is not the folder of a node: there is no node.toml in it")
    budget = read_node_config(place / "node.toml").budget
    if budget.ledger is None:
        reason = 'its node.toml names no ledger; add, under [budget]: ledger = "FILE"'
        raise InvalidInput.because("DIR", place, reason)
    return budget, LedgerFile(budget.ledger, heads=place)


def _line_of(record: LedgerRecord, mu2: float, delta: float) -> LedgerLine:
    return LedgerLine(
        run=record.about.run,
        node=record.about.node,
        began=record.began,
        updated=record.updated,
        updates=record.releases,
        steps=record.about.steps,
        noise_multiplier=record.about.noise_multiplier,
        mu2=mu2,
        mu2_in_full=record.in_full,
        guarantee=run_guarantee(
            *(record.about.unit, record.about.relation, delta, mu2, record.in_full),
            not_covered=record.about.not_covered,
        ),
    )


def _total_of(total: LifeTotal, left_out: int, delta: float) -> LedgerTotal:
    return LedgerTotal(
        runs=total.runs,
        left_out=left_out,
        updates=total.releases,
        mu2=total.mu2,
        mu2_in_full=total.in_full,
        guarantee=life_guarantee(
            total.unit,
            total.relation,
            delta,
            total.mu2,
            total.in_full,
            runs="these runs alone" if left_out else "all runs",
        ),
    )
