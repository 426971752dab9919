"""Simulations from run files: `skipring init` and `skipring simulate`."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InvalidInput
from ._output import Json, print_json, print_rows

if TYPE_CHECKING:
    from ..simulation import Result

__all__ = ["init", "simulate"]


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("run.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Write a run file with every key, its default and what it means."""
    from ..simulation import example_run_file  # loaded when the command runs

    if file.exists() and not force:
        raise InvalidInput.because("FILE", file, "exists already; --force overwrites it")
    try:
        file.write_text(example_run_file())
    except OSError as error:
        raise InvalidInput.because("FILE", file, f"cannot be written: {error.strerror}") from error
    if as_json:
        print_json({"file": str(file)})
        return
    print(f"{file} is written; next: skipring simulate {file}")


def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A run file; `skipring init` writes one.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the results (default: the file's name).")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a value of the run file.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted simulation stopped.")] = False,
    threads: Annotated[
        int | None, typer.Option(help="Number of threads (default: all cores); changes nothing else.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Simulate a run file: test error, latency and privacy over many runs."""
    from rich.console import Console  # loaded when the command runs
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ..simulation import Interrupted, with_changes
    from ..simulation import simulate as run_all

    run = with_changes(file, changes or [])
    folder = out if out is not None else Path(file.stem)
    stop = threading.Event()
    began = time.perf_counter()
    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
            task = progress.add_task("runs", total=run.simulation.runs)
            result = run_all(
                run,
                out=folder,
                resume=resume,
                threads=threads,
                stop=stop,
                progress=lambda finished: progress.update(task, completed=finished),
            )
    except Interrupted as stopped:
        sys.stderr.write(f"interrupted: {stopped}; go on with: skipring simulate {file} --out {folder} --resume\n")
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, before)
    _show(result, folder, time.perf_counter() - began, as_json)


def _show(result: Result, folder: Path, seconds: float, as_json: bool) -> None:
    summary = result.summary()
    if as_json:
        print_json(summary | {"seconds": seconds, "folder": str(folder), "resolved": result.settings["resolved"]})
        return
    resolved = result.settings["resolved"]
    privacy = summary["privacy"]

    def spread(name: str) -> str:
        from ..report.numbers import number

        return f"{number(summary[name]['mean'])} ± {number(summary[name]['std'])}"

    rows: list[tuple[str, object]] = [
        ("runs", result.runs),
        ("test error", spread("test_error")),
        ("latency", spread("latency")),
        ("updates", spread("updates")),
        ("skip rate", summary["skip_rate"]),
        ("timeout", resolved["timeout"]),
        ("noise multiplier", resolved["noise_multiplier"]),
    ]
    rows += _privacy_rows(privacy)
    notes = [f"Mean and standard deviation over runs; delta {privacy['delta']:g}. Results are in {folder}."]
    if "not_amplified_because" in privacy:
        notes.append(f"The noise of others is not counted: {privacy['not_amplified_because']}.")
    print_rows(rows, " ".join(notes))


def _privacy_rows(privacy: dict[str, Any]) -> list[tuple[str, object]]:
    if "refused" in privacy:
        return [("epsilon", privacy["refused"])]
    rows: list[tuple[str, object]] = []
    for name, label in (("forecast", "epsilon, forecast"), ("paper", "epsilon, paper")):
        part = privacy[name]
        rows.append((label, part.get("epsilon", part.get("refused"))))
    realised = privacy.get("realised")
    if realised is not None:
        for name, label in (("worst", "worst pair"), ("pair_99", "99 % pair"), ("median", "median pair")):
            rows.append((f"epsilon, realised, {label}", realised[name]))
    return rows
