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

__getattr__, __dir__ = lazily(__name__, __file__)
