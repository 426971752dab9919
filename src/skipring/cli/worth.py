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
from ._output import Changes, Json, Threads, numbers_of, print_json, sentence
from ._work import counted_runs

if TYPE_CHECKING:
    from ..experiments import Worth


def worth(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A run file; `skipring init` writes one.")],
    epsilons: Annotated[str, typer.Option(metavar="LIST", help="Epsilons to try, separated by commas.")] = "0.5,1,2,8",
    splits: Annotated[int, typer.Option(help="How often test rows are set aside anew.")] = 10,
    made_up: Annotated[
        int | None,
        typer.Option("--made-up", metavar="ROWS", help="Take so many made-up rows of the schema, and no data."),
    ] = None,
    changes: Changes = None,
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
    from ..experiments import pieces_of  # loaded when the command runs
    from ..experiments import worth as compared
    from ..runs import with_changes

    run = with_changes(file, changes or [])
    # Without noise is always there, so that inf asks for nothing more.
    asked = [epsilon for epsilon in numbers_of("epsilons", epsilons) if epsilon != math.inf]
    folder = out if out is not None else Path(f"{file.stem}-worth")
    if folder.is_file():
        raise InvalidInput.because("out", folder, "is a file")
    began = time.perf_counter()
    with counted_runs(pieces_of(run, asked, max(1, splits)), "nothing is kept; begin anew") as (stop, progress):
        found = compared(
            run, epsilons=asked, splits=splits, rows=made_up, threads=threads, stop=stop, progress=progress
        )
    picture = folder / "worth.png" if figure else None
    facts = {"conclusion": found.conclusion, **to_json(found), "notes": _notes(found)}
    written = [folder / "worth.json"] if out is not None or figure else []
    if written:
        write_output(folder / "worth.json", json_text(facts, indent=2) + "\n")
    if picture is not None:
        from ..report import draw_worth

        what = f"{made_up} made-up rows" if made_up is not None else Path(run.data.path or run.data.name).name
        draw_worth(found, [picture], title=f"{what}: {found.nodes} nodes, median and 10-90 % of {splits} splits")
    if as_json:
        more = {"figure": None if picture is None else str(picture), "seconds": time.perf_counter() - began}
        print_json(facts | more)
        return
    _show(found)
    for path in written + ([picture] if picture is not None else []):
        print(f"  {path}")


def _notes(found: Worth) -> list[str]:
    """Say what the numbers rest on, and what no epsilon covers."""
    from ..privacy import PROTECTED, RELATION

    quiet, noisy = found.updates
    notes = [
        f"Median over {found.splits} splits, and what 10 % of them lie below and above."
        + (" Each node is tested on test rows of its own." if found.own_rows else ""),
        f"Epsilon protects {PROTECTED[found.protects]} ({RELATION}) at delta {found.delta:g}. Together: promised,"
        " against another node that is always ready. Alone and in one place: against everybody, if the last model is"
        f" given to all; {noisy} updates are charged in full, by composition.",
        f"Alone and in one place without noise: {quiet} updates. A node that keeps its model to itself needs no noise.",
        "Test rows were looked at, which no epsilon covers. Nothing was searched: rates, lengths and clipping are the"
        " run file's, and others may do better.",
        "Each epsilon is that of one such run. None covers this table: many runs on the same rows, some without noise.",
    ]
    if found.protects == "node":
        notes.append("In one place with noise is left out: it would hide rows, not nodes.")
    if found.large_delta is not None:
        notes.append(sentence(found.large_delta))
    if found.not_covered is not None:
        notes.append(sentence(found.not_covered))
    if found.same_test_rows:
        notes.append("The data set comes with its test rows: splits differ in what else is drawn, not in them.")
    if found.nobody_skipped:
        notes.append(
            'Nodes learn how long to wait (delay.timeout "adaptive"), which only a network shows: here nobody is'
            " skipped."
        )
    if found.made_up is not None:
        notes.append(
            "The rows are made up: they say what a run costs and how much noise it has, and nothing about real rows"
            " beyond that."
        )
    return notes


def _show(found: Worth) -> None:
    from rich.console import Console  # only where a table is shown

    from ..report import worth_table

    console = Console(highlight=False)
    console.print(worth_table(found))
    console.print(f"\n{sentence(found.conclusion)}\n", markup=False)
    console.print("\n".join(_notes(found)), style="dim", markup=False)
