"""Simulations side by side: `skipring compare`."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .._command import command
from .._json import to_json
from .._numbers import number
from . import _options as options
from ._output import Json, bound, noted, numbers_of, print_json, sentence, show, what_holds, words_of
from ._work import counted_runs

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ..runs import RunFile
    from ..simulation import Alternative, Compared, Comparison, Result


@dataclass(frozen=True, kw_only=True)
class Varied:
    """What differs between the alternatives of a run file: lists, separated by commas."""

    timeouts: Annotated[
        str | None, typer.Option(metavar="LIST", help="Timeouts to compare: numbers, inf (never skip) or most-updates.")
    ] = None
    schedules: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Schedules to compare: ring, random-ring, designed-ring, random-walk, gossip, federated.",
        ),
    ] = None
    noise: Annotated[str | None, typer.Option(metavar="LIST", help="Noise multipliers to compare.")] = None
    epsilons: Annotated[
        str | None, typer.Option(metavar="LIST", help="Epsilons to compare, whose noise follows; inf: no noise.")
    ] = None

    def alternatives(self, file: Path, changes: list[str]) -> list[Alternative]:
        """Return every combination of what the lists say."""
        from ..simulation import alternatives  # loaded when the command runs

        timeouts = None if self.timeouts is None else [_timeout(word) for word in words_of("timeouts", self.timeouts)]
        schedules = None if self.schedules is None else words_of("schedules", self.schedules)
        noise = None if self.noise is None else numbers_of("noise", self.noise)
        epsilons = None if self.epsilons is None else numbers_of("epsilons", self.epsilons)
        return alternatives(
            file, timeouts=timeouts, schedules=schedules, noise=noise, epsilons=epsilons, changes=changes
        )

    @property
    def column(self) -> str | None:
        """What the table calls the noise that varies, if it does."""
        return "noise" if self.noise is not None else "budget" if self.epsilons is not None else None


def compare(
    given: options.Given,
    varied: Varied,
    *,
    error: Annotated[
        float | None, typer.Option(help="The test error to reach (default: 1.1 x the best final one).")
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

    Lists are separated by commas: --timeouts 0.005,0.04,inf. Only what is given varies. Below the table stands what
    guessing, each node alone, and all rows in one place reach without noise.
    """
    from ..report import check_writable, draw_comparison  # loaded when the command runs

    chosen = varied.alternatives(given.file, options.with_runs(given.changes, runs))
    folder = out if out is not None else Path(f"{given.file.stem}-compared")
    picture = folder / "comparison.png"
    began = time.perf_counter()
    comparison = _simulate(chosen, error, folder)
    near = _baselines(chosen[0].run, comparison)
    check_writable(picture)
    draw_comparison({row.name: row.result for row in comparison.rows}, picture, error=comparison.error)
    if not as_json:
        _show(comparison, folder, near, varies=varied.column)
        return
    print_json(
        {
            "error": comparison.error,
            "alternatives": [_plain(row, folder) for row in comparison.rows],
            "baselines": near,
            "figure": str(picture),
            "not_covered": _not_covered(comparison),
            "notes": noted(_results(comparison)),
            "seconds": time.perf_counter() - began,
        }
    )


def _timeout(word: str) -> float | Literal["most-updates"]:
    return "most-updates" if word == "most-updates" else numbers_of("timeouts", word)[0]


def _simulate(chosen: list[Alternative], error: float | None, folder: Path) -> Comparison:
    from ..simulation import compare_runs

    def kept() -> str:
        begins = "a comparison of all begins anew, with another --out"
        return f"they are in {folder}; {begins}" if any(folder.glob("*/metrics.npz")) else begins

    total = sum(other.run.simulation.runs for other in chosen)
    with counted_runs(total, kept) as (stop, progress):
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
        "epsilon_every_pair": result.privacy.every_pair,
        **to_json(result.summary()),
    }


