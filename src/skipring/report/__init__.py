"""What people look at: tables for the terminal, figures with their numbers as CSV, and a page about simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .figures import draw_comparison, draw_frontier, draw_paper_figure, write_curves_csv
    from .numbers import number
    from .page import report_page
    from .tables import plan_table, theory_table

__all__ = [
    "draw_comparison",
    "draw_frontier",
    "draw_paper_figure",
    "number",
    "plan_table",
    "report_page",
    "theory_table",
    "write_curves_csv",
]

_HOMES = {
    "draw_comparison": "figures",
    "draw_frontier": "figures",
    "draw_paper_figure": "figures",
    "number": "numbers",
    "plan_table": "tables",
    "report_page": "page",
    "theory_table": "tables",
    "write_curves_csv": "figures",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: a table must not wait for matplotlib."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    """Show the names that are loaded when they are first used, too."""
    return sorted(__all__)
