"""Simulations from run files, and a page about them: `skipring simulate` and `skipring report`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from .._command import command
from .._json import to_json
from .._writing import write_output
from ..errors import InvalidInput
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
        about |= {"resolved": to_json(result.resolved), "remark": result.remark}
        if written is not None:
            about |= {"model": str(save_model), "model_run": model_run, "model_guarantee": to_json(written)}
        print_json(to_json(result.summary()) | about)
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


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders of finished simulations; plain files among them are left out."),
    ],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    as_json: Json = False,
) -> None:
    """Write one page about simulations: error, privacy, who was skipped, and a table for a paper."""
    # `DIR/*` after a comparison also names its figure.
    left_out = [path for path in folders if path.is_file()]
    chosen = list(dict.fromkeys(path for path in folders if path not in left_out))
    if not chosen:
        raise InvalidInput("DIR", left_out[0], "the folder of a finished simulation")
    if out.is_dir():
        raise InvalidInput.because("out", out, "is a folder")

    from ..report import load_folders, report_page, row_of  # loaded when the command runs

    loaded = load_folders(chosen)
    write_output(out, report_page(loaded))
    if as_json:
        rows = [row_of(folder) for folder in loaded]
        print_json({"file": str(out), "folders": rows, "left_out": list(map(str, left_out))})
        return
    count = f"{len(loaded)} simulations" if len(loaded) > 1 else "1 simulation"
    print(f"{out} is written, about {count}; it needs no network: open it in a browser")
