"""Experiments as data: the paper's figures and tables, and sweeps, which are grids of simulations in a file.

`read_sweep` reads a sweep file into a `Sweep` of `Cell`s, and `run_sweep` computes those that are not in a folder yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .theory import FIGURES, TheoryCurve, figure_curves
from .theory_tables import TheoryTable, theory_tables

if TYPE_CHECKING:
    from .runner import Outcome, run_sweep
    from .store import Store
    from .sweep import Cell, Sweep, parse_sweep, read_sweep
    from .sweep_csv import write_sweep_csv

__all__ = [
    "FIGURES",
    "Cell",
    "Outcome",
    "Store",
    "Sweep",
    "TheoryCurve",
    "TheoryTable",
    "figure_curves",
    "parse_sweep",
    "read_sweep",
    "run_sweep",
    "theory_tables",
    "write_sweep_csv",
]

_HOMES = {
    "Cell": "sweep",
    "Outcome": "runner",
    "Store": "store",
    "Sweep": "sweep",
    "parse_sweep": "sweep",
    "read_sweep": "sweep",
    "run_sweep": "runner",
    "write_sweep_csv": "sweep_csv",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: the paper's tables must not wait for the simulator."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    """Show the names that are loaded when they are first used, too."""
    return sorted(__all__)
