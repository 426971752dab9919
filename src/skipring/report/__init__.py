"""What people look at: tables for the terminal, figures with their numbers as CSV, and a page about simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .curves import draw_law_panels, draw_lines, draw_rivals, draw_series, write_empirical_csv
    from .figures import check_writable, draw_comparison, draw_frontier, draw_paper_figure, write_curves_csv
    from .hospitals import draw_hospitals, write_hospitals_csv
    from .images import draw_images, write_images_csv
    from .numbers import number
    from .orders import draw_orders, write_orders_csv
    from .page import load_folders, report_page, row_of
    from .tables import plan_table, theory_table
    from .traces import draw_traces, write_traces_csv
    from .worth import draw_worth, worth_names, worth_table

__all__ = [
    "check_writable",
    "draw_comparison",
    "draw_frontier",
    "draw_hospitals",
    "draw_images",
    "draw_law_panels",
    "draw_lines",
    "draw_orders",
    "draw_paper_figure",
    "draw_rivals",
    "draw_series",
    "draw_traces",
    "draw_worth",
    "load_folders",
    "number",
    "plan_table",
    "report_page",
    "row_of",
    "theory_table",
    "worth_names",
    "worth_table",
    "write_curves_csv",
    "write_empirical_csv",
    "write_hospitals_csv",
    "write_images_csv",
    "write_orders_csv",
    "write_traces_csv",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "check_writable": "figures",
        "draw_comparison": "figures",
        "draw_frontier": "figures",
        "draw_hospitals": "hospitals",
        "draw_traces": "traces",
        "write_traces_csv": "traces",
        "draw_images": "images",
        "draw_law_panels": "curves",
        "draw_lines": "curves",
        "draw_paper_figure": "figures",
        "draw_rivals": "curves",
        "draw_series": "curves",
        "draw_worth": "worth",
        "load_folders": "page",
        "write_orders_csv": "orders",
        "draw_orders": "orders",
        "number": "numbers",
        "plan_table": "tables",
        "report_page": "page",
        "row_of": "page",
        "theory_table": "tables",
        "worth_names": "worth",
        "worth_table": "worth",
        "write_curves_csv": "figures",
        "write_empirical_csv": "curves",
        "write_hospitals_csv": "hospitals",
        "write_images_csv": "images",
    },
)
