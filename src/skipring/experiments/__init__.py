"""Experiments as data: the paper's figures and tables, and sweeps, which are grids of simulations in a file.

`read_sweep` reads a sweep file into a `Sweep` of `Cell`s, and `run_sweep` computes those that are not in a folder yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .theory import FIGURES, TheoryCurve, figure_curves
from .theory_tables import TheoryTable, theory_tables

if TYPE_CHECKING:
    from .beyond import BEYOND, best_by_nodes, by_alpha, straggler_names
    from .curves import EmpiricalCurve, law_curves, paper_sweep, sweep_curves
    from .hospitals import ALWAYS_SICK, DELTA, FLAMBY, METHODS, Study, StudyRow, hospital_study
    from .images import IMAGE_DELTA, IMAGE_LINES, ImageRow, ImageStudy, image_study
    from .rivals import proven_epsilon, published_epsilon
    from .runner import Outcome, run_sweep
    from .statements import paper_numbers, statements_markdown
    from .store import Store
    from .sweep import Cell, Sweep, parse_sweep, read_sweep
    from .sweep_csv import write_sweep_csv
    from .theory import SKIPS, longest_latency
    from .theory_tables import table_cells

__all__ = [
    "ALWAYS_SICK",
    "BEYOND",
    "DELTA",
    "FIGURES",
    "FLAMBY",
    "IMAGE_DELTA",
    "IMAGE_LINES",
    "METHODS",
    "SKIPS",
    "Cell",
    "EmpiricalCurve",
    "ImageRow",
    "ImageStudy",
    "Outcome",
    "Store",
    "Study",
    "StudyRow",
    "Sweep",
    "TheoryCurve",
    "TheoryTable",
    "best_by_nodes",
    "by_alpha",
    "figure_curves",
    "hospital_study",
    "image_study",
    "law_curves",
    "longest_latency",
    "paper_numbers",
    "paper_sweep",
    "parse_sweep",
    "proven_epsilon",
    "published_epsilon",
    "read_sweep",
    "run_sweep",
    "statements_markdown",
    "straggler_names",
    "sweep_curves",
    "table_cells",
    "theory_tables",
    "write_sweep_csv",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "ALWAYS_SICK": "hospitals",
        "BEYOND": "beyond",
        "Cell": "sweep",
        "DELTA": "hospitals",
        "EmpiricalCurve": "curves",
        "FLAMBY": "hospitals",
        "IMAGE_DELTA": "images",
        "IMAGE_LINES": "images",
        "ImageRow": "images",
        "ImageStudy": "images",
        "METHODS": "hospitals",
        "Outcome": "runner",
        "SKIPS": "theory",
        "Store": "store",
        "Study": "hospitals",
        "StudyRow": "hospitals",
        "Sweep": "sweep",
        "best_by_nodes": "beyond",
        "by_alpha": "beyond",
        "hospital_study": "hospitals",
        "image_study": "images",
        "law_curves": "curves",
        "longest_latency": "theory",
        "paper_numbers": "statements",
        "paper_sweep": "curves",
        "parse_sweep": "sweep",
        "proven_epsilon": "rivals",
        "published_epsilon": "rivals",
        "read_sweep": "sweep",
        "run_sweep": "runner",
        "statements_markdown": "statements",
        "straggler_names": "beyond",
        "sweep_curves": "curves",
        "table_cells": "theory_tables",
        "write_sweep_csv": "sweep_csv",
    },
)
