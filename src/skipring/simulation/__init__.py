"""Many runs in virtual time: how schedule, timeout and privacy budget play out on real data.

`simulate` carries out what a run file (`skipring.runs`) describes on all cores, and `Result` holds the metrics of all
runs with the privacy they cost. `compare_runs` puts `alternatives` side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .build import build
from .comparison import Alternative, Comparison, alternatives, compare_runs
from .lateness import Lateness
from .result import ResolvedFacts, Result, RunSummary, Spread, gather
from .simulate import Interrupted, one_blas_thread, simulate
from .stragglers import Stragglers

if TYPE_CHECKING:
    from .account import planned
    from .build import setup_of_rows, setup_on
    from .comparison import Compared
    from .engine import prepare_runs, run_one
    from .rivals import gossip_graphs
    from .rivals.privacy import chosen_pairs, why_not_hidden
    from .rivals.runs import who_is_ready
    from .setup import Setup
    from .table import COLUMNS, WORDS, ResultRow, latex_rows, result_row

__all__ = [
    "COLUMNS",
    "WORDS",
    "Alternative",
    "Compared",
    "Comparison",
    "Interrupted",
    "Lateness",
    "ResolvedFacts",
    "Result",
    "ResultRow",
    "RunSummary",
    "Setup",
    "Spread",
    "Stragglers",
    "alternatives",
    "build",
    "chosen_pairs",
    "compare_runs",
    "gather",
    "gossip_graphs",
    "latex_rows",
    "one_blas_thread",
    "planned",
    "prepare_runs",
    "result_row",
    "run_one",
    "setup_of_rows",
    "setup_on",
    "simulate",
    "who_is_ready",
    "why_not_hidden",
]

__getattr__, __dir__ = lazily(__name__, __file__)
