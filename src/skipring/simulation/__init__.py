"""Many runs in virtual time: how schedule, timeout and privacy budget play out on real data.

`RunFile` describes a simulation (`read_run_file`, `example_run_file`), `simulate` carries it out on all cores, and
`Result` holds the metrics of all runs with the privacy they cost.
"""

from __future__ import annotations

from .result import Result
from .runfile import RunFile, example_run_file, read_run_file, with_changes
from .simulate import Interrupted, build, simulate
from .stragglers import Stragglers

__all__ = [
    "Interrupted",
    "Result",
    "RunFile",
    "Stragglers",
    "build",
    "example_run_file",
    "read_run_file",
    "simulate",
    "with_changes",
]
