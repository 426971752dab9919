"""Simulations from run files: `skipring init` and `skipring simulate`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from .._command import command
from .._json import to_json
from .._writing import write_output
from ..errors import InvalidInput
from . import _options as options
from ._output import Json, Threads, print_json, print_rows
from ._work import counted_runs


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("run.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Write a run file with every key, its default and what it means."""
    from ..runs import example_run_file  # loaded when the command runs

    if file.exists() and not force:
        raise InvalidInput.because("FILE", file, "exists already; --force overwrites it")
    write_output(file, example_run_file(), "FILE")
    if as_json:
        print_json({"file": str(file)})
        return
    print(f"{file} is written; next: {command('simulate', file)}")


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
    from ..runs import unsaid_data, with_changes  # loaded when the command runs
    from ..simulation import simulate as run_all

    run = with_changes(given.file, given.changes or [])
    folder = out if out is not None else Path(given.file.stem)
    began = time.perf_counter()
    words = [] if threads is None else ["--threads", threads]
    words += [] if save_model is None else ["--save-model", save_model, "--model-run", model_run]
    words += ["--json"] if as_json else []
    with counted_runs(run.simulation.runs, lambda: _again(given, folder, words)) as (stop, progress):
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
    if as_json:
        about = {"data": result.data, "seconds": time.perf_counter() - began, "folder": str(folder)}
        about |= {"resolved": to_json(result.resolved), "remark": result.remark}
        print_json(to_json(result.summary()) | about | _model(save_model, model_run))
        return
    from ..report import result_notes, result_rows

    saved = [] if save_model is None else _on_model(save_model, model_run)
    notes = [*result_notes(result, unsaid_data(run)), f"Results are in {folder}.", *saved]
    print_rows(result_rows(result), "\n".join(notes))


def _again(given: options.Given, folder: Path, words: Sequence[object]) -> str:
    """Say where finished runs are, and with which command the others follow."""
    changes = [word for change in given.changes or [] for word in ("--set", change)]
    begun = ["--resume"] if (folder / "started.json").exists() else []
    go_on = command("simulate", given.file, "--out", folder, *changes, *words, *begun)
    return f"what is finished is in {folder}; go on with:\n  {go_on}"


def _model(file: Path | None, run: int) -> dict[str, Any]:
    from ..models import load_model

    if file is None:
        return {}
    return {"model": str(file), "model_run": run, "model_guarantee": to_json(load_model(file).facts.guarantee)}


def _on_model(file: Path, run: int) -> list[str]:
    """Say where the model of a run is, where its noise comes from, and why it protects nothing if it does not."""
    from ..models import load_model

    guarantee = load_model(file).facts.guarantee
    return [
        f"The model of run number {run} (from 0) is {file}: skipring predict.",
        "Its noise comes from the operating system, and not from simulation.seed: another call gives another.",
        *([guarantee.sentence()] if guarantee.epsilon is None else []),
    ]
