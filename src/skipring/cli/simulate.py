"""Simulations from run files: `skipring init` and `skipring simulate`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InvalidInput
from ._output import Json, print_json, print_rows
from ._work import counted_runs

if TYPE_CHECKING:
    from ..simulation import Result

__all__ = ["init", "simulate"]

_NODES = (("worst", "busiest"), ("pair_99", "99 %"), ("median", "median"))


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
    from ..simulation import simulate as run_all
    from ..simulation import with_changes

    run = with_changes(file, changes or [])
    folder = out if out is not None else Path(file.stem)
    began = time.perf_counter()
    again = f"go on with: skipring simulate {file} --out {folder} --resume"
    with counted_runs(run.simulation.runs, again) as (stop, progress):
        result = run_all(run, out=folder, resume=resume, threads=threads, stop=stop, progress=progress)
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
    if privacy["view"] == "server":
        notes.append("The forecast protects a node's data against the server, which sees every upload.")
    elif privacy["view"] == "any node":
        notes.append(
            "The forecast counts a node's own releases; realised: on the graphs of the first run, no final model."
        )
    elif "not_amplified_because" in privacy:
        notes.append(f"The noise of others is not counted: {privacy['not_amplified_because']}.")
    if "doubt" in privacy.get("paper", {}):
        notes.append(f"Do not rely on the paper's epsilon: {privacy['paper']['doubt']}.")
    if "not_covered" in privacy:
        notes.append(f"{privacy['not_covered'][0].upper()}{privacy['not_covered'][1:]}.")
    if resolved.get("labels_clipped"):
        notes.append(f"{resolved['labels_clipped']} labels were clipped to model.label_bound.")
    if "realised" in privacy and "forecast" in privacy:
        notes.append("A forecast is for a node or pair named beforehand; the unluckiest of all may lie beyond it.")
    print_rows(rows, " ".join(notes))


def _privacy_rows(privacy: dict[str, Any]) -> list[tuple[str, object]]:
    if "refused" in privacy:
        return [("epsilon", privacy["refused"])]
    rows: list[tuple[str, object]] = []
    for name, label in (("forecast", "epsilon, forecast"), ("paper", "epsilon, paper")):
        part = privacy[name]
        said = f"epsilon, {part['method']}" if "method" in part else label
        said += " (not proven)" if part.get("trusted") is False else ""
        rows.append((said, part.get("epsilon", part.get("refused"))))
    realised = privacy.get("realised")
    if realised is not None:
        if "other_node" in realised or privacy["view"] == "server":
            names = (
                ("worst", "busiest node, server"),
                ("pair_99", "99 % node, server"),
                ("median", "median node, server"),
            )
        else:
            sampled = f" of {realised['pairs']}" if "pairs" in realised else ""
            names = (("worst", f"worst pair{sampled}"), ("pair_99", "99 % pair"), ("median", "median pair"))
        rows += [(f"epsilon, realised, {label}", realised[name]) for name, label in names]
        if "other_node" in realised:
            rows.append(("epsilon, realised, another node", realised["other_node"]))
    return rows
