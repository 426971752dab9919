"""Simulations from run files: `skipring simulate`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from .._command import command
from .._json import to_json
from . import _options as options
from ._output import Json, Threads, print_json, print_rows
from ._work import counted_runs


def simulate(
    given: options.Given,
    *,
    out: Annotated[Path | None, typer.Option(help="Folder for the results (default: the file's name).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted simulation stopped.")] = False,
    threads: Threads = None,
    save_model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the model of one run, for `skipring predict`; noise is then the system's, not the seed's.",
        ),
    ] = None,
    model_run: Annotated[int, typer.Option(metavar="NUMBER", help="Of which run, from 0.")] = 0,
    as_json: Json = False,
) -> None:
    """Simulate a run file: test error, latency and privacy over many runs."""
    from ..models import load_model
    from ..runs import unsaid_data, with_changes  # loaded when the command runs
    from ..simulation import simulate as run_all

    run = with_changes(given.file, given.changes or [])
    folder = out if out is not None else Path(given.file.stem)
    began = time.perf_counter()
    with counted_runs(run.simulation.runs, lambda: _again(folder)) as (stop, progress):
        result = run_all(
            run,
            out=folder,
            resume=resume,
            threads=threads,
            stop=stop,
            progress=progress,
            save_model=save_model,
            model_run=model_run,
        )
    written = None if save_model is None else load_model(save_model).facts.guarantee
    if as_json:
        about = {"data": result.data, "seconds": time.perf_counter() - began, "folder": str(folder)}
        about |= {"resolved": result.resolved.to_json(), "remark": result.remark}
        if written is not None:
            about |= {"model": str(save_model), "model_run": model_run, "model_guarantee": to_json(written)}
        print_json(result.summary().to_json() | about)
        return
    from ..report import result_notes, result_rows

    notes = [*result_notes(result, unsaid_data(run)), f"Results are in {folder}."]
    if written is not None:
        notes += [
            f"The model of run number {model_run} (from 0) is {save_model}: skipring predict.",
            "Its noise comes from the operating system, and not from simulation.seed: another call gives another.",
        ]
        notes += [written.sentence()] if written.epsilon is None else []  # why it protects nothing
    print_rows(result_rows(result), "\n".join(notes))


def _again(folder: Path) -> str:
    """Say where finished runs are, and with which command the others follow: the same, which goes on."""
    words = [word for word in sys.argv[1:] if word != "--resume"]
    begun = ["--resume"] if (folder / "started.json").exists() else []
    return f"what is finished is in {folder}; go on with:\n  {command(*words, *begun)}"
