"""The paper's figures and tables as data: each experiment returns its numbers, and the report room draws them."""

from __future__ import annotations

from .theory import FIGURES, TheoryCurve, figure_curves
from .theory_tables import TheoryTable, theory_tables

__all__ = ["FIGURES", "TheoryCurve", "TheoryTable", "figure_curves", "theory_tables"]
