"""Orders by design: noise and error against the number of nodes, as a figure and as a table of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._writing import write_csv
from ..experiments import ORDER_BUDGET, ORDER_SCHEDULES, OrderRow, WorstPairs
from .figures import PALETTE, new_figure, save_figure, style

_MARKERS = dict(zip(ORDER_SCHEDULES, ("s", "o", "D", "^"), strict=True))
_HEADS = (
    *("nodes", "rounds", "schedule", "epsilon", "delta", "unit", "view", "leakage_worst_pair", "noise_multiplier"),
    *("rate", "runs", "test_error", "test_error_std"),
)
_TABLE = ("nodes", "rounds", "random_mean_of_3", "rows", "searched", "searched_2_closing", "median_pair")


def write_orders_csv(rows: Sequence[OrderRow], table: Sequence[WorstPairs], path: Path) -> None:
    """Write a line for each schedule and number of nodes; and the worst pairs' leakages to a file beside it."""
    lines: list[Sequence[object]] = [_HEADS]
    for row in rows:
        lines.append(
            [
                *(row.nodes, row.rounds, row.schedule, *ORDER_BUDGET, "node", "offered"),
                *(f"{row.leakage:.5g}", f"{row.noise_multiplier:.5g}", row.rate, len(row.errors)),
                *(f"{row.error:.5f}", f"{np.std(row.errors):.5f}"),
            ]
        )
    write_csv(path, lines)
    leakages: list[Sequence[object]] = [_TABLE]
    for worst in table:
        values = (worst.drawn, worst.rows, worst.searched, worst.closed, worst.median)
        leakages.append([worst.nodes, worst.rounds, *(f"{value:.4g}" for value in values)])
    write_csv(path.with_name(f"{path.stem}-leakage.csv"), leakages)


def draw_orders(rows: Sequence[OrderRow], paths: Sequence[Path], *, title: str) -> None:
    """Draw the noise that every pair's budget asks for, and the error that comes of it, against the number of nodes."""
    with style():
        figure = new_figure(10.4, 4.6)
        noise, error = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
        for place, name in enumerate(ORDER_SCHEDULES):
            mine = [row for row in rows if row.schedule == name]
            nodes = [row.nodes for row in mine]
            look: dict[str, Any] = {
                "color": PALETTE[place],
                "marker": _MARKERS[name],
                "ms": 5,
                "lw": 1.3,
                "label": name,
            }
            noise.plot(nodes, [row.noise_multiplier for row in mine], **look)
            error.plot(nodes, [row.error for row in mine], **look)
            low, high = (np.array([np.quantile(row.errors, share) for row in mine]) for share in (0.25, 0.75))
            error.fill_between(nodes, low, high, color=PALETTE[place], alpha=0.12, lw=0.0)
        epsilon, delta = ORDER_BUDGET
        noise.set(
            title=f"Noise with which every pair keeps epsilon {epsilon:g}, delta {delta:g}",
            xlabel="number of nodes",
            ylabel="noise multiplier",
            xscale="log",
        )
        noise.set_ylim(bottom=0.0)
        error.set(
            title="Error that comes of it (mean and quartiles)",
            xlabel="number of nodes",
            ylabel="error rate on the test set",
            xscale="log",
        )
        error.set_ylim(bottom=0.0)
        figure.suptitle(title, fontsize=10)
        handles, labels = noise.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        save_figure(figure, paths)
