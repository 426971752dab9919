"""Orders by design: `skipring paper beyond order`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from ._output import print_json
from ._work import counted_runs

if TYPE_CHECKING:
    from ..experiments import OrderRow, WorstPairs

_NOTES = (
    "All data of a node is hidden (replace-one) from each other node that is always ready, final model included; nobody"
    " is skipped. Noise is for the worst pair of the order itself; where orders are drawn, a mean over 3 of them.",
    "The rate of each cell is the best of four on a fifth of the training part, which no epsilon covers; the test rows"
    " were looked at once.",
)


def orders(*, quick: bool, out: Path, runs: int | None, as_json: bool) -> None:
    """Design, draw, simulate, and print what came out."""
    from ..experiments import ORDER_BUDGET, OrderRow, OrderStudy, WorstPairs, order_study
    from ..report import draw_orders, write_orders_csv

    study = OrderStudy()
    if quick:
        study = OrderStudy(sizes=((4, 10), (12, 10)), runs=2, search=2000, data="breast-cancer")
    if runs is not None:
        study = dataclasses.replace(study, runs=runs)
    with counted_runs(study.pieces, "nothing is kept; begin anew") as (stop, progress):
        found = list(order_study(study, stop=stop, progress=progress))
    rows = [each for each in found if isinstance(each, OrderRow)]
    table = [each for each in found if isinstance(each, WorstPairs)]
    title = f"Orders by design: {study.data}, logistic regression, {study.runs} runs"
    files = [out / f"order{'-quick' if quick else ''}.{suffix}" for suffix in ("png", "svg", "csv")]
    draw_orders(rows, files[:2], title=title)
    write_orders_csv(rows, table, files[2])
    files.append(files[2].with_name(f"{files[2].stem}-leakage.csv"))
    if as_json:
        cells = [{**dataclasses.asdict(row), "errors": None, "error": row.error} for row in rows]
        budget = {"epsilon": ORDER_BUDGET[0], "delta": ORDER_BUDGET[1]}
        print_json(
            {"name": "order", **budget, "rows": cells, "leakage": list(map(dataclasses.asdict, table))}
            | {"notes": _NOTES, "files": list(map(str, files))}
        )
        return
    _show(title, rows, table)
    for file in files:
        print(f"  {file}")


def _show(title: str, rows: list[OrderRow], table: list[WorstPairs]) -> None:
    from rich.console import Console  # only where a table is shown
    from rich.table import Table

    console = Console(highlight=False)
    console.print(title)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("nodes", "rounds", "schedule", "noise", "rate", "test error"):
        shown.add_column(head, justify="left" if head == "schedule" else "right")
    for row in rows:
        shown.add_row(
            *(str(row.nodes), str(row.rounds), row.schedule, f"{row.noise_multiplier:.3g}", f"{row.rate:g}"),
            f"{row.error:.4f}",
        )
    console.print(shown)
    console.print("\nLeakage of the worst pair, constant step sizes (one release in full is 1)")
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("nodes", "rounds", "random", "rows", "searched", "and 2 closing", "median pair"):
        shown.add_column(head, justify="right")
    for worst in table:
        values = (worst.drawn, worst.rows, worst.searched, worst.closed, worst.median)
        shown.add_row(str(worst.nodes), str(worst.rounds), *(f"{value:.3g}" for value in values))
    console.print(shown)
    for note in _NOTES:
        console.print(note, style="dim")
