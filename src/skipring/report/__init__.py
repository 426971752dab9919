"""What people look at: tables for the terminal, figures with their numbers as CSV, and a page about simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .curves import draw_budgets as draw_budgets
    from .curves import draw_law_panels as draw_law_panels
    from .curves import draw_lines as draw_lines
    from .curves import draw_rivals as draw_rivals
    from .curves import draw_series as draw_series
    from .curves import write_empirical_csv as write_empirical_csv
    from .figures import check_writable as check_writable
    from .figures import draw_comparison as draw_comparison
    from .figures import draw_frontier as draw_frontier
    from .figures import draw_paper_figure as draw_paper_figure
    from .figures import write_curves_csv as write_curves_csv
    from .findings import Findings as Findings
    from .images import image_findings as image_findings
    from .laps import lap_findings as lap_findings
    from .orders import order_findings as order_findings
    from .page import load_folders as load_folders
    from .page import report_page as report_page
    from .page import row_of as row_of
    from .result import result_notes as result_notes
    from .result import result_rows as result_rows
    from .tables import plain_table as plain_table
    from .tables import plan_table as plan_table
    from .tables import theory_table as theory_table
    from .traces import trace_findings as trace_findings
    from .worth import draw_worth as draw_worth
    from .worth import worth_names as worth_names
    from .worth import worth_notes as worth_notes
    from .worth import worth_table as worth_table


__getattr__, __dir__ = lazily(__name__, __file__)
