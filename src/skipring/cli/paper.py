"""The paper, regenerated: `skipring paper figure`, `tables` and `numbers`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._numbers import number, upper
from ..errors import InvalidInput
from . import _options as options
from ._output import Json, print_json, show
from .sweep import swept

if TYPE_CHECKING:
    from ..experiments import EmpiricalCurve, Sweep, SweepOutcome

_THEORY, _SIMULATED = (2, 3, 6), (4, 5)


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """Which of the simulated figures, and how much of it."""

    row: Annotated[int | None, typer.Option(help="Figure 4: 1 or 2 (houses), 3 (MNIST) or 4 (CIFAR-10).")] = None
    quick: Annotated[bool, typer.Option("--quick", help="Figures 4 and 5: a few runs, for a look.")] = False
    clipped: Annotated[
        bool, typer.Option("--clipped", help="Figure 4, rows 3 and 4: clip gradients, so that privacy is valid.")
    ] = False
    records: Annotated[
        bool, typer.Option("--records", help="Figure 4, rows 3 and 4: protect every record, by the same noise.")
    ] = False
    tight: Annotated[
        bool, typer.Option("--tight", help="Figure 4, row 2, and Figure 5: noise for the paper's epsilon, if proven.")
    ] = False
    cells: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of finished simulations (default: OUT/sweeps).")
    ] = None
    runs: Annotated[int | None, typer.Option(help="Figures 4 and 5: number of runs (default: the paper's).")] = None

    def refuse(self, reason: str, *names: str) -> None:
        """Refuse those of these options that were given, or all."""
        for name, value in vars(self).items():
            if (not names or name in names) and value is not None and value is not False:  # 0 was given, too
                raise InvalidInput.because(name, "", reason)

    def sweep_name(self, number: int) -> str:
        """Return the name of the sweep behind a figure; refuse options that do not go with it."""
        if number == 5:
            self.refuse("the option is for Figure 4", "row", "clipped", "records")
            return "figure5-tight" if self.tight else "figure5"
        if self.row not in (1, 2, 3, 4):
            raise InvalidInput("row", "missing" if self.row is None else self.row, "1, 2, 3 or 4")
        if self.row < 3:
            self.refuse("the option is for rows 3 and 4; rows 1 and 2 need no clipping", "clipped", "records")
        if self.records:
            self.refuse("with records each record's gradient is clipped, not a node's", "clipped")
        if self.row != 2:
            self.refuse("the option is for row 2", "tight")
        parts = ("clipped", "records", "tight")
        return f"figure4-row{self.row}" + "".join(f"-{part}" for part in parts if getattr(self, part))


def figure(
    number: Annotated[int, typer.Argument(help="2 to 6.", metavar="NUMBER")],
    simulated: Simulated,
    *,
    out: Annotated[Path, typer.Option(help="Folder for the PNG, SVG and CSV files.")] = Path("paper-figures"),
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
        simulated.refuse(f"Figure {number} is computed, not simulated: leave the option out")
        _theory(number, out, points, as_json)
        return
    name = simulated.sweep_name(number)
    from ..experiments import paper_sweep  # loaded when the command runs

    sweep = paper_sweep(name, quick=simulated.quick, changes=options.with_runs(None, simulated.runs))
    outcome = simulate_sweep(sweep, simulated.cells if simulated.cells is not None else out / "sweeps")
    files = files_of(out / (name + ("-quick" if simulated.quick else "")))
    if number == 4:
        found = _draw_rows(sweep, outcome, files)
    else:
        found = _draw_rivals(sweep, outcome, files, proven=simulated.tight)
    tell_figure({"figure": number, "sweep": name, "curves": found}, sweep.title, found, files, as_json=as_json)


def files_of(base: Path) -> list[Path]:
    """Return the picture's two files, and that of its numbers."""
    return [base.with_name(f"{base.name}.{suffix}") for suffix in ("png", "svg", "csv")]


def tell_files(files: Iterable[object]) -> None:
    """Print where a figure and its numbers are."""
    for file in files:
        print(f"  {file}")


def tell_figure(
    facts: dict[str, Any], title: str, rows: Sequence[dict[str, Any]], files: Sequence[Path], *, as_json: bool
) -> None:
    """Print the rows of a figure's final numbers as a table, or all that is known of it as JSON."""
    if as_json:
        print_json(facts | {"files": list(map(str, files))})
        return
    heads = [key for key in rows[0] if key != "test_error_std"]
    from ..report import plain_table

    table = plain_table(title=title)
    for head in heads:
        table.add_column(head.replace("_", " "), justify="left" if isinstance(rows[0][head], str) else "right")
    for entry in rows:
        shown = {key: _cell(key, value) for key, value in entry.items()}
        shown["test_error"] = f"{entry['test_error']:.4f} ± {entry['test_error_std']:.4f}"
        table.add_row(*(shown[head] for head in heads))
    show(table)
    print("Test error at the end of the axis: mean and standard deviation over runs.")
    tell_files(files)


def simulate_sweep(sweep: Sweep, folder: Path) -> SweepOutcome:
    """Simulate what is missing of a sweep, with a progress bar; a cell that fails ends the command."""
    outcome = swept(sweep, folder)
    for reason in outcome.failures.values():
        raise InvalidInput.because("SWEEP", sweep.name, reason)
    return outcome


def _draw_rows(sweep: Sweep, outcome: SweepOutcome, files: list[Path]) -> list[dict[str, Any]]:
    from ..experiments import law_curves
    from ..privacy import RELATION
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
        title += f"; epsilon {ends} of a {privacy.protects} ({RELATION}), delta {privacy.delta:g}"
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


def _draw_rivals(sweep: Sweep, outcome: SweepOutcome, files: list[Path], *, proven: bool) -> list[dict[str, Any]]:
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


def _cell(key: str, value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return "-" if value is None else value
    return upper(value) if key == "epsilon" else number(value)


def _theory(number: int, out: Path, points: int, as_json: bool) -> None:
    from ..experiments import figure_curves  # loaded when the command runs
    from ..report import draw_paper_figure, write_curves_csv

    if points < 2:
        raise InvalidInput("points", points, "at least 2")
    curves = figure_curves(number, points=points)
    files = files_of(out / f"figure{number}")
    draw_paper_figure(number, curves, files[:2])
    write_curves_csv(curves, files[2])
    if as_json:
        print_json({"figure": number, "curves": len(curves), "files": [str(file) for file in files]})
        return
    print(f"Figure {number}: {len(curves)} curves of {min(len(c.steps) for c in curves)} points or more")
    tell_files(files)


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


def numbers(
    results: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with the CSV files of all figures.")] = Path(
        "paper-figures"
    ),
    as_json: Json = False,
) -> None:
    """Print what the paper states in numbers beside what the figures' CSV files say, as a table in Markdown."""
    from ..experiments import paper_numbers, statements_markdown  # loaded when the command runs

    found = paper_numbers(results)
    if as_json:
        print_json({"statements": [asdict(statement) for statement in found]})
        return
    print(statements_markdown(found), end="")
