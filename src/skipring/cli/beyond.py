"""Beyond the paper: `skipring paper beyond`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InvalidInput
from ._output import Json, print_json
from .paper import show_rows, simulate_sweep

if TYPE_CHECKING:
    from ..simulation import RunSummary


def beyond(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="skew, stragglers, traces, nodes, order, hospitals or images.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A few runs, for a look.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the PNG, SVG and CSV files.")] = Path("paper-figures"),
    cells: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of finished simulations (default: OUT/sweeps).")
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(help="Number of runs of each cell, or of splits of the hospitals (default: as in results/)."),
    ] = None,
    traces: Annotated[
        Path | None, typer.Option(metavar="DIR", help="traces: folder of the files (default: SKIPRING_DATA/traces).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw a figure that the paper does not have.

    skew: classes dealt unevenly to nodes; stragglers: slow nodes that hold one class, and what helps against the bias;
    traces: phones, a GPU cluster and wide-area links as they were measured;
    nodes: how many nodes private learning needs; order: the noise that keeps a budget for every pair of nodes, by
    schedule; hospitals: four real ones that hide each patient; images: MNIST and
    CIFAR-10 with each record hidden (a GPU takes 15 minutes, two cores many hours).
    """
    from ..experiments import (
        BEYOND,  # loaded when the command runs
        paper_sweep,
        sweep_curves,
        with_fedau,
    )
    from ..report import write_empirical_csv

    if name not in BEYOND:
        raise InvalidInput("NAME", name, f"one of {', '.join(BEYOND)}")
    if runs is not None and runs < 1:
        raise InvalidInput("runs", runs, "at least 1")
    if traces is not None and name != "traces":
        raise InvalidInput.because("traces", traces, f"is for the figure of traces, not for {name}")
    if name in ("hospitals", "images", "traces", "order"):
        if cells is not None:
            raise InvalidInput.because("cells", cells, f"{name} keeps no simulations; leave it out")
        from .hospitals import hospitals
        from .images import images
        from .orders import orders
        from .traces import traces as follow_traces

        if name == "traces":
            follow_traces(quick=quick, out=out, folder=traces, runs=runs, as_json=as_json)
        elif name == "hospitals":
            hospitals(quick=quick, out=out, splits=runs, as_json=as_json)
        elif name == "order":
            orders(quick=quick, out=out, runs=runs, as_json=as_json)
        else:
            images(quick=quick, out=out, seeds=runs, as_json=as_json)
        return
    changes = [] if runs is None else [f"simulation.runs={runs}"]
    sweep = paper_sweep(name, quick=quick, changes=changes)
    outcome = simulate_sweep(sweep, cells if cells is not None else out / "sweeps")
    if "fedau" in sweep.figure:
        sweep, outcome = with_fedau(sweep, outcome)
    base = name + ("-quick" if quick else "")
    files = [out / f"{base}.{suffix}" for suffix in ("png", "svg", "csv")]
    found = _DRAW[name](sweep, outcome, files[:2])
    write_empirical_csv(sweep_curves(sweep, outcome), files[2])
    if as_json:
        print_json({"name": name, "rows": found, "files": [str(file) for file in files]})
        return
    show_rows(sweep.title, found)
    for file in files:
        print(f"  {file}")


def _error(summary: RunSummary) -> dict[str, Any]:
    return {"test_error": summary.test_error.mean, "test_error_std": summary.test_error.std}


def _skew(sweep: Any, outcome: Any, files: list[Path]) -> list[dict[str, Any]]:
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


def _stragglers(sweep: Any, outcome: Any, files: list[Path]) -> list[dict[str, Any]]:
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
        realised = summary.privacy.realised
        rows.append(
            {"case": label, "skip_rate": summary.skip_rate, "latency": summary.latency.mean}
            | {"updates": f"{least:.1f} / {most:.1f}"}
            | _error(summary)
            | {"epsilon": None if realised is None else realised.worst}
        )
    return rows


def _nodes(sweep: Any, outcome: Any, files: list[Path]) -> list[dict[str, Any]]:
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


_DRAW = {"skew": _skew, "stragglers": _stragglers, "nodes": _nodes}