def _baselines(run: RunFile, comparison: Comparison) -> dict[str, float]:
    """Return the test errors of what needs no noise: guess, each node alone (mean over nodes), all rows in one place.

    Of networks, only the guess.
    """
    from ..experiments import baselines

    if run.model.is_network:
        guess = comparison.rows[0].result.resolved.guess
        return {} if guess is None else {"guess": guess.error}
    return {who: score.mean_over_nodes for who, score in baselines(run).items()}


def _show(comparison: Comparison, folder: Path, near: dict[str, float], *, varies: str | None) -> None:
    from ..learning import is_of_numbers
    from ..report import worth_names
    from ..schedules import RIVALS

    shown: list[RenderableType] = [_table(comparison, varies)]
    if near:
        called = worth_names(numbers=is_of_numbers(comparison.rows[0].result.resolved.model))
        found = ", ".join(f"{called[who]} {error:.4f}" for who, error in near.items())
        shown.append(f"\nWithout noise, mean over nodes: {found}.")
    delta = comparison.rows[0].result.privacy.delta
    names = {row.result.schedule for row in comparison.rows}
    rivals = "".join(f" {rival.against}" for rival in RIVALS.values() if rival.name in names)
    notes = [
        f"Mean ± standard deviation over {comparison.rows[0].result.runs} runs.",
        "Epsilon of all, at the end: as promised where that is for every pair, else of the worst pair of the first run."
        + _averages(comparison),
        f"Epsilon then: as promised (method tight), at delta {delta:g}, for a length fixed beforehand"
        " at the whole rounds made by then. It is - for laps, and where the error was not reached or nothing is"
        " promised." + rivals,
        _not_covered(comparison),
        *map(sentence, noted(_results(comparison))),
    ]
    note = f"\n{' '.join(notes)}\nResults and figure are in {folder}; next:"
    show(*shown, note=note, then=f"{command('report', folder)}/*")


def _averages(comparison: Comparison) -> str:
    """Say which promises are averages over orders, and how many pairs are above them."""
    from ..privacy import average_words

    above: dict[str, list[float]] = {}
    for row in comparison.rows:
        privacy = row.result.privacy
        if privacy.averaged:
            shares = above.setdefault(row.result.schedule, [])
            found = privacy.in_this_run
            shares += [found.above] if found and found.above is not None else []
    return "".join(f" For {name} {average_words(shares)}." for name, shares in above.items())


def _results(comparison: Comparison) -> list[Result]:
    return [row.result for row in comparison.rows]


def _not_covered(comparison: Comparison) -> str:
    """Say what no epsilon of the table counts."""
    words = "To stop a real run when an error is seen looks at data, and is not covered."
    if len(comparison.rows) > 1:
        words += f" Nor is choosing among these {len(comparison.rows)}: trying all of them on real data composes"
        words += ' (docs/privacy.md, "Several runs").'
    return what_holds(_results(comparison), "Epsilon", words)


def _table(comparison: Comparison, varies: str | None) -> Table:
    from ..report import plain_table

    reached, noise = f"time to\nerror {comparison.error:.3g}", [] if varies is None else [varies]
    columns = ("timeout", *noise, "test error", "latency", "epsilon\nof all", reached, "epsilon\nthen")
    table = plain_table("schedule", right=columns)
    # One more column fits into 80 characters only if they are closer together.
    table.padding = (0, 1) if varies is None else (0, 1, 0, 0)
    table.columns[0].no_wrap = True
    for row in comparison.rows:
        result, summary = row.result, row.result.summary()
        table.add_row(
            result.schedule,
            number(result.resolved.timeout),
            *([] if varies is None else [number(_varied(result, varies))]),
            f"{summary.test_error.mean:.4f} ± {summary.test_error.std:.4f}",
            number(summary.latency.mean),
            bound(result.privacy.every_pair),
            "-" if math.isinf(row.time_to_error) else number(row.time_to_error),
            bound(row.epsilon),
        )
    return table


def _varied(result: Result, what: str) -> float:
    """Return the noise of an alternative, or the epsilon that it was to keep: infinity without noise."""
    noise = result.resolved.noise_multiplier
    if what == "noise":
        return noise
    return math.inf if noise == 0.0 else float(result.settings["privacy"]["epsilon"])
