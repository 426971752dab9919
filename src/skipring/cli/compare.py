"""Simulations side by side: `skipring compare`."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import InvalidInput
from ._output import Json, print_json, sentence
from ._work import counted_runs

if TYPE_CHECKING:
    from rich.table import Table

    from ..simulation import Alternative, Compared, Comparison

__all__ = ["compare"]


def compare(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A run file; `skipring init` writes one.")],
    timeouts: Annotated[
        str | None, typer.Option(metavar="LIST", help="Timeouts to compare: numbers, inf (never skip) or best.")
    ] = None,
    schedules: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Schedules to compare: ring, random-ring, random-walk, gossip, federated."),
    ] = None,
    noise: Annotated[str | None, typer.Option(metavar="LIST", help="Noise multipliers to compare.")] = None,
    error: Annotated[
        float | None, typer.Option(help="The test error to reach (default: 1.1 x the best final one).")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a value of the run file.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for results and figure, new or a comparison's own (default: FILE's name-compared).",
        ),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Number of runs of each (default: the run file's).")] = None,
    as_json: Json = False,
) -> None:
    """Simulate alternatives of a run file: which reaches an error first, and at what epsilon.

    Lists are separated by commas: --timeouts 0.005,0.04,inf. Only what is given varies.
    """
    from ..report import check_writable, draw_comparison  # loaded when the command runs
    from ..runs import unsaid_unit
    from ..simulation import alternatives

    if runs is not None and runs < 1:
        raise InvalidInput("runs", runs, "at least 1")
    chosen = alternatives(
        file,
        timeouts=None if timeouts is None else [_timeout(word) for word in _words("timeouts", timeouts)],
        schedules=None if schedules is None else _words("schedules", schedules),
        noise=None if noise is None else [_number("noise", word) for word in _words("noise", noise)],
        changes=[*(changes or []), *([] if runs is None else [f"simulation.runs={runs}"])],
    )
    folder = out if out is not None else Path(f"{file.stem}-compared")
    picture = folder / "comparison.png"
    began = time.perf_counter()
    comparison = _simulate(chosen, error, folder)
    check_writable(picture)
    draw_comparison({row.name: row.result for row in comparison.rows}, picture, error=comparison.error)
    if as_json:
        print_json(
            {
                "error": comparison.error,
                "alternatives": [_plain(row, folder) for row in comparison.rows],
                "figure": str(picture),
                "not_covered": _not_covered(comparison),
                "notes": _noted(comparison),
                "seconds": time.perf_counter() - began,
            }
        )
        return
    _show(comparison, folder, with_noise=noise is not None, unsaid=unsaid_unit(chosen[0].run))


def _words(option: str, text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise InvalidInput(option, text or "(empty)", "values separated by commas, none of them empty")
    return words


def _number(option: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise InvalidInput(option, word, "numbers separated by commas") from None


def _timeout(word: str) -> float | Literal["best"]:
    return "best" if word == "best" else _number("timeouts", word)


def _simulate(chosen: list[Alternative], error: float | None, folder: Path) -> Comparison:
    from ..simulation import compare_runs

    total = sum(other.run.simulation.runs for other in chosen)
    with counted_runs(total, f"they are in {folder}") as (stop, progress):
        return compare_runs(chosen, error=error, out=folder, stop=stop, progress=progress)


def _plain(row: Compared, folder: Path) -> dict[str, Any]:
    result = row.result
    return {
        "name": row.name,
        "folder": str(folder / row.name),
        "schedule": result.schedule,
        "timeout": result.resolved.timeout,
        "noise_multiplier": result.resolved.noise_multiplier,
        "time_to_error": row.time_to_error,
        "steps_to_error": row.steps_to_error,
        "epsilon_at_error": row.epsilon,
        **result.summary().to_json(),
    }


def _show(comparison: Comparison, folder: Path, *, with_noise: bool, unsaid: str | None) -> None:
    from rich.console import Console  # only where a table is shown

    console = Console(highlight=False)
    console.print(_table(comparison, with_noise=with_noise))
    delta = comparison.rows[0].result.privacy.delta
    names = {row.result.schedule for row in comparison.rows}
    rivals = " Gossip: a node's own releases." if "gossip" in names else ""
    rivals += " Federated: against the server." if "federated" in names else ""
    noted = [*([] if unsaid is None else [unsaid]), *_noted(comparison)]
    console.print(
        f"\nMean ± standard deviation over {comparison.rows[0].result.runs} runs. Epsilon is the forecast (method"
        f" tight, view offered), at delta {delta:g}, for a length fixed beforehand at the whole rounds made by then;"
        f" - where the error was not reached or no forecast holds.{rivals}"
        f" {' '.join([_not_covered(comparison), *map(sentence, noted)])}"
        f"\nResults and figure are in {folder}; next: skipring report {folder}/*",
        style="dim",
        markup=False,
    )


def _noted(comparison: Comparison) -> list[str]:
    """Return what the simulations say of their rows, each note once."""
    return list(dict.fromkeys(note for row in comparison.rows for note in row.result.resolved.notes))


def _not_covered(comparison: Comparison) -> str:
    """Say what no epsilon of the table counts."""
    units = dict.fromkeys(row.result.privacy.hides for row in comparison.rows if row.result.privacy.refused is None)
    words = f"Epsilon hides {' or '.join(units)}. " if units else ""
    words += "To stop a real run when an error is seen looks at data, and is not covered."
    if len(comparison.rows) > 1:
        words += f" Nor is choosing among these {len(comparison.rows)}: trying all of them on real data composes"
        words += ' (docs/privacy.md, "Several runs").'
    for more in dict.fromkeys(row.result.privacy.not_covered for row in comparison.rows):
        words += f" {sentence(more)}" if more is not None else ""
    return words


def _table(comparison: Comparison, *, with_noise: bool) -> Table:
    from rich.table import Table  # only where a table is shown

    from ..report import number

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("schedule")
    noise = ["noise"] if with_noise else []
    reached = f"time to\nerror {comparison.error:.3g}"
    for name in ("timeout", *noise, "test error", "latency", reached, "epsilon\nthen"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in comparison.rows:
        result, summary = row.result, row.result.summary()
        table.add_row(
            result.schedule,
            number(result.resolved.timeout),
            *([number(result.resolved.noise_multiplier)] if with_noise else []),
            f"{summary.test_error.mean:.4f} ± {summary.test_error.std:.4f}",
            number(summary.latency.mean),
            "-" if math.isinf(row.time_to_error) else number(row.time_to_error),
            "-" if row.epsilon is None else number(row.epsilon),
        )
    return table
