"""The curves of a sweep as a table: a line per cell and evaluation point."""

from __future__ import annotations

import csv
import json
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np

from .._writing import whole_file
from ..errors import InvalidInput
from .runner import Outcome
from .sweep import Sweep

_METRICS = ("steps", "updates_mean", "latency_mean", "latency_std", "test_error_mean", "test_error_std")


def write_sweep_csv(sweep: Sweep, outcome: Outcome, path: str | Path) -> None:
    """Write the mean and standard deviation over runs of every finished cell, at all its evaluation points."""
    try:
        with whole_file(path) as whole, TextIOWrapper(whole, encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["label", *sweep.varied, *_METRICS])
            for cell in sweep.cells:
                if cell.key not in outcome.results:
                    continue
                result = outcome.results[cell.key]
                known = [cell.label, *(_spelled(cell.value(key)) for key in sweep.varied)]
                columns = (
                    result.points,
                    result.updates.mean(axis=0),
                    result.latency.mean(axis=0),
                    _deviation(result.latency),
                    result.test_error.mean(axis=0),
                    _deviation(result.test_error),
                )
                for row in zip(*(column.tolist() for column in columns), strict=True):
                    writer.writerow([*known, *row])
    except OSError as error:
        raise InvalidInput.because("out", path, f"cannot be written: {error.strerror}") from error


def _deviation(values: Any) -> Any:
    return values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])


def _spelled(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value).replace("Infinity", "inf")
