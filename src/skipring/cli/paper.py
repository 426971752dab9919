"""The paper's theory, regenerated: `skipring paper figure` and `skipring paper tables`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InvalidInput
from ._output import Json, print_json

__all__ = ["figure", "tables"]


def figure(
    number: Annotated[int, typer.Argument(help="2, 3 or 6.", metavar="NUMBER")],
    out: Annotated[Path, typer.Option(help="Folder for the PNG, SVG and CSV files.")] = Path("paper-figures"),
    points: Annotated[int, typer.Option(help="Points along each axis of a curve.")] = 300,
    as_json: Json = False,
) -> None:
    """Draw one of the paper's theory figures (2 and 3: error, privacy, latency; 6: random ring and random walk)."""
    from ..experiments import FIGURES, figure_curves  # loaded when the command runs
    from ..report import draw_paper_figure, write_curves_csv

    if number not in FIGURES:
        raise InvalidInput("NUMBER", number, "one of " + ", ".join(map(str, FIGURES)))
    if points < 2:
        raise InvalidInput("points", points, "at least 2")
    curves = figure_curves(number, points=points)
    files = [out / f"figure{number}.{suffix}" for suffix in ("png", "svg", "csv")]
    draw_paper_figure(number, curves, files[:2])
    write_curves_csv(curves, files[2])
    if as_json:
        print_json({"figure": number, "curves": len(curves), "files": [str(file) for file in files]})
        return
    print(f"Figure {number}: {len(curves)} curves of {min(len(c.steps) for c in curves)} points or more")
    for file in files:
        print(f"  {file}")


def tables(as_json: Json = False) -> None:
    """Show the paper's timeouts and epsilons beside the tight ones, computed now."""
    from rich.console import Console  # loaded when the command runs
    from rich.progress import Progress

    from ..experiments.theory_tables import table_cells, theory_tables
    from ..report import theory_table

    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("accounting", total=table_cells())
        found = theory_tables(lambda n: progress.update(task, completed=n))
    if as_json:
        print_json(
            {
                "tables": [
                    {"title": table.title, "note": table.note, "columns": table.columns, "rows": table.rows}
                    for table in found
                ]
            }
        )
        return
    console = Console(highlight=False)
    for table in found:
        console.print(theory_table(table))
        console.print()
