"""Images with each record protected: accuracy against epsilon, as a figure and as a table of numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._numbers import upper
from .._writing import write_csv
from ..experiments import IMAGE_DELTA, IMAGE_LINES, ImageRow, ImageStudy
from ..privacy import RELATION
from .figures import PALETTE, figure_in
from .findings import Findings
from .tables import plain_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

_TITLES = {"mnist": "MNIST, 60 nodes of 1000 rows", "cifar10": "CIFAR-10, 50 nodes of 1000 rows"}
_LOOKS = (("o", "-"), ("s", "--"), ("^", "-"), ("v", "-"), ("D", "--"))
_HEADS = (
    *("data", "way", "unit", "relation", "epsilon", "delta", "method", "against", "epsilon_final_model"),
    *("runs", "accuracy_low", "accuracy_median", "accuracy_high", "validation_accuracy", "searched", "chosen"),
    *("noise_multiplier", "noise_std", "noise_of_others_counts"),
)


_NOTES = (
    f"Protected is one record ({RELATION}), in a walk against each other node. Nothing is promised for a whole node."
    " 30 % of the walk's hops are skipped; its epsilon is that of a pair named before.",
    "Length, rate and clipping were chosen on a sixth of the training part, with fewer nodes; the test rows were looked"
    " at once. No epsilon covers that search. Centrally trained numbers are for add or remove, and sampled.",
)


def image_findings(study: ImageStudy, rows: Sequence[ImageRow]) -> Findings:
    """Return what came out of the study of images."""
    title = f"Each record protected, delta {IMAGE_DELTA:g}: medians and quartiles of {study.runs} runs"
    return Findings(
        title=title,
        facts={"delta": IMAGE_DELTA, "rows": [dataclasses.asdict(row) | {"median": row.median} for row in rows]},
        tables=[_table(rows)],
        notes=_NOTES,
        draw=lambda paths: _draw(rows, paths, title=title),
        write=lambda path: _write(rows, path),
    )


def _table(rows: Sequence[ImageRow]) -> Table:
    table = plain_table("data", "way", right=("epsilon", "right (%)", "outsider's\nepsilon"))
    table.add_column("chosen", overflow="fold")
    for row in rows:
        numbers = (upper(row.epsilon, 3), f"{100.0 * row.median:.1f}", upper(row.final_epsilon, 3))
        table.add_row(row.data, row.name, *numbers, row.chosen)
    return table


def _write(rows: Sequence[ImageRow], path: Path) -> list[Path]:
    """Write a line for each way and epsilon; `low` and `high` are quartiles over runs."""
    lines: list[Sequence[object]] = [_HEADS]
    for row in sorted(rows, key=lambda one: (one.way, -one.epsilon)):
        quartiles = np.quantile(row.accuracies, [0.25, 0.5, 0.75])
        lines.append(
            [
                *(row.data, row.name, "record", RELATION, f"{row.epsilon:.4g}", IMAGE_DELTA, row.method),
                *(row.against, f"{row.final_epsilon:.4g}", len(row.accuracies)),
                *(f"{value:.4f}" for value in (*quartiles, row.validation)),
                *(row.searched, row.chosen, f"{row.noise_multiplier:.5g}"),
                "" if row.noise_std is None else f"{row.noise_std:.5g}",
                "yes" if row.amplified else "no",
            ]
        )
    write_csv(path, lines)
    return [path]


def _draw(rows: Sequence[ImageRow], paths: Sequence[Path], *, title: str) -> None:
    """Draw accuracy against epsilon, a panel for each data set."""
    data = list(dict.fromkeys(row.data for row in rows))
    with figure_in(paths, 5.2 * len(data), 4.8) as figure:
        for place, name in enumerate(data):
            axes = figure.add_subplot(1, len(data), place + 1)
            _panel(axes, [row for row in rows if row.data == name], name)
        figure.suptitle(title, fontsize=10)
        named = dict(zip(*reversed(figure.axes[0].get_legend_handles_labels()), strict=True))
        figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=2, frameon=False)


def _panel(axes: Axes, rows: Sequence[ImageRow], data: str) -> None:
    for place, way in enumerate(dict.fromkeys(row.name for row in rows)):
        mine = sorted((row for row in rows if row.name == way), key=lambda row: row.epsilon)
        x, marker = [row.epsilon for row in mine], _LOOKS[place % len(_LOOKS)]
        low, middle, high = (
            100.0 * np.array([np.quantile(row.accuracies, share) for row in mine]) for share in (0.25, 0.5, 0.75)
        )
        axes.errorbar(
            x,
            middle,
            yerr=[middle - low, high - middle],
            marker=marker[0],
            ls=marker[1],
            color=PALETTE[place],
            capsize=3,
            label=f"{way}, each record protected",
        )
    for place, (name, (epsilon, accuracy)) in enumerate(IMAGE_LINES[data].items()):
        if epsilon is None:
            axes.axhline(100.0 * accuracy, color="0.5", ls=":", lw=1.2, label=name)
        else:
            axes.plot(
                [epsilon], [100.0 * accuracy], marker="*", ms=11, ls="none", color="0.25", label=name, zorder=place
            )
    axes.set(
        xscale="log",
        xlabel=f"epsilon of a record, at delta {IMAGE_DELTA:g}",
        ylabel="right predictions for test images (%)",
        title=_TITLES[data],
    )
    ticks = sorted({round(row.epsilon, 3) for row in rows} | {3.0})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
