"""Tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from .._numbers import number

if TYPE_CHECKING:
    from ..experiments import TheoryTable
    from ..planning import Plan, Plans


def plain_table(*columns: str, right: Sequence[str] = (), title: str | None = None) -> Table:
    """Return an empty table without lines; columns of words first, then those whose numbers stand at the right edge."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for column in right:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def plan_table(plans: Plans) -> Table:
    """Return the best plan and its alternatives, a column each."""
    columns: tuple[Plan, ...] = (plans.best, *plans.alternatives)
    table = plain_table("")
    for plan in columns:
        table.add_column(plan.name, justify="right")
    for label, field in (
        ("timeout", "timeout"),
        ("skip probability", "skip_probability"),
        ("steps", "steps"),
        ("expected updates", "expected_updates"),
        ("expected time", "expected_time"),
        ("rows per update", "batch"),
        ("turns for all rows", "parts"),
        ("noise multiplier", "noise_multiplier"),
        ("noise std", "noise_std"),
        ("learning rate", "learning_rate"),
        ("error bound", "error_bound"),
    ):
        if plans.budget.protects == "node" and field in ("batch", "parts", "noise_std"):
            continue  # a node's noise is the multiplier times the gradient bound, whatever its rows
        table.add_row(label, *(number(getattr(plan, field)) for plan in columns))
    return table


def theory_table(theory: TheoryTable) -> Table:
    """Return one of the paper's tables."""
    table = Table(title=theory.title, caption=theory.note, box=None, pad_edge=False, header_style="bold")
    for column in theory.columns:
        table.add_column(column, justify="right")
    for row in theory.rows:
        table.add_row(*(cell if isinstance(cell, str) else number(cell) for cell in row))
    return table
