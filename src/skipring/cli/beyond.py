"""Beyond the paper: `skipring paper beyond`."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InvalidInput
from . import _options as options
from ._output import Json, print_json, show
from ._work import counted_runs
from .paper import files_of, simulate_sweep, tell_figure, tell_files

if TYPE_CHECKING:
    from ..experiments import EmpiricalCurve, Sweep, SweepOutcome
    from ..report import Findings
    from ..simulation import RunSummary


def beyond(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="skew, stragglers, traces, nodes, order, laps, rivals or images.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A few runs, for a look.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the PNG, SVG and CSV files.")] = Path("paper-figures"),
    cells: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of finished simulations (default: OUT/sweeps).")
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(help="Number of runs of each cell, or of splits of the tables of laps (default: as in results/)."),
    ] = None,
    traces: Annotated[
        Path | None, typer.Option(metavar="DIR", help="traces: folder of the files (default: SKIPRING_DATA/traces).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw a figure that the paper does not have.

    Skew: classes dealt unevenly to nodes. Stragglers: slow nodes that hold one class, and what helps against the bias.
    Traces: phones, a GPU cluster and wide-area links as they were measured. Nodes: how many nodes private learning
    needs. Order: the noise that keeps a budget for every pair of nodes, by schedule. Laps: real tables with sites, four
    hospitals among them, each record protected; laps, the walk, alone, and in one place. Rivals: laps beside the token,
    gossip and a server. Images: MNIST and CIFAR-10 with each record protected (a GPU takes 15 minutes, two cores many
    hours).
    """
    from ..experiments import BEYOND  # loaded when the command runs

    if name not in BEYOND:
        raise InvalidInput("NAME", name, f"one of {', '.join(BEYOND)}")
    changes = options.with_runs(None, runs)
    if traces is not None and name != "traces":
        raise InvalidInput.because("traces", traces, f"is for the figure of traces, not for {name}")
    base = out / (name + ("-quick" if quick else ""))
    if name in _DRAW:
        _sweep(name, base, changes, quick=quick, cells=cells if cells is not None else out / "sweeps", as_json=as_json)
        return
    if cells is not None:
        raise InvalidInput.because("cells", cells, f"{name} keeps no simulations; leave it out")
    found = _study(name, quick, runs, traces)
    files = list(map(str, found.files(base)))
    if as_json:
        print_json({"name": name, **found.facts, "notes": found.notes, "files": files})
    else:
        show(found.title, *found.tables, note="\n".join(found.notes))
        tell_files(files)


def _sweep(name: str, base: Path, changes: list[str], *, quick: bool, cells: Path, as_json: bool) -> None:
    """Draw what comes of a grid of simulations, of which finished ones are kept."""
    from ..experiments import best_by_epsilon, paper_sweep, sweep_curves, with_fedau
    from ..report import write_empirical_csv

    sweep = paper_sweep(name, quick=quick, changes=changes)
    outcome = simulate_sweep(sweep, cells)
    if "fedau" in sweep.figure:
        sweep, outcome = with_fedau(sweep, outcome)
    if "names" in sweep.figure:
        sweep = best_by_epsilon(sweep, outcome)
    files = files_of(base)
    found = _DRAW[name](sweep, outcome, files[:2])
    write_empirical_csv(sweep_curves(sweep, outcome), files[2])
    tell_figure({"name": name, "rows": found}, sweep.title, found, files, as_json=as_json)


def _error(summary: RunSummary) -> dict[str, Any]:
    return {"test_error": summary.test_error.mean, "test_error_std": summary.test_error.std}


def _skew(sweep: Sweep, outcome: SweepOutcome, files: list[Path]) -> list[dict[str, Any]]:
    from ..experiments import by_alpha
    from ..report import draw_series

    draw_series(
        by_alpha(sweep, outcome),
        files,
        title=sweep.title,
        xlabel="alpha of the Dirichlet split (100: evenly dealt)",
        ylabel="error rate on the test set",
        log_x=True,
    )
    return [
        {
            "split": cell.run.data.split if cell.run.data.split == "iid" else f"alpha {cell.run.data.alpha:g}",
            "skip": cell.run.delay.skip,
            "noise": outcome.results[cell.key].resolved.noise_multiplier,
            **_error(outcome.results[cell.key].summary()),
        }
        for cell in sweep.cells
    ]


