"""Is it worth it? `skipring worth`: learning together beside what else the nodes could do."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._json import json_text, to_json
from .._writing import write_output
from ..errors import InvalidInput
from . import _options as options
from ._output import Json, Threads, numbers_of, print_json, sentence, show
from ._work import counted_runs

if TYPE_CHECKING:
    from ..experiments import Worth
    from ..runs import RunFile


def worth(
    given: options.Given,
    *,
    epsilons: Annotated[str, typer.Option(metavar="LIST", help="Epsilons to try, separated by commas.")] = "0.5,1,2,8",
    splits: Annotated[int, typer.Option(help="How often test rows are set aside anew.")] = 10,
    made_up: Annotated[
        int | None,
        typer.Option("--made-up", metavar="ROWS", help="Take this number of made-up rows of the schema, and no data."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for worth.json (default with --figure: FILE's name-worth)."),
    ] = None,
    figure: Annotated[bool, typer.Option("--figure", help="Draw it, too, as worth.png in the folder.")] = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Compare learning together with guessing, learning alone, and all rows in one place.

    The run file's own settings at several epsilons, each beside what needs no others. It looks at test rows: use public
    or made-up ones, or rows that you may look at.
    """
    from ..report import draw_worth, worth_notes, worth_table
    from ..runs import with_changes

    run = with_changes(given.file, given.changes or [])
    # Without noise is always there, so that inf asks for nothing more.
    asked = [epsilon for epsilon in numbers_of("epsilons", epsilons) if epsilon != math.inf]
    folder = out if out is not None else Path(f"{given.file.stem}-worth")
    if folder.is_file():
        raise InvalidInput.because("out", folder, "is a file")
    began = time.perf_counter()
    found = _compared(run, epsilons=asked, splits=splits, rows=made_up, threads=threads)
    facts = {"conclusion": found.conclusion, **to_json(found), "notes": worth_notes(found)}
    written = [folder / "worth.json"] if out is not None or figure else []
    for path in written:
        write_output(path, json_text(facts, indent=2) + "\n")
    picture = folder / "worth.png" if figure else None
    if picture is not None:
        what = f"{made_up} made-up rows" if made_up is not None else Path(run.data.path or run.data.name).name
        draw_worth(found, [picture], title=f"{what}: {found.nodes} nodes, median and 10-90 % of {splits} splits")
    if as_json:
        more = {"figure": None if picture is None else str(picture), "seconds": time.perf_counter() - began}
        print_json(facts | more)
        return
    show(worth_table(found), f"\n{sentence(found.conclusion)}\n", note="\n".join(worth_notes(found)))
    for path in [*written, *([] if picture is None else [picture])]:
        print(f"  {path}")


def _compared(run: RunFile, *, epsilons: list[float], splits: int, rows: int | None, threads: int | None) -> Worth:
    from ..experiments import pieces_of, worth

    pieces = pieces_of(run, epsilons, max(1, splits))
    with counted_runs(pieces, "nothing is kept; begin anew") as (stop, progress):
        return worth(run, epsilons=epsilons, splits=splits, rows=rows, threads=threads, stop=stop, progress=progress)
