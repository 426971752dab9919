"""The paper, regenerated: `skipring paper figure` and `skipring paper tables`."""

from __future__ import annotations

import math
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._numbers import number, upper
from ..errors import InvalidInput
from ._output import Json, print_json
from ._work import counted_runs

if TYPE_CHECKING:
    from ..experiments import EmpiricalCurve, Outcome, Sweep

_THEORY, _SIMULATED = (2, 3, 6), (4, 5)


def figure(
    number: Annotated[int, typer.Argument(help="2 to 6.", metavar="NUMBER")],
    row: Annotated[int | None, typer.Option(help="Figure 4: 1 or 2 (houses), 3 (MNIST) or 4 (CIFAR-10).")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Figures 4 and 5: a few runs, for a look.")] = False,
    clipped: Annotated[
        bool, typer.Option("--clipped", help="Figure 4, rows 3 and 4: clip gradients, so that privacy is valid.")
    ] = False,
    records: Annotated[
        bool, typer.Option("--records", help="Figure 4, rows 3 and 4: hide every record, by the same noise.")
    ] = False,
    tight: Annotated[
        bool, typer.Option("--tight", help="Figure 4, row 2, and Figure 5: noise for the paper's epsilon, if proven.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the PNG, SVG and CSV files.")] = Path("paper-figures"),
    cells: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of finished simulations (default: OUT/sweeps).")
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Figures 4 and 5: number of runs (default: the paper's).")] = None,
    points: Annotated[int, typer.Option(help="Figures 2, 3 and 6: points along each axis of a curve.")] = 300,
    as_json: Json = False,
) -> None:
    """Draw one of the paper's figures.

    2 and 3: error, privacy and latency in theory; 6: random ring and random walk; 4: simulated error against latency;
    5: the token against gossip and a server. Finished simulations are kept, and the same command goes on.
    """
    if number not in (*_THEORY, *_SIMULATED):
        raise InvalidInput("NUMBER", number, "one of 2, 3, 4, 5, 6")
    if number in _THEORY:
        _refuse_options(
            number, row=row, quick=quick, clipped=clipped, records=records, tight=tight, runs=runs, cells=cells
        )
        _theory(number, out, points, as_json)
        return
    name = _sweep_name(number, row, clipped=clipped, records=records, tight=tight)
    if runs is not None and runs < 1:
        raise InvalidInput("runs", runs, "at least 1")
    from ..experiments import paper_sweep  # loaded when the command runs

    sweep = paper_sweep(name, quick=quick, changes=[] if runs is None else [f"simulation.runs={runs}"])
    outcome = simulate_sweep(sweep, cells if cells is not None else out / "sweeps")
    base = out / (name + ("-quick" if quick else ""))
    files = [base.with_name(f"{base.name}.{suffix}") for suffix in ("png", "svg", "csv")]
    found = _draw_rows(sweep, outcome, files) if number == 4 else _draw_rivals(sweep, outcome, files, proven=tight)
    if as_json:
        print_json({"figure": number, "sweep": name, "curves": found, "files": [str(file) for file in files]})
        return
    show_rows(sweep.title, found)
    for file in files:
        print(f"  {file}")


def _refuse_options(number: int, **given: object) -> None:
    for option, value in given.items():
        if value is not None and value is not False:  # 0 was given, too
            raise InvalidInput.because(option, "", f"Figure {number} is computed, not simulated: leave the option out")


def _sweep_name(number: int, row: int | None, *, clipped: bool, records: bool, tight: bool) -> str:
    if number == 5:
        for option, value in (("row", row), ("clipped", clipped), ("records", records)):
            if value is not None and value is not False:
                raise InvalidInput.because(option, "", "the option is for Figure 4")
        return "figure5-tight" if tight else "figure5"
    if row not in (1, 2, 3, 4):
        raise InvalidInput("row", "missing" if row is None else row, "1, 2, 3 or 4")
    for option, given in (("clipped", clipped), ("records", records)):
        if given and row < 3:
            raise InvalidInput.because(option, "", "the option is for rows 3 and 4; rows 1 and 2 need no clipping")
    if clipped and records:
        raise InvalidInput.because("clipped", "", "with records each record's gradient is clipped, not a node's")
    if tight and row != 2:
        raise InvalidInput.because("tight", "", "the option is for row 2")
    return f"figure4-row{row}" + "-clipped" * clipped + "-records" * records + "-tight" * tight


def simulate_sweep(sweep: Sweep, folder: Path) -> Outcome:
    """Simulate what is missing of a sweep, with a progress bar; a cell that fails ends the command."""
    from ..experiments import run_sweep

    kept = "they are kept, and the same command goes on"
    with counted_runs(sweep.runs, kept) as (stop, progress), redirect_stdout(sys.stderr):
        outcome = run_sweep(sweep, folder, stop=stop, progress=lambda finished, _: progress(finished))
    for reason in outcome.failures.values():
        raise InvalidInput.because("SWEEP", sweep.name, reason)
    return outcome


def _draw_rows(sweep: Sweep, outcome: Outcome, files: list[Path]) -> list[dict[str, Any]]:
    from ..experiments import law_curves
    from ..report import draw_law_panels, write_empirical_csv

    curves = law_curves(sweep, outcome)
    results = list(outcome.results.values())
    promised = [epsilon for result in results if (epsilon := result.privacy.epsilon) is not None]
    title = sweep.title
    if any(result.privacy.refused is not None for result in results):
        title += "; not clipped: no privacy guarantee"
    elif sweep.cells[0].run.model.is_network and promised:
        ends = " to ".join(dict.fromkeys(upper(end, 3) for end in (min(promised), max(promised))))
        privacy = sweep.cells[0].run.privacy
        title += f"; epsilon {ends} of a {privacy.protects} (replace-one), delta {privacy.delta:g}"
    until = sweep.figure.get("until", {})
    draw_law_panels(curves, files[:2], title=title, until=until)
    write_empirical_csv(curves, files[2], until=until)
    return [{"delay": curve.law} | _end(curve, until.get(curve.law, math.inf)) for curve in curves]


def _end(curve: EmpiricalCurve, until: float) -> dict[str, Any]:
    """Return the numbers of a curve where its panel ends."""
    last = curve.last(until)
    return {
        "skip": curve.skip,
        "runs": curve.runs,
        "latency": float(curve.latency[last]),
        "test_error": float(curve.error[last]),
        "test_error_std": float(curve.error_std[last]),
    }


def _draw_rivals(sweep: Sweep, outcome: Outcome, files: list[Path], *, proven: bool) -> list[dict[str, Any]]:
    from ..experiments import proven_epsilon, published_epsilon, sweep_curves
    from ..report import draw_rivals, write_empirical_csv
    from ..schedules import Gossip

    curves = sweep_curves(sweep, outcome)
    account = proven_epsilon if proven else published_epsilon
    epsilons = [account(cell, curve.steps) for cell, curve in zip(sweep.cells, curves, strict=True)]

    def name(curve: EmpiricalCurve) -> str:
        schedule = str(curve.values["schedule.name"])
        if not proven:
            return f"{schedule}, noise {curve.noise_multiplier:.3g}"
        # At one budget for all, the noise follows from the length.
        return f"{schedule}, {curve.steps[-1]} iterations" if schedule == Gossip.name else schedule

    draw_rivals(
        curves,
        epsilons,
        files[:2],
        title=sweep.title,
        name=name,
        until=float(sweep.figure["until"]),
        top_epsilon=float(sweep.figure["top_epsilon"]),
        epsilon_label=str(sweep.figure["epsilon"]),
    )
    write_empirical_csv(curves, files[2], epsilons)
    until = float(sweep.figure["until"])
    return [
        {"schedule": name(curve)} | _end(curve, until) | {"epsilon": float(epsilon[curve.last(until)])}
        for curve, epsilon in zip(curves, epsilons, strict=True)
    ]


def show_rows(title: str, found: list[dict[str, Any]]) -> None:
    """Print rows of final numbers as a table."""
    from rich.console import Console  # only where a table is shown
    from rich.table import Table

    table = Table(title=title, box=None, pad_edge=False, header_style="bold", title_justify="left")
    heads = [key for key in found[0] if key != "test_error_std"]
    for head in heads:
        table.add_column(head.replace("_", " "), justify="left" if isinstance(found[0][head], str) else "right")
    for entry in found:
        shown = {
            key: "-" if value is None else value if isinstance(value, str) else number(value)
            for key, value in entry.items()
        }
        shown["test_error"] = f"{entry['test_error']:.4f} ± {entry['test_error_std']:.4f}"
        table.add_row(*(shown[head] for head in heads))
    Console(highlight=False).print(table)
    print("Test error at the end of the axis: mean and standard deviation over runs.")


def _theory(number: int, out: Path, points: int, as_json: bool) -> None:
    from ..experiments import figure_curves  # loaded when the command runs
    from ..report import draw_paper_figure, write_curves_csv

    if points < 2:
        raise InvalidInput("points", points, "at least 2")
    curves = figure_curves(number, points=points)
    files = [out / f"figure{number}.{suffix}" for suffix in ("png", "svg", "csv")]
    draw_paper_figure(number, curves, files[:2])
    write_curves_csv(curves, files[2])
    if as_json:
        print_json({"figure": number, "curves": len(curves), "files": [str(file) for file in files]})
        return
    print(f"Figure {number}: {len(curves)} curves of {min(len(c.steps) for c in curves)} points or more")
    for file in files:
        print(f"  {file}")


def tables(as_json: Json = False) -> None:
    """Show the paper's timeouts and epsilons beside the tight ones, computed now."""
    from rich.console import Console  # loaded when the command runs
    from rich.progress import Progress

    from ..experiments import table_cells, theory_tables
    from ..report import theory_table

    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("accounting", total=table_cells())
        found = theory_tables(lambda n: progress.update(task, completed=n))
    if as_json:
        print_json(
            {
                "tables": [
                    {"title": table.title, "note": table.note, "columns": table.columns, "rows": table.rows}
                    for table in found
                ]
            }
        )
        return
    console = Console(highlight=False)
    for table in found:
        console.print(theory_table(table))
        console.print()
