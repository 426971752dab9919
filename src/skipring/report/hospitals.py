"""Four hospitals: accuracy against epsilon, as a figure and as a table of numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._numbers import upper
from .._writing import write_csv
from ..experiments import ALWAYS_SICK, DELTA, FLAMBY, METHODS, Study, StudyRow
from .figures import PALETTE, figure_in
from .findings import Findings
from .tables import plain_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import RenderableType
    from rich.table import Table

#: Colour, marker and dashes of each method.
_LOOKS: dict[str, tuple[str, str, Any]] = {
    "record": (PALETTE[0], "o", "-"),
    "own": (PALETTE[5], "D", "-"),
    "node": (PALETTE[1], "s", "-"),
    "alone": (PALETTE[2], "^", "--"),
    "pooled": (PALETTE[6], "v", ":"),
}
_FLAMBY_MARKERS = ("X", "P")
_HEADS = (
    *("method", "meaning", "epsilon", "delta", "runs"),
    *(f"{what}_{part}" for what in ("hospitals", "rows") for part in ("mean", "low", "median", "high")),
    *("cleveland", "budapest", "zurich", "long_beach"),
    *("noise_multiplier", "worst_pair_median", "worst_pair_largest", "chosen_most_often", "chosen_share"),
)


_NOTES = (
    "Protected is one patient (one row each, so a record is a person) against each other hospital, if replaced by "
    "another. Nothing is promised for a whole hospital, except where the hospital is protected.",
    "Nobody is skipped. Epsilon is that of a pair named before; that of the worst pair on the paths taken is larger.",
    "Rate, rounds and clipping were chosen for each split on rows of its training part. No epsilon covers that search.",
    "FLamby's promise is another one: against the server, if a patient is added or left out.",
)


def hospital_findings(study: Study, rows: Sequence[StudyRow]) -> Findings:
    """Return what came out of the study of four hospitals."""
    models = f"{study.draws} models for each of {study.splits} splits"
    title = f"Heart disease at four hospitals, delta {DELTA:g}: {models}"
    return Findings(
        title=title,
        facts={"delta": DELTA, "rows": [dataclasses.asdict(row) for row in rows]},
        tables=_tables(rows),
        notes=_NOTES,
        draw=lambda paths: _draw(rows, paths, title=title),
        write=lambda path: _write(rows, path),
    )


def _tables(rows: Sequence[StudyRow]) -> list[RenderableType]:
    budgets = sorted({row.epsilon for row in rows if row.epsilon is not None})

    def table(head: str) -> Table:
        return plain_table(head, right=[f"{budget:g}" for budget in budgets])

    tables: list[RenderableType] = []
    for place, what in enumerate(("mean over hospitals (%)", "of all patients (%)")):
        shown = table(f"{what}, epsilon")
        lines: dict[str, dict[float | None, float]] = {METHODS[row.method]: {} for row in rows}
        for row in rows:
            spread = row.all_rows if place else row.mean_over_hospitals
            lines[METHODS[row.method]][row.epsilon] = spread.mean
        lines['always "sick"'] = {None: ALWAYS_SICK[place]}
        lines |= {} if place else FLAMBY
        for name, found in lines.items():
            # What does not depend on epsilon stands everywhere.
            alike = found.get(None) if set(found) == {None} else None
            values = [found.get(budget, alike) for budget in budgets]
            shown.add_row(name, *("-" if value is None else f"{100.0 * value:.1f}" for value in values))
        tables += [shown, ""]
    worst = table("worst pair of hospitals, paths taken: epsilon")
    for method in ("record", "own", "node"):
        pairs = {row.epsilon: row.realised[1] for row in rows if row.method == method and row.realised is not None}
        worst.add_row(METHODS[method], *(upper(pairs[budget], 3) for budget in budgets))
    return [*tables, worst, ""]


def _write(rows: Sequence[StudyRow], path: Path) -> list[Path]:
    """Write a line for each method and epsilon; accuracies are shares, `low` and `high` quartiles over runs."""
    lines: list[Sequence[object]] = [_HEADS]
    for row in rows:
        spreads = [row.mean_over_hospitals, row.all_rows]
        numbers = [value for one in spreads for value in (one.mean, one.low, one.median, one.high)]
        numbers += [*row.by_hospital, row.noise_multiplier]
        worst = ["", ""] if row.realised is None else [f"{value:.6g}" for value in row.realised]
        head = [row.method, METHODS[row.method], "" if row.epsilon is None else row.epsilon, DELTA, row.runs]
        shown = [f"{value:.6g}" for value in numbers]
        lines.append([*head, *shown, *worst, row.chosen, f"{row.chosen_share:.3g}"])
    write_csv(path, lines)
    return [path]


def _draw(rows: Sequence[StudyRow], paths: Sequence[Path], *, title: str) -> None:
    """Draw accuracy against epsilon, with quartiles over runs as bars: as mean over hospitals, and of all rows."""
    with figure_in(paths, 10.4, 5.8) as figure:
        left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
        _panel(left, rows, "mean over the four hospitals", of_all_rows=False)
        _panel(right, rows, "of all patients", of_all_rows=True)
        budgets = {row.epsilon for row in rows} - {None}
        for (name, found), marker in zip(FLAMBY.items(), _FLAMBY_MARKERS, strict=True):
            points = [(epsilon, 100.0 * value) for epsilon, value in found.items() if epsilon in budgets]
            left.plot(
                *zip(*points, strict=True),
                color="0.35",
                mec="white",
                marker=marker,
                ms=9,
                ls="none",
                zorder=5,
                label=name,
            )
        left.set_ylabel("right predictions for patients nobody learned from (%)")
        figure.suptitle(f"{title}; bars: quartiles", fontsize=10)
        named = dict(zip(*reversed(left.get_legend_handles_labels()), strict=True))
        order = [name for name in METHODS.values() if name in named]
        order += [name for name in named if name not in order]
        figure.legend([named[name] for name in order], order, loc="outside lower center", ncols=3, frameon=False)


def _panel(axes: Axes, rows: Sequence[StudyRow], title: str, *, of_all_rows: bool) -> None:
    epsilons = sorted({row.epsilon for row in rows if row.epsilon is not None})
    for number, (method, (colour, marker, dashes)) in enumerate(_LOOKS.items()):
        mine = [(row.epsilon, row.all_rows if of_all_rows else row.mean_over_hospitals) for row in rows]
        mine = [value for value, row in zip(mine, rows, strict=True) if row.method == method]
        # Side by side, so that bars do not hide each other.
        x = [(epsilon or 0.0) * 1.035 ** (number - 2) for epsilon, _ in mine]
        mean = [100.0 * spread.mean for _, spread in mine]
        low = [100.0 * max(0.0, spread.mean - spread.low) for _, spread in mine]
        high = [100.0 * max(0.0, spread.high - spread.mean) for _, spread in mine]
        axes.errorbar(
            x,
            mean,
            yerr=[low, high],
            color=colour,
            marker=marker,
            ls=dashes,
            ms=5,
            lw=1.4,
            elinewidth=0.8,
            capsize=2,
            label=METHODS[method],
        )
    quiet = next(row for row in rows if row.epsilon is None)
    level = 100.0 * (quiet.all_rows if of_all_rows else quiet.mean_over_hospitals).mean
    axes.axhline(level, color="0.2", lw=1.0, ls=(0, (8, 3)), label=METHODS[quiet.method])
    axes.axhline(100.0 * ALWAYS_SICK[of_all_rows], color="0.2", lw=1.0, ls=(0, (1, 2)), label='always "sick"')
    axes.set(title=title, xscale="log", xlabel="privacy budget epsilon (smaller protects more)", ylim=(30.0, 90.0))
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
