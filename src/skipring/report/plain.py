"""The table that all others here begin as."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table


def plain_table(*columns: str, right: Sequence[str] = (), title: str | None = None) -> Table:
    """Return an empty table without lines; columns of words first, then those whose numbers stand at the right edge."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for column in right:
        table.add_column(column, justify="right", no_wrap=True)
    return table