def _stragglers(sweep: Sweep, outcome: SweepOutcome, files: list[Path]) -> list[dict[str, Any]]:
    from ..experiments import straggler_names, sweep_curves, updates_of_quarters
    from ..report import draw_lines

    names = straggler_names(sweep)
    curves = dict(zip(names, sweep_curves(sweep, outcome), strict=True))
    crowded = sweep.figure.get("leave_out", [])
    draw_lines({name: curve for name, curve in curves.items() if name not in crowded}, files, title=sweep.title)
    rows = []
    for label, cell in zip(names, sweep.cells, strict=True):
        result = outcome.results[cell.key]
        summary, (least, most) = result.summary(), updates_of_quarters(result)
        in_this_run = summary.privacy.in_this_run
        rows.append(
            {"case": label, "skip_rate": summary.skip_rate, "latency": summary.latency.mean}
            | {"updates": f"{least:.1f} / {most:.1f}"}
            | _error(summary)
            | {"epsilon": None if in_this_run is None else in_this_run.worst}
        )
    return rows


def _nodes(sweep: Sweep, outcome: SweepOutcome, files: list[Path]) -> list[dict[str, Any]]:
    from ..experiments import best_by_nodes
    from ..report import draw_series

    series, best = best_by_nodes(sweep, outcome)
    draw_series(
        series,
        files,
        title=sweep.title,
        xlabel="number of nodes",
        ylabel="error rate on the test set",
        log_x=True,
        top=1.0,
    )
    return [
        {
            "nodes": nodes,
            "rounds": (cell.run.schedule.steps or 0) // nodes,
            "rate": cell.run.learning.rate,
            "noise": outcome.results[cell.key].resolved.noise_multiplier,
            **_error(outcome.results[cell.key].summary()),
        }
        for nodes, cell in best.items()
    ]


def _rivals(sweep: Sweep, outcome: SweepOutcome, files: list[Path]) -> list[dict[str, Any]]:
    from ..experiments import sweep_curves
    from ..report import draw_budgets

    curves: dict[str, list[EmpiricalCurve]] = {}
    for curve in sweep_curves(sweep, outcome):
        curves.setdefault(sweep.figure["names"][curve.values["schedule.name"]], []).append(curve)
    draw_budgets(curves, files[:2], title=sweep.title, shown=float(sweep.figure["epsilon"]))
    return [
        {"schedule": cell.run.schedule.name, "epsilon": cell.changes["epsilon"]}
        | {key: cell.changes.get(f"{section}.{key}") for section, key in (("schedule", "steps"), ("learning", "rate"))}
        | {"latency": outcome.results[cell.key].summary().latency.mean}
        | _error(outcome.results[cell.key].summary())
        for cell in sweep.cells
    ]


_DRAW = {"skew": _skew, "stragglers": _stragglers, "nodes": _nodes, "rivals": _rivals}


def _study(name: str, quick: bool, runs: int | None, folder: Path | None) -> Findings:
    """Carry a study out with a progress bar, and return what came out; nothing is kept of it.

    A study is an object, a function that carries it out and one that tells of it, all with its name.
    """
    from .. import experiments, report

    one = name.removesuffix("s")
    study = getattr(experiments, f"{one.capitalize()}Study")
    study = study.quick() if quick else study()
    study = study if runs is None else dataclasses.replace(study, runs=runs)
    of = [_folder_of_traces(folder)] if name == "traces" else []
    with counted_runs(study.pieces, "nothing is kept; begin anew") as (stop, progress):
        found = list(getattr(experiments, f"{one}_study")(*of, study, stop=stop, progress=progress))
    return getattr(report, f"{one}_findings")(study, found)


def _folder_of_traces(given: Path | None) -> Path:
    stored = os.environ.get("SKIPRING_DATA", "")
    if given is None and not stored:
        raise InvalidInput.because("traces", "missing", "say in which folder the files of traces are")
    return Path(stored) / "traces" if given is None else given
