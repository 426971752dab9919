"""Experiments as data: the paper's figures and tables, and sweeps, which are grids of simulations in a file.

`read_sweep` reads a sweep file into a `Sweep` of `Cell`s, and `run_sweep` computes those that are not in a folder yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .theory import FIGURES, TheoryCurve, figure_curves
from .theory_tables import TheoryTable, theory_tables

if TYPE_CHECKING:
    from .beyond import BEYOND, best_by_nodes, by_alpha, straggler_names, updates_of_quarters
    from .curves import EmpiricalCurve, law_curves, paper_sweep, sweep_curves
    from .fedau import with_fedau
    from .hospitals import ALWAYS_SICK, DELTA, FLAMBY, METHODS, Study, StudyRow, hospital_study
    from .images import IMAGE_DELTA, IMAGE_LINES, ImageRow, ImageStudy, image_study
    from .orders import (
        ORDER_BUDGET,
        ORDER_SCHEDULES,
        OrderRow,
        OrderStudy,
        WorstPairs,
        order_study,
        worst_pairs,
    )
    from .rivals import proven_epsilon, published_epsilon
    from .runner import Outcome, run_sweep
    from .split_scores import Score
    from .statements import paper_numbers, statements_markdown
    from .store import Store
    from .sweep import Cell, Sweep, parse_sweep, read_sweep
    from .sweep_csv import write_sweep_csv
    from .theory import SKIPS, longest_latency
    from .theory_tables import table_cells
    from .traces import (
        TRACE_CASES,
        TRACE_DELTA,
        TRACE_FILES,
        TRACE_NOISE,
        TRACE_PANELS,
        TraceCurve,
        TraceStudy,
        trace_study,
    )
    from .worth_study import Band, Worth, WorthRow, baselines, pieces_of, worth

__all__ = [
    "ALWAYS_SICK",
    "BEYOND",
    "DELTA",
    "FIGURES",
    "FLAMBY",
    "IMAGE_DELTA",
    "IMAGE_LINES",
    "METHODS",
    "ORDER_BUDGET",
    "ORDER_SCHEDULES",
    "SKIPS",
    "TRACE_CASES",
    "TRACE_DELTA",
    "TRACE_FILES",
    "TRACE_NOISE",
    "TRACE_PANELS",
    "Band",
    "Cell",
    "EmpiricalCurve",
    "ImageRow",
    "ImageStudy",
    "OrderRow",
    "OrderStudy",
    "Outcome",
    "Score",
    "Store",
    "Study",
    "StudyRow",
    "Sweep",
    "TheoryCurve",
    "TheoryTable",
    "TraceCurve",
    "TraceStudy",
    "WorstPairs",
    "Worth",
    "WorthRow",
    "baselines",
    "best_by_nodes",
    "by_alpha",
    "figure_curves",
    "hospital_study",
    "image_study",
    "law_curves",
    "longest_latency",
    "order_study",
    "paper_numbers",
    "paper_sweep",
    "parse_sweep",
    "pieces_of",
    "proven_epsilon",
    "published_epsilon",
    "read_sweep",
    "run_sweep",
    "statements_markdown",
    "straggler_names",
    "sweep_curves",
    "table_cells",
    "theory_tables",
    "trace_study",
    "updates_of_quarters",
    "with_fedau",
    "worst_pairs",
    "worth",
    "write_sweep_csv",
]

__getattr__, __dir__ = lazily(__name__, __file__)
