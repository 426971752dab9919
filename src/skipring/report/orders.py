"""Orders by design: noise and error against the number of nodes, as a figure and as a table of numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._writing import write_csv
from ..experiments import ORDER_BUDGET, ORDER_SCHEDULES, OrderRow, OrderStudy, WorstPairs
from ..privacy import RELATION
from .figures import PALETTE, figure_in
from .findings import Findings
from .tables import plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

_MARKERS = dict(zip(ORDER_SCHEDULES, ("s", "o", "D", "^"), strict=True))
_HEADS = (
    *("nodes", "rounds", "schedule", "epsilon", "delta", "protects", "against", "leakage_worst_pair"),
    *("noise_multiplier", "rate", "runs", "test_error", "test_error_std"),
)
_TABLE = ("nodes", "rounds", "random_mean_of_3", "rows", "searched", "searched_2_closing", "median_pair")


_NOTES = (
    f"All data of a node is protected ({RELATION}) against each other node that is always ready, final model included."
    " Nobody is skipped. Noise is for the worst pair of the order itself; of drawn orders, a mean over 3 of them.",
    "The rate of each cell is the best of four on a fifth of the training part, which no epsilon covers. The test rows"
    " were looked at once.",
)


def order_findings(study: OrderStudy, found: Sequence[OrderRow | WorstPairs]) -> Findings:
    """Return what came out of the study of orders by design."""
    rows = [each for each in found if isinstance(each, OrderRow)]
    pairs = [each for each in found if isinstance(each, WorstPairs)]
    title = f"Orders by design: {study.data}, logistic regression, {study.runs} runs"
    cells = [{**dataclasses.asdict(row), "errors": None, "error": row.error} for row in rows]
    budget = {"epsilon": ORDER_BUDGET[0], "delta": ORDER_BUDGET[1]}
    return Findings(
        title=title,
        facts=budget | {"rows": cells, "leakage": list(map(dataclasses.asdict, pairs))},
        tables=_tables(rows, pairs),
        notes=_NOTES,
        draw=lambda paths: _draw(rows, paths, title=title),
        write=lambda path: _write(rows, pairs, path),
    )


def _tables(rows: Sequence[OrderRow], pairs: Sequence[WorstPairs]) -> list[RenderableType]:
    cells = plain_table(right=("nodes", "rounds", "schedule", "noise", "rate", "test error"))
    cells.columns[2].justify = "left"
    for row in rows:
        numbers = f"{row.noise_multiplier:.3g}", f"{row.rate:g}", f"{row.error:.4f}"
        cells.add_row(str(row.nodes), str(row.rounds), row.schedule, *numbers)
    leakage = plain_table(right=("nodes", "rounds", "random", "rows", "searched", "and 2 closing", "median pair"))
    for worst in pairs:
        values = (worst.drawn, worst.rows, worst.searched, worst.closed, worst.median)
        leakage.add_row(str(worst.nodes), str(worst.rounds), *(f"{value:.3g}" for value in values))
    return [cells, "\nLeakage of the worst pair, constant step sizes (one release in full is 1)", leakage]


def _write(rows: Sequence[OrderRow], table: Sequence[WorstPairs], path: Path) -> list[Path]:
    """Write a line for each schedule and number of nodes; and the worst pairs' leakages to a file beside it."""
    lines: list[Sequence[object]] = [_HEADS]
    for row in rows:
        lines.append(
            [
                *(row.nodes, row.rounds, row.schedule, *ORDER_BUDGET, "node", "another node"),
                *(f"{row.leakage:.5g}", f"{row.noise_multiplier:.5g}", row.rate, len(row.errors)),
                *(f"{row.error:.5f}", f"{np.std(row.errors):.5f}"),
            ]
        )
    write_csv(path, lines)
    leakages: list[Sequence[object]] = [_TABLE]
    for worst in table:
        values = (worst.drawn, worst.rows, worst.searched, worst.closed, worst.median)
        leakages.append([worst.nodes, worst.rounds, *(f"{value:.4g}" for value in values)])
    beside = path.with_name(f"{path.stem}-leakage.csv")
    write_csv(beside, leakages)
    return [path, beside]


def _draw(rows: Sequence[OrderRow], paths: Sequence[Path], *, title: str) -> None:
    """Draw the noise that every pair's budget asks for, and the error that comes of it, against the number of nodes."""
    with figure_in(paths, 10.4, 4.6) as figure:
        noise, error = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
        for colour, (name, marker) in zip(PALETTE, _MARKERS.items(), strict=False):
            mine = [row for row in rows if row.schedule == name]
            nodes = [row.nodes for row in mine]
            noise.plot(nodes, [row.noise_multiplier for row in mine], color=colour, marker=marker, label=name)
            error.plot(nodes, [row.error for row in mine], color=colour, marker=marker)
            low, high = (np.array([np.quantile(row.errors, share) for row in mine]) for share in (0.25, 0.75))
            error.fill_between(nodes, low, high, color=colour, alpha=0.12, lw=0.0)
        epsilon, delta = ORDER_BUDGET
        kept = f"Noise with which every pair keeps epsilon {epsilon:g}, delta {delta:g}"
        noise.set(title=kept, ylabel="noise multiplier")
        error.set(title="Error that comes of it (mean and quartiles)", ylabel="error rate on the test set")
        for axes in (noise, error):
            axes.set(xlabel="number of nodes", xscale="log")
            axes.set_ylim(bottom=0.0)
        figure.suptitle(title, fontsize=10)
        figure.legend(loc="outside lower center", ncols=len(_MARKERS))
