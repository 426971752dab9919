"""Many runs in virtual time: how schedule, timeout and privacy budget play out on real data.

`RunFile` describes a simulation (`read_run_file`, `example_run_file`), `simulate` carries it out on all cores, and
`Result` holds the metrics of all runs with the privacy they cost. `compare_runs` puts `alternatives` side by side.
"""

from __future__ import annotations

from ..runs import RunFile, example_run_file, read_run_file, with_changes
from .build import build
from .comparison import Alternative, Comparison, alternatives, compare_runs
from .result import ResolvedFacts, Result, RunSummary, Spread
from .simulate import Interrupted, simulate
from .stragglers import Stragglers

__all__ = [
    "Alternative",
    "Comparison",
    "Interrupted",
    "ResolvedFacts",
    "Result",
    "RunFile",
    "RunSummary",
    "Spread",
    "Stragglers",
    "alternatives",
    "build",
    "compare_runs",
    "example_run_file",
    "read_run_file",
    "simulate",
    "with_changes",
]
