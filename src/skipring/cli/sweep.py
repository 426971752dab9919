"""Grids of simulations: `skipring sweep`."""

from __future__ import annotations

import sys
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .._command import command
from .._json import to_json
from .._numbers import number, upper
from . import _options as options
from ._output import Json, print_json, sentence, show
from ._work import counted_runs

if TYPE_CHECKING:
    from rich.table import Table

    from ..experiments import Cell, Store, Sweep, SweepOutcome


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Where cells are computed."""

    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="Where to compute: on this machine, or on a Ray cluster.")
    ] = "local"
    address: Annotated[
        str | None, typer.Option(help="ray: the cluster, as HOST:PORT (default: one is started here).")
    ] = None
    workers: Annotated[int | None, typer.Option(help="Number of worker processes (default: all cores).")] = None


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A sweep file: a base run and a grid of changes.")],
    on: Engine,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the results (default: the sweep's name-sweep).")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a value of every run, whatever the grid says."),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Number of runs of each cell (default: the file's).")] = None,
    only_list: Annotated[bool, typer.Option("--list", help="Show the cells and which are finished; run none.")] = False,
    as_json: Json = False,
) -> None:
    """Simulate a grid of runs: every combination of the values in a sweep file.

    Finished cells are kept in DIR and never computed twice, so the same command goes on after an interruption.
    """
    from ..experiments import Store, read_sweep, write_sweep_csv  # loaded when the command runs

    asked = read_sweep(file, changes=options.with_runs(changes, runs))
    folder = out if out is not None else Path(f"{asked.name}-sweep")
    store = Store(folder)
    if only_list:
        _list(asked, store, as_json)
        return
    began = time.perf_counter()
    # Ray's processes have to be told that they are to end.
    outcome = swept(asked, folder, patience=30.0 if on.engine == "ray" else 1.0, **vars(on))
    curves = folder / f"{asked.name}.csv"
    write_sweep_csv(asked, outcome, curves)
    if as_json:
        about = {"csv": str(curves), "computed": outcome.computed, "reused": outcome.reused}
        about["cells"] = [_plain(cell, store, outcome) for cell in asked.cells]
        about |= {"not_covered": _not_covered(outcome), "seconds": time.perf_counter() - began}
        print_json(_head(asked, store) | about)
    else:
        _show(asked, store, outcome, curves)
    if outcome.failures:
        sys.exit(1)


def swept(asked: Sweep, folder: Path, *, patience: float = 1.0, **where: Any) -> SweepOutcome:
    """Simulate what is missing of a sweep, with a progress bar; what is finished is kept."""
    from ..experiments import run_sweep

    kept = "they are kept, and the same command goes on"
    # Ray tells of dead workers on the standard output, which is for the answer.
    with counted_runs(asked.runs, kept, patience=patience) as (stop, progress), redirect_stdout(sys.stderr):
        return run_sweep(asked, folder, stop=stop, progress=lambda finished, _: progress(finished), **where)


def _head(asked: Sweep, store: Store) -> dict[str, Any]:
    return {"name": asked.name, "title": asked.title, "folder": str(store.folder)}


def _list(asked: Sweep, store: Store, as_json: bool) -> None:
    finished = {cell.key: store.finished_runs(cell) for cell in asked.cells}
    if as_json:
        cells = [
            {
                "key": cell.key,
                "label": cell.label,
                "changes": cell.changes,
                "runs": cell.run.simulation.runs,
                "finished_runs": finished[cell.key],
                "finished": store.finished(cell.key),
            }
            for cell in asked.cells
        ]
        print_json(_head(asked, store) | {"cells": cells})
        return
    from ..report import plain_table

    table = plain_table("cell", right=("key", "runs"))
    table.columns[1].justify = "left"
    for cell in asked.cells:
        state = "finished" if store.finished(cell.key) else f"{finished[cell.key]} of {cell.run.simulation.runs}"
        table.add_row(cell.label, cell.key, state)
    count = sum(store.finished(cell.key) for cell in asked.cells)
    show(table, note=f"\n{count} of {len(asked.cells)} cells are finished in {store.folder}.")


def _plain(cell: Cell, store: Store, outcome: SweepOutcome) -> dict[str, Any]:
    known = {"key": cell.key, "label": cell.label, "changes": cell.changes}
    if cell.key in outcome.failures:
        return known | {"failure": outcome.failures[cell.key]}
    result = outcome.results[cell.key]
    return known | {
        "folder": str(store.path(cell.key)),
        "epsilon": result.privacy.epsilon,
        **to_json(result.summary()),
    }


def _not_covered(outcome: SweepOutcome) -> str:
    """Say what no epsilon of the table counts."""
    reports = [result.privacy for result in outcome.results.values()]
    units = dict.fromkeys(report.hides for report in reports if report.refused is None)
    words = f"It protects {' or '.join(units)}. " if units else ""
    words += "It is each cell's own: choosing among cells by their error is not covered"
    words += ' (docs/privacy.md, "Several runs").'
    for more in dict.fromkeys(result.privacy.not_covered for result in outcome.results.values()):
        words += f" {sentence(more)}" if more is not None else ""
    return words


def _show(asked: Sweep, store: Store, outcome: SweepOutcome, curves: Path) -> None:
    from rich.console import Console  # only where a table is shown

    if outcome.results:
        show(_table(asked, outcome))
    for cell in asked.cells:
        if cell.key in outcome.failures:
            line = " ".join(outcome.failures[cell.key].split())
            Console(highlight=False).print(f"{cell.label} failed: {line}", style="red", markup=False, soft_wrap=True)
    told = [note for result in outcome.results.values() for note in result.resolved.notes]
    noted = " ".join([_not_covered(outcome), *map(sentence, dict.fromkeys(told))])
    deltas = ", ".join(number(delta) for delta in sorted({cell.run.privacy.delta for cell in asked.cells}))
    show(
        note=f"\n{outcome.computed} cells computed, {outcome.reused} reused. Mean ± standard deviation over runs;"
        f" epsilon is the forecast (method tight, view offered), at delta {deltas}; - where none holds. {noted}"
        f"\nCurves are in {curves}; next:",
        then=f"{command('report', store.cells)}/*",
    )


def _table(asked: Sweep, outcome: SweepOutcome) -> Table:
    heads = [key.replace(".", ".\n") for key in asked.varied] or ["cell"]
    from ..report import plain_table

    table = plain_table(*heads, right=("test error", "latency", "epsilon"))
    for column in table.columns[: len(heads)]:
        column.vertical = "bottom"
    for cell in asked.cells:
        if cell.key not in outcome.results:
            continue
        result = outcome.results[cell.key]
        summary, epsilon = result.summary(), result.privacy.epsilon
        table.add_row(
            *([_spelled(cell.value(key)) for key in asked.varied] or [cell.label]),
            f"{summary.test_error.mean:.4f} ± {summary.test_error.std:.4f}",
            number(summary.latency.mean),
            "-" if epsilon is None else upper(epsilon),
        )
    return table


def _spelled(value: Any) -> str:
    if value is None:
        return "-"
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
