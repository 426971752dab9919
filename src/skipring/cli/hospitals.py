"""Four hospitals that hide each patient: `skipring paper beyond hospitals`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from .._numbers import upper
from ._output import print_json
from ._work import counted_runs

if TYPE_CHECKING:
    from ..experiments import StudyRow

_NOTES = (
    "Hidden is one patient (one row each, so a record is a person) from each other hospital, if replaced by "
    "another; nothing is promised for a whole hospital, except where the hospital is hidden.",
    "Nobody is skipped. Epsilon is that of a pair named before; that of the worst pair on the paths taken is larger.",
    "Rate, rounds and clipping were chosen for each split on rows of its training part. No epsilon covers that search.",
    "FLamby's promise is another one: against the server, if a patient is added or left out.",
)


def hospitals(*, quick: bool, out: Path, splits: int | None, as_json: bool) -> None:
    """Carry the study out, draw it, and print what came out."""
    from ..experiments import DELTA, Study, hospital_study
    from ..report import draw_hospitals, write_hospitals_csv

    study = Study.quick() if quick else Study()
    if splits is not None:
        study = dataclasses.replace(study, splits=splits)
    with counted_runs(study.pieces, "nothing is kept; begin anew") as (stop, progress):
        rows = hospital_study(study, stop=stop, progress=progress)
    title = f"Heart disease at four hospitals, delta {DELTA:g}: {study.draws} models for each of {study.splits} splits"
    files = [out / f"hospitals{'-quick' if quick else ''}.{suffix}" for suffix in ("png", "svg", "csv")]
    draw_hospitals(rows, files[:2], title=title)
    write_hospitals_csv(rows, files[2])
    if as_json:
        found = {"delta": DELTA, "rows": [dataclasses.asdict(row) for row in rows], "notes": _NOTES}
        print_json({"name": "hospitals"} | found | {"files": [str(file) for file in files]})
        return
    _show(title, rows)
    for file in files:
        print(f"  {file}")


def _show(title: str, rows: list[StudyRow]) -> None:
    from rich.console import Console  # only where a table is shown
    from rich.table import Table

    from ..experiments import ALWAYS_SICK, FLAMBY, METHODS

    console = Console(highlight=False)
    console.print(title)
    budgets = sorted({row.epsilon for row in rows if row.epsilon is not None})

    def table(head: str) -> Table:
        empty = Table(box=None, pad_edge=False, header_style="bold")
        empty.add_column(head)
        for budget in budgets:
            empty.add_column(f"{budget:g}", justify="right")
        return empty

    for place, what in enumerate(("mean over hospitals (%)", "of all patients (%)")):
        shown = table(f"{what}, epsilon")
        lines: dict[str, dict[float | None, float]] = {METHODS[row.method]: {} for row in rows}
        for row in rows:
            spread = row.all_rows if place else row.mean_over_hospitals
            lines[METHODS[row.method]][row.epsilon] = spread.mean
        lines['always "sick"'] = {None: ALWAYS_SICK[place]}
        lines |= {} if place else FLAMBY
        for name, found in lines.items():
            # What does not depend on epsilon stands everywhere.
            alike = found.get(None) if set(found) == {None} else None
            values = [found.get(budget, alike) for budget in budgets]
            shown.add_row(name, *("-" if value is None else f"{100.0 * value:.1f}" for value in values))
        console.print(shown)
        console.print()
    worst = table("worst pair of hospitals, paths taken: epsilon")
    for method in ("record", "own", "node"):
        pairs = {row.epsilon: row.realised[1] for row in rows if row.method == method and row.realised is not None}
        worst.add_row(METHODS[method], *(upper(pairs[budget], 3) for budget in budgets))
    console.print(worst)
    console.print()
    for note in _NOTES:
        console.print(note)
