"""Images with each record hidden: `skipring paper beyond images`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from .._numbers import upper
from ._output import print_json
from ._work import counted_runs

if TYPE_CHECKING:
    from ..experiments import ImageRow

_NOTES = (
    "Hidden is one record (replace-one) from each other node; nothing is promised for a whole node. 30 % of the hops"
    " are skipped. Epsilon is that of a pair named before.",
    "Length, rate and clipping were chosen on a sixth of the training part, with fewer nodes; the test rows were looked"
    " at once. No epsilon covers that search. Centrally trained numbers are for add or remove, and sampled.",
)


def images(*, quick: bool, out: Path, seeds: int | None, as_json: bool) -> None:
    """Search, run, draw, and print what came out; with a GPU in minutes, without one in hours."""
    from ..experiments import IMAGE_DELTA, ImageStudy, image_study
    from ..report import draw_images, write_images_csv

    study = ImageStudy(ways=("mnist-head",), seeds=2, most_settings=2, nodes=6) if quick else ImageStudy()
    if seeds is not None:
        study = dataclasses.replace(study, seeds=seeds)
    with counted_runs(study.pieces, "nothing is kept; begin anew") as (stop, progress):
        rows = list(image_study(study, stop=stop, progress=progress))
    title = f"Each record hidden, delta {IMAGE_DELTA:g}: medians and quartiles of {study.seeds} runs"
    files = [out / f"images{'-quick' if quick else ''}.{suffix}" for suffix in ("png", "svg", "csv")]
    draw_images(rows, files[:2], title=title)
    write_images_csv(rows, files[2])
    if as_json:
        found = [dataclasses.asdict(row) | {"median": row.median} for row in rows]
        print_json(
            {"name": "images", "delta": IMAGE_DELTA, "rows": found, "notes": _NOTES} | {"files": list(map(str, files))}
        )
        return
    _show(title, rows)
    for file in files:
        print(f"  {file}")


def _show(title: str, rows: list[ImageRow]) -> None:
    from rich.console import Console  # only where a table is shown
    from rich.table import Table

    console = Console(highlight=False)
    console.print(title)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("data", "way", "epsilon", "right (%)", "final model's\nepsilon", "chosen"):
        table.add_column(head, justify="left" if head in ("data", "way", "chosen") else "right", overflow="fold")
    for row in rows:
        table.add_row(
            row.data,
            row.name,
            upper(row.epsilon, 3),
            f"{100.0 * row.median:.1f}",
            upper(row.final_epsilon, 3),
            row.chosen,
        )
    console.print(table)
    for note in _NOTES:
        console.print(note, style="dim")
