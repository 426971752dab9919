"""The curves of a sweep as a table: a line per cell and evaluation point."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .._writing import write_csv
from .curves import deviation
from .runner import SweepOutcome
from .sweep import Sweep

_METRICS = ("steps", "updates_mean", "latency_mean", "latency_std", "test_error_mean", "test_error_std")


def write_sweep_csv(sweep: Sweep, outcome: SweepOutcome, path: str | Path) -> None:
    """Write the mean and standard deviation over runs of every finished cell, at all its evaluation points."""
    lines: list[list[object]] = [["label", *sweep.varied, *_METRICS]]
    for cell in sweep.cells:
        if cell.key not in outcome.results:
            continue
        result = outcome.results[cell.key]
        known = [cell.label, *(_spelled(cell.value(key)) for key in sweep.varied)]
        columns = (
            result.points,
            result.updates.mean(axis=0),
            result.latency.mean(axis=0),
            deviation(result.latency),
            result.test_error.mean(axis=0),
            deviation(result.test_error),
        )
        lines += [[*known, *row] for row in zip(*(column.tolist() for column in columns), strict=True)]
    write_csv(path, lines)


def _spelled(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value).replace("Infinity", "inf")
