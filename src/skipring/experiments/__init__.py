"""Experiments as data: the paper's figures and tables, and sweeps, which are grids of simulations in a file.

`read_sweep` reads a sweep file into a `Sweep` of `Cell`s, and `run_sweep` computes those that are not in a folder yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .theory import TheoryCurve as TheoryCurve
from .theory import TheoryTable as TheoryTable
from .theory import figure_curves as figure_curves
from .theory import theory_tables as theory_tables

if TYPE_CHECKING:
    from .beyond import BEYOND as BEYOND
    from .beyond import best_by_epsilon as best_by_epsilon
    from .beyond import best_by_nodes as best_by_nodes
    from .beyond import by_alpha as by_alpha
    from .beyond import straggler_names as straggler_names
    from .beyond import updates_of_quarters as updates_of_quarters
    from .curves import EmpiricalCurve as EmpiricalCurve
    from .curves import law_curves as law_curves
    from .curves import paper_sweep as paper_sweep
    from .curves import sweep_curves as sweep_curves
    from .curves import write_sweep_csv as write_sweep_csv
    from .fedau import with_fedau as with_fedau
    from .images import IMAGE_DELTA as IMAGE_DELTA
    from .images import IMAGE_LINES as IMAGE_LINES
    from .images import ImageRow as ImageRow
    from .images import ImageStudy as ImageStudy
    from .images import image_study as image_study
    from .laps import LAPS_WHO as LAPS_WHO
    from .laps import LapsRow as LapsRow
    from .laps import LapStudy as LapStudy
    from .laps import lap_study as lap_study
    from .orders import ORDER_BUDGET as ORDER_BUDGET
    from .orders import ORDER_SCHEDULES as ORDER_SCHEDULES
    from .orders import OrderRow as OrderRow
    from .orders import OrderStudy as OrderStudy
    from .orders import WorstPairs as WorstPairs
    from .orders import order_study as order_study
    from .orders import worst_pairs as worst_pairs
    from .rivals import proven_epsilon as proven_epsilon
    from .rivals import published_epsilon as published_epsilon
    from .runner import SweepOutcome as SweepOutcome
    from .runner import run_sweep as run_sweep
    from .split_scores import Score as Score
    from .statements import paper_numbers as paper_numbers
    from .statements import statements_markdown as statements_markdown
    from .store import Store as Store
    from .sweep import Cell as Cell
    from .sweep import Sweep as Sweep
    from .sweep import parse_sweep as parse_sweep
    from .sweep import read_sweep as read_sweep
    from .theory import SKIPS as SKIPS
    from .theory import longest_latency as longest_latency
    from .theory import table_cells as table_cells
    from .traces import TRACE_CASES as TRACE_CASES
    from .traces import TRACE_DELTA as TRACE_DELTA
    from .traces import TRACE_FILES as TRACE_FILES
    from .traces import TRACE_NOISE as TRACE_NOISE
    from .traces import TRACE_PANELS as TRACE_PANELS
    from .traces import TraceCurve as TraceCurve
    from .traces import TraceStudy as TraceStudy
    from .traces import trace_study as trace_study
    from .worth_study import Band as Band
    from .worth_study import Worth as Worth
    from .worth_study import WorthRow as WorthRow
    from .worth_study import baselines as baselines
    from .worth_study import pieces_of as pieces_of
    from .worth_study import worth as worth


__getattr__, __dir__ = lazily(__name__, __file__)
