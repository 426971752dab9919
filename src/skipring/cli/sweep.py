"""Grids of simulations: `skipring sweep`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .._command import command
from .._json import to_json
from .._numbers import number
from . import _options as options
from ._output import Json, bound, noted, print_json, sentence, show, what_holds
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
        about |= {"not_covered": _not_covered(outcome), "seconds": time.perf_counter() - began}
        print_json(_facts(asked, store, lambda cell: _ended(cell, store, outcome)) | about)
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


def _facts(asked: Sweep, store: Store, of: Callable[[Cell], dict[str, Any]]) -> dict[str, Any]:
    """Return what JSON says of a sweep, with what there is to say of each cell."""
    cells = [{"key": cell.key, "label": cell.label, "changes": cell.changes} | of(cell) for cell in asked.cells]
    return {"name": asked.name, "title": asked.title, "folder": str(store.folder), "cells": cells}


def _list(asked: Sweep, store: Store, as_json: bool) -> None:
    finished = {cell.key: store.finished_runs(cell) for cell in asked.cells}

    def state(cell: Cell) -> dict[str, Any]:
        over = store.finished(cell.key)
        return {"runs": cell.run.simulation.runs, "finished_runs": finished[cell.key], "finished": over}

    if as_json:
        print_json(_facts(asked, store, state))
        return
    from ..report import plain_table

    table = plain_table("cell", "key", right=("runs",))
    for cell in asked.cells:
        some = f"{finished[cell.key]} of {cell.run.simulation.runs}"
        table.add_row(cell.label, cell.key, "finished" if store.finished(cell.key) else some)
    count = sum(store.finished(cell.key) for cell in asked.cells)
    show(table, note=f"\n{count} of {len(asked.cells)} cells are finished in {store.folder}.")


def _ended(cell: Cell, store: Store, outcome: SweepOutcome) -> dict[str, Any]:
    if cell.key in outcome.failures:
        return {"failure": outcome.failures[cell.key]}
    result = outcome.results[cell.key]
    found = {"folder": str(store.path(cell.key)), "epsilon": result.privacy.epsilon}
    return found | to_json(result.summary())


def _not_covered(outcome: SweepOutcome) -> str:
    choosing = "It is each cell's own: choosing among cells by their error is not covered"
    return what_holds(outcome.results.values(), "It", f'{choosing} (docs/privacy.md, "Several runs").')


def _show(asked: Sweep, store: Store, outcome: SweepOutcome, curves: Path) -> None:
    from rich.console import Console  # only where a table is shown

    if outcome.results:
        show(_table(asked, outcome))
    for cell in asked.cells:
        if cell.key in outcome.failures:
            line = " ".join(outcome.failures[cell.key].split())
            Console(highlight=False).print(f"{cell.label} failed: {line}", style="red", markup=False, soft_wrap=True)
    notes = " ".join([_not_covered(outcome), *map(sentence, noted(outcome.results.values()))])
    deltas = ", ".join(number(delta) for delta in sorted({cell.run.privacy.delta for cell in asked.cells}))
    show(
        note=f"\n{outcome.computed} cells computed, {outcome.reused} reused. Mean ± standard deviation over runs;"
        f" epsilon is what is promised (method tight), at delta {deltas}; - where none holds. {notes}"
        f"\nCurves are in {curves}; next:",
        then=f"{command('report', store.cells)}/*",
    )


def _table(asked: Sweep, outcome: SweepOutcome) -> Table:
    from ..report import plain_table

    heads = [key.replace(".", ".\n") for key in asked.varied] or ["cell"]
    table = plain_table(*heads, right=("test error", "latency", "epsilon"))
    for column in table.columns[: len(heads)]:
        column.vertical = "bottom"
    for cell in asked.cells:
        if (result := outcome.results.get(cell.key)) is not None:
            summary = result.summary()
            error = f"{summary.test_error.mean:.4f} ± {summary.test_error.std:.4f}"
            told = [_spelled(cell.value(key)) for key in asked.varied] or [cell.label]
            table.add_row(*told, error, number(summary.latency.mean), bound(result.privacy.epsilon))
    return table


def _spelled(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        return str(value)
    return "-" if value is None else number(value)
